"""The compiled edits of TER against sacreBLEU's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.ter import TER

from tuning.metrics.ter_edits import MOST_SHIFTS, ter_statistics

FEW_WORDS = st.lists(st.sampled_from("abcdeF"), max_size=14).map(" ".join)


def counted_by_sacrebleu(hypothesis: str, references: list[str]) -> tuple[int, float]:
    score = TER().sentence_score(hypothesis, references)
    return score.num_edits, score.ref_length


@settings(max_examples=100, deadline=None)
@given(FEW_WORDS, st.lists(FEW_WORDS, min_size=1, max_size=2))
def test_few_words_that_are_often_repeated(hypothesis: str, references: list[str]) -> None:
    assert ter_statistics(hypothesis, references) == counted_by_sacrebleu(hypothesis, references)


@pytest.mark.parametrize("seed", range(5))
def test_shifted_words_of_long_sentences(seed: int) -> None:
    words = random.Random(seed)
    reference = [str(words.randrange(60)) for _ in range(words.randrange(20, 90))]
    hypothesis = list(reference)
    for _ in range(6):
        start, length = words.randrange(len(hypothesis)), words.randrange(1, 14)
        moved = hypothesis[start : start + length]
        del hypothesis[start : start + length]
        target = words.randrange(len(hypothesis) + 1)
        hypothesis[target:target] = moved
        hypothesis[words.randrange(len(hypothesis))] = "x"
    texts = " ".join(hypothesis), [" ".join(reference)]
    assert ter_statistics(*texts) == counted_by_sacrebleu(*texts)


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("", ""),
        ("a", ""),
        ("", "a b"),
        ("b", "a " * 70 + "b"),  # the beam is wider where the reference is so much longer
        ("a " * 70 + "b", "b"),
        ("c d " + "a " * 60, "a " * 60 + "c d"),  # farther than a shift goes
        ("a b " * 20, "b a c " * 20),  # more shifts than are tried
        ("d e f g h i j k l m n o a", "a d e f g h i j k l m n o"),  # longer than a shift is
        ("A  b\tc \n", " a B c"),
        ("b", "b" + " a" * 52),  # a word at the edge of the wider beam
        ("b b", "a " * 100 + "b"),  # beyond the beam of texts of one length
        ("b b", "b" + " a" * 118),
        ("a b c b a", "b d a b c"),  # no words are shifted to a place among themselves
        # Of shifts that save as much the longest is made,
        ("e e b e d", "d b e e e"),
        ("a c c d b b c", "b c c d b c a"),
        # then the one of the first words,
        ("d b c c", "c d c b"),
        ("a c d b a c", "a c c d a b"),
        ("a e x c a c", "a b b c c e"),
        # then the one to the first place.
        ("d b c b", "b b d c"),
        ("b e a c a a a", "e c a a a b a"),
    ],
)
def test_limits_are_those_of_sacrebleu(hypothesis: str, reference: str) -> None:
    expected = counted_by_sacrebleu(hypothesis, [reference])
    assert ter_statistics(hypothesis, [reference]) == expected


def test_by_hand() -> None:
    """One shift; then a word is missing. The second reference is farther off."""
    assert MOST_SHIFTS == 1000
    found = ter_statistics("d e a b c", ["a b c d e f", "g"])
    assert found == (2, 3.5)
