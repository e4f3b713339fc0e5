"""Joint searches against the same searches one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.hypotheses import make_groups, make_hypotheses
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.options import Options
from moses_bridge.builtin.decoder.search import Limits, search
from moses_bridge.builtin.decoder.searches import (
    Memory,
    Searches,
    groups_of,
    hypotheses_of,
    join_searches,
    next_stacks,
    start_searches,
)
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model

SOURCES = [b"u v w", b"w x v u v", b"v", b"u w v u v w u"]
LIMITS = Limits(6, 12, 6)
MEMBERS = "previous", "options", "starts", "ends", "scores", "estimates", "arcs", "next_arcs"


@pytest.fixture
def translator(toy: Model) -> Translator:
    return Translator(toy, make_weighted_model(toy, toy.weight_vector(None)), LIMITS)


def options_of(translator: Translator) -> list[Options]:
    sentences = [translator.sentence(source) for source in SOURCES]
    return [sentence.options for sentence in sentences if sentence is not None]


def joined(
    translator: Translator, options: list[Options], stand_ins: float, memory: Memory | None = None
) -> Searches:
    standing = [np.full(len(each.rows), stand_ins) for each in options]
    room = memory or Memory(LIMITS, translator.model.lm.order, 0)
    searches = join_searches(options, standing, room)
    start_searches(searches, translator.weighted.lm)
    return searches


def go_on(
    n_covered: int, values: NDArray[np.float64], searches: Searches, translator: Translator
) -> None:
    """Close the open stacks with values, and open the next ones."""
    next_stacks(n_covered, values, 0.0, searches, translator.work)


def n_open(searches: Searches) -> int:
    return int((searches.hyps.size - searches.firsts).sum())


def filled(
    translator: Translator, options: list[Options], added: float, memory: Memory | None = None
) -> Searches:
    """Searches replacing a value of each hypothesis by an equal one."""
    searches = joined(translator, options, added, memory)
    values = np.zeros(0)
    for n_covered in range(1, max(each.n_words for each in options) + 2):
        go_on(n_covered, values, searches, translator)
        values = np.full(n_open(searches), added)
    return searches


def test_searches_side_by_side_are_those_of_single_sentences(translator: Translator) -> None:
    options = options_of(translator)
    searches = filled(translator, options, 0.25)
    for i, each in enumerate(options):
        order = translator.model.lm.order
        hyps = make_hypotheses(each.n_words, LIMITS.pop_limit, order, 0)
        groups = make_groups(each.n_words, LIMITS.stack_size, LIMITS.pop_limit)
        search(each, hyps, groups, translator.work)
        found, found_groups, n = hypotheses_of(i, searches), groups_of(i, searches), hyps.size[0]
        assert found.size.tolist() == [n] and n > 10 * (each.n_words > 1)
        for name in MEMBERS:
            assert getattr(found, name)[1:n].tolist() == getattr(hyps, name)[1:n].tolist(), name
        assert found_groups.stack_starts.tolist() == groups.stack_starts.tolist()
        n_groups = groups.stack_starts[-1]
        for name in ("windows", "gaps", "starts"):
            old, new = getattr(groups, name)[:n_groups], getattr(found_groups, name)[:n_groups]
            assert new.tolist() == old.tolist(), name


def test_memory_of_other_searches_changes_nothing(translator: Translator) -> None:
    options, memory = options_of(translator), Memory(LIMITS, translator.model.lm.order, 0)
    for part in (options[:1], options, options[2:]):
        old, new = filled(translator, part, 0.25), filled(translator, part, 0.25, memory)
        for i in range(len(part)):
            found, expected = hypotheses_of(i, new), hypotheses_of(i, old)
            n = expected.size[0]
            assert found.size[0] == n
            for name in MEMBERS:
                assert getattr(found, name)[:n].tolist() == getattr(expected, name)[:n].tolist()


def test_a_value_replaces_its_stand_in(translator: Translator) -> None:
    searches = joined(translator, options_of(translator), 0.5)
    go_on(1, np.zeros(0), searches, translator)
    before, firsts, sizes = (
        searches.hyps.scores.copy(), searches.firsts.copy(), searches.hyps.size - searches.firsts
    )  # fmt: skip
    values = np.random.default_rng(1).normal(size=int(sizes.sum()))
    go_on(2, values, searches, translator)
    for i, part in enumerate(np.split(values, np.cumsum(sizes)[:-1])):
        first = searches.parts.hyps[i] + firsts[i]
        changed = searches.hyps.scores[first : first + len(part)]
        np.testing.assert_allclose(changed, before[first : first + len(part)] + part - 0.5)


def test_sentences_that_are_complete_have_no_more_stacks(translator: Translator) -> None:
    searches = filled(translator, options_of(translator), 0.0)
    sizes = searches.hyps.size.tolist()
    assert n_open(searches) == 0
    go_on(9, np.zeros(0), searches, translator)
    assert searches.firsts.tolist() == searches.hyps.size.tolist() == sizes
