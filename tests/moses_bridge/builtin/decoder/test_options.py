from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.options import UNKNOWN_ROW, Options, make_options, raise_options
from moses_bridge.builtin.decoder.weighted_model import WeightedModel, make_weighted_model

Pairs = dict[tuple[str, str], tuple[float, ...]]


def options_of(model: Model, line: str) -> tuple[Options, WeightedModel]:
    weighted = make_weighted_model(model, model.weight_vector(None))
    words = line.encode().split()
    source = np.array([model.source_ids.get(word, -1) for word in words], np.int32)
    copies = np.array([len(model.target_words) + i for i in range(len(words))], np.int32)
    return make_options(source, copies, model.max_phrase_words, weighted), weighted


def estimate(target: str, score: float, lm: Any) -> float:
    """The weighted score of a phrase pair alone, from the weights of the ini."""
    n_words = len(target.split())
    log10 = lm.score(target, bos=False, eos=False) if target else 0.0
    return 0.3 * math.log(score) + 0.2 * n_words + 0.1 + 0.4 * math.log(10) * log10


def test_options_are_the_phrase_pairs_that_fit_best_first(
    toy: Model, toy_ini: Path, pairs: Pairs, kenlm: Any
) -> None:
    lm = kenlm.Model(str(toy_ini.parent / "lm.arpa"))
    options, _ = options_of(toy, "u v w")
    found: dict[tuple[int, int], list[tuple[str, float]]] = {}
    for i in range(len(options.rows)):
        span = int(options.starts[i]), int(options.ends[i])
        ids = options.words[options.word_starts[i] : options.word_starts[i + 1]]
        text = b" ".join(toy.target_words[word] for word in ids).decode()
        found.setdefault(span, []).append((text, float(options.estimates[i])))
    expected: dict[tuple[int, int], list[tuple[str, float]]] = {}
    for start, end in itertools.combinations(range(4), 2):
        source = " ".join(["u", "v", "w"][start:end])
        fitting = [(t, estimate(t, v[0], lm)) for (s, t), v in pairs.items() if s == source]
        if fitting:
            expected[start, end] = sorted(fitting, key=lambda pair: -pair[1])
    assert {span: [t for t, _ in each] for span, each in found.items()} == {
        span: [t for t, _ in each] for span, each in expected.items()
    }
    for span, each in found.items():
        assert [e for _, e in each] == pytest.approx([e for _, e in expected[span]], rel=1e-6)


@pytest.mark.parametrize("line", ["u v w", "w v u v", "x u v", "u"])
def test_future_costs_are_the_best_of_all_segmentations(toy: Model, line: str) -> None:
    options, _ = options_of(toy, line)
    n = len(line.split())
    best = {(0, 0): 0.0}
    for i in range(len(options.rows)):
        span = int(options.starts[i]), int(options.ends[i])
        best[span] = max(best.get(span, -math.inf), float(options.estimates[i]))
    for start in range(n):
        for end in range(start + 1, n + 1):
            totals = []
            for n_cuts in range(end - start):
                for cuts in itertools.combinations(range(start + 1, end), n_cuts):
                    bounds = [start, *cuts, end]
                    spans = itertools.pairwise(bounds)
                    totals.append(sum(best.get(span, -math.inf) for span in spans))
            assert options.future_costs.spans[start, end - start] == pytest.approx(max(totals))


def test_a_word_that_the_table_does_not_have_is_copied(toy: Model) -> None:
    options, weighted = options_of(toy, "nowhere")
    assert options.rows.tolist() == [UNKNOWN_ROW]
    assert options.words.tolist() == [len(toy.target_words)]
    assert options.lm_words.tolist() == [weighted.lm.unk_id]
    assert options.stateless_scores[0] == pytest.approx(-100 + 0.2 + 0.1)
    assert options.reordering.tolist() == [[0.0] * 6]


def test_a_word_known_only_within_longer_phrases_is_copied_too(toy_ini: Path) -> None:
    from moses_bridge.builtin.decoder.model import load_model

    (toy_ini.parent / "table").write_text("u v ||| a b ||| 0.5\n")
    options, _ = options_of(load_model(toy_ini, None, None), "v u v")
    spans = zip(options.starts.tolist(), options.ends.tolist(), strict=True)
    assert sorted(spans) == [(0, 1), (1, 2), (1, 3), (2, 3)]
    assert sorted(options.rows.tolist()) == [UNKNOWN_ROW] * 3 + [0]


@pytest.mark.parametrize("seed", range(3))
def test_raised_options_are_the_same_ones_in_their_new_order(toy: Model, seed: int) -> None:
    options, _ = options_of(toy, "u v w x u v")
    added = np.random.default_rng(seed).normal(0, 2, len(options.rows))
    raised, order, word_order = raise_options(options, added)
    assert sorted(order.tolist()) == list(range(len(added)))
    for new, old in enumerate(order):
        for name in ("rows", "starts", "ends", "context_sizes"):
            assert getattr(raised, name)[new] == getattr(options, name)[old]
        assert raised.reordering[new].tolist() == options.reordering[old].tolist()
        assert raised.estimates[new] == pytest.approx(options.estimates[old] + added[old])
        stateless = options.stateless_scores[old] + added[old]
        assert raised.stateless_scores[new] == pytest.approx(stateless)
        here = slice(*raised.word_starts[new : new + 2])
        there = slice(*options.word_starts[old : old + 2])
        for name in ("words", "lm_words", "suffix_scores"):
            assert getattr(raised, name)[here].tolist() == getattr(options, name)[there].tolist()
        assert word_order[here].tolist() == list(range(there.start, there.stop))
    for first, last in itertools.pairwise(raised.span_starts):
        assert (np.diff(raised.estimates[first:last]) <= 0).all()
    assert (options.span_starts == raised.span_starts).all()
    best = {}
    for start in range(6, -1, -1):
        best[start, start] = 0.0
        for end in range(start + 1, 7):
            fits = (raised.starts == start) & (raised.ends == end)
            whole = float(raised.estimates[fits].max(initial=-math.inf))
            parts = [best[start, k] + best[k, end] for k in range(start + 1, end)]
            best[start, end] = max([whole, *parts])
            found = raised.future_costs.spans[start, end - start]
            assert found == pytest.approx(best[start, end])
