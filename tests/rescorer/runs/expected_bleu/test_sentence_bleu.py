"""Sentence BLEU against sacreBLEU's."""

from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from rescorer.runs.expected_bleu.sentence_bleu import SentenceReferences

# Lin and Och (2004): 1 is added to the counts of all orders but the first.
PLUS_ONE = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none", effective_order=False)


@pytest.mark.parametrize("n_references", [1, 3])
def test_it_is_what_sacrebleu_says(n_references: int) -> None:
    rng = np.random.default_rng(n_references)
    for _ in range(50):
        texts = [
            " ".join(f"w{n}" for n in rng.integers(0, 6, rng.integers(4, 12)))
            for _ in range(n_references + 1)
        ]
        references = SentenceReferences([text.encode().split() for text in texts[1:]])
        expected = PLUS_ONE.sentence_score(texts[0], texts[1:]).score / 100
        assert references.bleu(texts[0].encode().split()) == pytest.approx(expected, abs=1e-6)


def test_the_reference_itself_has_1() -> None:
    references = SentenceReferences([[b"a"], [b"a", b"b", b"c", b"d", b"e"]])
    assert references.bleu([b"a", b"b", b"c", b"d", b"e"]) == pytest.approx(1)
    assert references.bleu([b"a"]) == pytest.approx(1)


def test_a_short_sentence_by_hand() -> None:
    """1 of 2 words and 0 of 1 pair: (1/2 . 1/2 . 1 . 1)^(1/4), and a reference of 3 words."""
    found = SentenceReferences([[b"a", b"x", b"y"]]).bleu([b"a", b"b"])
    assert found == pytest.approx(0.25**0.25 * np.exp(1 - 3 / 2))


def test_of_two_lengths_as_near_the_shorter_counts() -> None:
    references = SentenceReferences([[b"a"] * 4, [b"a"] * 2])
    assert references.bleu([b"a"] * 3) == pytest.approx(1)


def test_no_words_and_no_match_are_next_to_nothing() -> None:
    references = SentenceReferences([[b"a", b"b"]])
    assert references.bleu([]) == 0
    assert 0 < references.bleu([b"x", b"y"]) < 0.01
