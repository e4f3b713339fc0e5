from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.builtin.decoder.hypotheses import (
    Groups,
    Hypotheses,
    add_hypothesis,
    close_stack,
    make_groups,
    make_hypotheses,
    same_future,
)
from moses_bridge.builtin.decoder.options import Options, no_costs

N_WORDS, N_OPTIONS = 5, 4
REORDERING = np.array([[0, 0, 0, 1, 2, 3], [9, 9, 9, 1, 2, 3], [0, 0, 0, 1, 2, 4], [0] * 6], float)


@njit
def add(hyps: Hypotheses, option: int, end: int, estimate: float, context: int) -> int:
    hyp = add_hypothesis(hyps, 0, option, end - 1, end, estimate, estimate)
    hyps.coverages[hyp] = end % 2
    hyps.windows[hyp], hyps.gaps[hyp] = 5 + end % 2, 1 - end % 2
    hyps.contexts[hyp, 0], hyps.context_sizes[hyp] = context, 1
    return hyp


@njit
def are_the_same(options: Options, hyps: Hypotheses, one: int, other: int) -> bool:
    return same_future(options, hyps, one, other)


@pytest.fixture
def options() -> Options:
    """Options with nothing but reordering scores."""
    none, counts = np.zeros(N_OPTIONS), np.zeros(N_OPTIONS, np.int32)
    return Options(
        n_words=N_WORDS,
        max_words=1,
        span_starts=np.zeros(N_WORDS + 1, np.int32),
        rows=np.zeros(N_OPTIONS, np.int64),
        starts=counts,
        ends=counts,
        stateless_scores=none,
        estimates=none,
        reordering=REORDERING,
        between=np.zeros(N_WORDS + 1),
        word_starts=np.zeros(N_OPTIONS + 1, np.int32),
        words=counts,
        lm_words=counts,
        suffix_scores=none,
        context_sizes=counts,
        future_costs=no_costs(N_WORDS),
    )


def filled(hyps: Hypotheses, seed: int, n: int) -> list[tuple[Any, ...]]:
    """Random hypotheses of a stack, with the state of each and its estimate."""
    hyps.size[0] = 1
    generator, keys = np.random.default_rng(seed), []
    for _ in range(n):
        option, end, context = (int(generator.integers(0, k)) for k in (N_OPTIONS, 3, 2))
        estimate = float(generator.normal())
        add(hyps, option, end + 1, estimate, context)
        keys.append((end + 1, context, tuple(REORDERING[option, 3:]), estimate))
    return keys


def test_the_same_future_is_equal_coverage_span_context_and_reordering(options: Options) -> None:
    hyps = make_hypotheses(N_WORDS, 100, 2, 0)
    keys = filled(hyps, 1, 60)
    for one, other in itertools.combinations(range(60), 2):
        same = keys[one][:3] == keys[other][:3]
        assert are_the_same(options, hyps, one + 1, other + 1) == same


@pytest.mark.parametrize(("stack_size", "n_covered"), [(3, 2), (100, 2), (3, N_WORDS)])
def test_the_best_of_each_kind_stays_and_has_the_others_as_arcs(
    options: Options, stack_size: int, n_covered: int
) -> None:
    hyps, groups = make_hypotheses(N_WORDS, 100, 2, 0), make_groups(N_WORDS, stack_size, 100)
    groups.starts[0] = 0  # as in `start_search`
    keys = filled(hyps, 2, 80)
    close_stack(n_covered, 1, stack_size, options, hyps, groups)
    kinds: dict[tuple[Any, ...], list[float]] = {}
    for *kind, estimate in keys:
        kinds.setdefault(tuple(kind), []).append(estimate)
    best = sorted((max(each) for each in kinds.values()), reverse=True)
    kept = best if n_covered == N_WORDS else best[:stack_size]
    members = members_of(groups, n_covered)
    assert sorted((float(hyps.estimates[m]) for m in members), reverse=True) == kept
    for member in members:
        *kind, estimate = keys[member - 1]
        losers = [estimate, *(float(hyps.estimates[arc]) for arc in arcs_of(hyps, member))]
        assert sorted(losers) == sorted(kinds[tuple(kind)])


def members_of(groups: Groups, stack: int) -> list[int]:
    """All hypotheses of a stack, grouped by coverage."""
    first, end = groups.stack_starts[stack], groups.stack_starts[stack + 1]
    for group in range(first, end):
        assert (int(groups.windows[group]), int(groups.gaps[group])) in ((5, 1), (6, 0))
    return groups.members[groups.starts[first] : groups.starts[end]].tolist()


def arcs_of(hyps: Hypotheses, hyp: int) -> list[int]:
    arcs, arc = [], int(hyps.arcs[hyp])
    while arc != -1:
        arcs.append(arc)
        arc = int(hyps.next_arcs[arc])
    return arcs
