"""Sentences with their scores, against sacreBLEU and by hand, and their changed words."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from moses_bridge.base.errors import InputError
from tuning.compare.translated_text import Span, changed_words, read_translated_text
from tuning.metrics.bleu import bleu

SOURCE = "the small house\nit is so\n\n"
REFERENCE = "la petite maison est ici aussi\nc' est ça\nrien\n"
FIRST = "la petite maison est\nc' est ça\n\n"
SECOND = "la  grande maison est ici aussi\nc' est ça\nrien\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {"source": SOURCE, "reference": REFERENCE, "first": FIRST, "second": SECOND}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in texts}


def test_scores_are_those_of_sacrebleu(files: dict[str, Path]) -> None:
    outputs = {"A": files["first"], "B": files["second"]}
    text = read_translated_text(files["source"], [files["reference"]], outputs)
    assert text.systems == ["A", "B"]
    assert text.source_lens[:2] == [3, 3]
    lines = {"A": FIRST.split("\n"), "B": SECOND.split("\n")}
    # BLEU+1 (Lin & Och 2004) is what sacreBLEU calls add-k with k = 1.
    plus_one = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none", effective_order=False)
    for place, name in enumerate(text.systems):
        for sentence, line, reference in zip(
            text.sentences[:2], lines[name], REFERENCE.split("\n"), strict=False
        ):
            expected = CHRF().sentence_score(line, [reference]).score
            assert sentence.outputs[place].chrf == pytest.approx(expected)
            if len(line.split()) >= 4:
                score = plus_one.sentence_score(line, [reference]).score
                assert sentence.outputs[place].bleu == pytest.approx(score)
    sums = text.statistics.sum(axis=1)
    expected = BLEU(tokenize="none").corpus_score(lines["B"][:3], [REFERENCE.split("\n")[:3]])
    assert bleu(sums)[1] == pytest.approx(expected.score)
    alone = BLEU(tokenize="none").corpus_score([lines["B"][0]], [REFERENCE.split("\n")[:1]])
    assert text.bleu_of(1, np.array([True, False, False])) == pytest.approx(alone.score)


def test_changes_are_against_the_first_system(files: dict[str, Path]) -> None:
    outputs = {"A": files["first"], "B": files["second"]}
    text = read_translated_text(files["source"], [files["reference"]], outputs)
    first, second = text.sentences[0].outputs
    assert (first.gone, first.added) == ([], [])
    assert second.text == "la grande maison est ici aussi"
    assert (second.gone, second.added) == ([(1, 2)], [(1, 2), (4, 6)])
    assert text.sentences[2].outputs[1].added == [(0, 1)]


def test_a_file_of_another_length_is_named(files: dict[str, Path]) -> None:
    files["second"].write_text("one\n")
    with pytest.raises(InputError, match=r"second: found 1 lines, expected 3"):
        read_translated_text(files["source"], [files["reference"]], {"A": files["second"]})


TEXTS = st.lists(st.sampled_from("abcd"), max_size=12)


def unmarked(words: list[str], runs: list[Span]) -> list[str]:
    marked = {place for first, last in runs for place in range(first, last)}
    return [word for place, word in enumerate(words) if place not in marked]


def test_by_hand() -> None:
    old, new = ["the", "small", "red", "house"], ["the", "big", "house", "here"]
    assert changed_words(old, new) == ([(1, 3)], [(1, 2), (3, 4)])
    assert changed_words(old, old) == ([], [])
    assert changed_words([], new) == ([], [(0, 4)])


@given(TEXTS, TEXTS)
def test_what_is_not_marked_is_common(old: list[str], new: list[str]) -> None:
    gone, added = changed_words(old, new)
    assert unmarked(old, gone) == unmarked(new, added)
    for runs in (gone, added):
        assert all(first < last for first, last in runs)
        assert all(
            last < first for (_, last), (first, _) in itertools.pairwise(runs)
        )  # neighbours are one run


def test_a_line_of_one_word_many_times_takes_no_minutes() -> None:
    start = time.process_time()
    changed_words(["a"] * 5000, ["a"] * 4999 + ["b"])
    assert time.process_time() - start < 5
