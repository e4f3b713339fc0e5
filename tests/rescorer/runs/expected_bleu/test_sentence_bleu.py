"""Sentence BLEU, compiled and plain, against sacreBLEU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numba import njit
from sacrebleu.metrics import BLEU

from moses_bridge.base.compiled.lexicon import Lexicon
from rescorer.runs.expected_bleu.list_reader import number_lines
from rescorer.runs.expected_bleu.reference_ngrams import MAX_ORDER, bleu_of, reference_ngrams
from tests.rescorer.runs.expected_bleu.plain_bleu import SentenceReferences, Words

# Lin and Och (2004): 1 is added to the counts of all orders but the first.
PLUS_ONE = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none", effective_order=False)


@njit
def compiled(numbers: Any, starts: Any, lens: Any, words: Any) -> Any:
    ngrams = reference_ngrams(numbers, starts)
    matches = np.zeros(MAX_ORDER, np.int64)
    values = [bleu_of(ngrams, lens, words, len(words), matches) for _ in range(2)]
    return values[0], values[1]


def bleu(references: Sequence[Words], words: Words) -> float:
    """Of a hypothesis: the compiled path, a second time too, and the plain one."""
    lexicon = Lexicon()
    numbers, lens = number_lines([b" ".join(text) for text in references], lexicon)
    hypothesis, _ = number_lines([b" ".join(words)], lexicon)
    found, again = compiled(numbers, np.append(0, np.cumsum(lens)), lens, hypothesis)
    expected = SentenceReferences(references).bleu(words)
    assert found == again == pytest.approx(expected, rel=1e-14)
    return float(found)


@pytest.mark.parametrize("n_references", [1, 3])
def test_it_is_what_sacrebleu_says(n_references: int) -> None:
    rng = np.random.default_rng(n_references)
    for _ in range(50):
        texts = [
            " ".join(f"w{n}" for n in rng.integers(0, 6, rng.integers(4, 12)))
            for _ in range(n_references + 1)
        ]
        references = [text.encode().split() for text in texts[1:]]
        expected = PLUS_ONE.sentence_score(texts[0], texts[1:]).score / 100
        assert bleu(references, texts[0].encode().split()) == pytest.approx(expected, abs=1e-6)


def test_the_reference_itself_has_1() -> None:
    references = [[b"a"], [b"a", b"b", b"c", b"d", b"e"]]
    assert bleu(references, [b"a", b"b", b"c", b"d", b"e"]) == pytest.approx(1)
    assert bleu(references, [b"a"]) == pytest.approx(1)


def test_an_empty_line_among_references_is_none() -> None:
    """As for sacreBLEU; a sentence without any has one without words."""
    given = ["", "a b c d e f", ""]
    for words in ("a b", "a b c d e f g"):
        expected = PLUS_ONE.sentence_score(words, [given[1]]).score / 100
        found = bleu([text.encode().split() for text in given], words.encode().split())
        assert found == pytest.approx(expected, abs=1e-6)
    assert bleu([[], []], [b"a"]) == bleu([[]], [b"a"])


def test_a_short_sentence_by_hand() -> None:
    """1 of 2 words and 0 of 1 pair: (1/2 . 1/2 . 1 . 1)^(1/4), and a reference of 3 words."""
    found = bleu([[b"a", b"x", b"y"]], [b"a", b"b"])
    assert found == pytest.approx(0.25**0.25 * np.exp(1 - 3 / 2))


def test_of_two_lengths_as_near_the_shorter_counts() -> None:
    references = [[b"a"] * 4, [b"a"] * 2]
    assert bleu(references, [b"a"] * 3) == pytest.approx(1)


def test_no_words_and_no_match_are_next_to_nothing() -> None:
    references = [[b"a", b"b"]]
    assert bleu(references, []) == 0
    assert 0 < bleu(references, [b"x", b"y"]) < 0.01
