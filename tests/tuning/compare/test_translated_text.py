"""Sentences with their scores, against sacreBLEU and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from moses_bridge.base.errors import InputError
from tuning.compare.translated_text import read_translated_text
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
