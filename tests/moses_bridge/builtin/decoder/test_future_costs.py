"""Future costs against a plain table of all spans, which is cubic in the sentence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.model import MAX_WINDOW
from moses_bridge.builtin.decoder.options import LONGEST_SPAN, combined, no_costs


def random_phrases(n_words: int, max_words: int, seed: int) -> NDArray[np.float64]:
    """The best phrase of each span, (n_words + 1, n_words + 1): start, end; most single words have one."""
    generator = np.random.default_rng(seed)
    best = np.full((n_words + 1, n_words + 1), -np.inf)
    for start in range(n_words):
        for end in range(start + 1, min(start + max_words, n_words) + 1):
            if generator.random() < (0.9 if end == start + 1 else 0.4):
                best[start, end] = generator.normal(-3 * (end - start), 2)
    return best


def table_of_all_spans(best: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each span by one phrase or by two parts (TranslationOptionCollection::CalcFutureScore)."""
    n_words, table = len(best) - 1, best.copy()
    np.fill_diagonal(table, 0.0)
    for length in range(2, n_words + 1):
        for start in range(n_words - length + 1):
            end = start + length
            parts = table[start, start + 1 : end] + table[start + 1 : end, end]
            table[start, end] = max(table[start, end], parts.max())
    return table


def found_for(best: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n_words = len(best) - 1
    costs = no_costs(n_words)
    for start in range(n_words):
        for end in range(start + 1, min(n_words, start + LONGEST_SPAN) + 1):
            costs.spans[start, end - start] = best[start, end]
    made = combined(costs)
    return made.spans, made.tails


@pytest.mark.parametrize(("n_words", "max_words"), [(1, 1), (2, 7), (9, 3), (40, 7), (120, 20)])
def test_they_are_those_of_the_table_of_all_spans_to_the_last_bit(
    n_words: int, max_words: int
) -> None:
    for seed in range(4):
        best = random_phrases(n_words, max_words, seed)
        table, (spans, tails) = table_of_all_spans(best), found_for(best)
        for start in range(n_words + 1):
            assert tails[start] == table[start, n_words]
            for end in range(start, n_words + 1):
                assert spans[start, end - start] == table[start, end]


def test_so_they_are_for_the_longest_sentence_that_is_one_span() -> None:
    best = random_phrases(LONGEST_SPAN, 7, 1)
    table, (spans, tails) = table_of_all_spans(best), found_for(best)
    assert spans.shape == (LONGEST_SPAN + 1, LONGEST_SPAN + 1)
    assert tails.tolist() == table[:, -1].tolist()


def test_of_a_longer_sentence_spans_are_equal_and_tails_but_for_rounding() -> None:
    n_words = LONGEST_SPAN + 45
    best = random_phrases(n_words, 7, 2)
    np.fill_diagonal(best[:, 1:], -1.0)  # every word has a phrase
    table, (spans, tails) = table_of_all_spans(best), found_for(best)
    assert spans.shape == (n_words + 1, LONGEST_SPAN + 1)
    for start in range(n_words + 1):
        longest = min(LONGEST_SPAN, n_words - start)
        assert (spans[start, : longest + 1] == table[start, start : start + longest + 1]).all()
    assert tails[45:].tolist() == table[45:, -1].tolist()
    assert tails == pytest.approx(table[:, -1], rel=1e-13)


def test_spans_covered_by_no_phrases_have_no_estimate() -> None:
    best = random_phrases(LONGEST_SPAN + 10, 3, 3)
    best[:6, 6:] = -np.inf  # no phrase reaches beyond word 5
    best[5, :] = -np.inf
    spans, tails = found_for(best)
    assert (tails[:6] == -np.inf).all() and (tails[6:] > -np.inf).any()
    assert spans[5, 1] == -np.inf


def test_each_gap_and_each_phrase_of_the_search_is_a_span() -> None:
    assert LONGEST_SPAN > MAX_WINDOW


def test_a_span_beyond_the_longest_is_an_error() -> None:
    with pytest.raises(IndexError):
        no_costs(3).spans[0, 4]
