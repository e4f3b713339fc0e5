"""Scores of detokenised text; tests/tuning/compare/test_output_scores.py sets them beside sacreBLEU."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacremoses import MosesDetokenizer

from tuning.compare.output_scores import DetokenisedReferences
from tuning.metrics import ter_edits


def test_scores_are_those_of_sacrebleu(tmp_path: Path) -> None:
    """Bit for bit, of two outputs with lines in common, against two references."""
    random_words = random.Random(1)
    words = ["un", "deux", "trois", "chat,", "noir", ";", "L'eau", "é", "日本", "3.5", "(x)", "..."]
    lines = [
        [" ".join(random_words.choices(words, k=random_words.randrange(12))) for _ in range(40)]
        for _ in range(4)
    ]
    lines[1][:20] = lines[0][:20]
    lines[2][5:30] = [f"{line} deux noir" for line in lines[0][5:30]]
    paths = [tmp_path / name for name in "abcd"]
    for path, texts in zip(paths, lines, strict=True):
        path.write_text("".join(f"{text}\n" for text in texts))
    detokenizer = MosesDetokenizer(lang="fr")
    shown = [[detokenizer.detokenize(text.split(" ")) for text in texts] for texts in lines]
    found = DetokenisedReferences(paths[2:], "fr").scores(paths[:2])
    for scores, texts in zip(found, shown[:2], strict=True):
        for number, metric in ((scores.bleu, BLEU()), (scores.chrf, CHRF()), (scores.ter, TER())):
            assert number == metric.corpus_score(texts, shown[2:]).score > 0


def write_numbers(path: Path, first: int, n_lines: int) -> Path:
    path.write_text("".join(f"un chat {first + number}\n" for number in range(n_lines)))
    return path


def test_ter_is_that_of_the_whole_text(tmp_path: Path) -> None:
    """Edits and words are added up over sentences of other lengths, and equal sentences count each time."""
    output, reference = tmp_path / "output", tmp_path / "reference"
    texts = ["a b", "a b c d e f", "a b", ""], ["b a", "a x c d y f", "b a", "z"]
    for path, lines in zip((output, reference), texts, strict=True):
        path.write_text("".join(line + "\n" for line in lines))
    (scores,) = DetokenisedReferences([reference], "fr").scores([output])
    assert scores.ter == pytest.approx(TER().corpus_score(texts[0], [texts[1]]).score)
    assert scores.ter == pytest.approx(100 * (1 + 2 + 1 + 1) / 11)


def test_an_empty_reference_is_no_division_by_zero(tmp_path: Path) -> None:
    """Nor is a mean of less than one word, here of a reference with a word and one without, rounded."""
    empty, word, other = (tmp_path / name for name in ("empty", "word", "other"))
    for path in (empty, word, other):
        path.write_text("\n" if path == empty else f"{path.name}\n")
    (scores,) = DetokenisedReferences([empty], "fr").scores([empty])
    assert scores.ter == 0
    (scores,) = DetokenisedReferences([word, empty], "fr").scores([other])
    assert scores.ter == TER().corpus_score(["other"], [["word"], [""]]).score == 200


def test_each_distinct_line_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    def count(words: str, references: Sequence[str]) -> tuple[int, float]:
        counted.append(words)
        return 1, 2.0

    monkeypatch.setattr(ter_edits, "ter_statistics", count)
    monkeypatch.setattr("tuning.metrics.metric.FEW", 0)
    output = write_numbers(tmp_path / "output", 0, 3)
    other = write_numbers(tmp_path / "other", 0, 2)
    with other.open("a") as stream:
        stream.write("trois\n")
    first, second = DetokenisedReferences([output], "fr").scores([output, other])
    assert counted == ["un chat 0", "un chat 1", "un chat 2", "trois"]
    assert (first.ter, second.ter) == (50, 50)


def test_signatures_tell_the_number_of_references(tmp_path: Path) -> None:
    reference = write_numbers(tmp_path / "reference", 0, 2)
    signatures = DetokenisedReferences([reference, reference], "fr").signatures
    assert [text.split("|nrefs:")[0] for text in signatures] == [
        "BLEU|detokenised",
        "chrF|detokenised",
        "TER|detokenised",
    ]
    assert all("|nrefs:2|" in text for text in signatures)


def test_words_that_are_not_utf8_are_read(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(b"un chat \xff noir\n")
    (tmp_path / "reference").write_bytes("un chat \ufffd noir\n".encode())
    (scores,) = DetokenisedReferences([tmp_path / "reference"], "fr").scores([tmp_path / "output"])
    assert scores.bleu == pytest.approx(100)


def test_texts_of_other_lengths_are_refused(tmp_path: Path) -> None:
    two, three = (write_numbers(tmp_path / str(n), 0, n) for n in (2, 3))
    for references, output in (([two, three], two), ([two], three)):
        with pytest.raises(ValueError, match=r"shorter|longer"):
            DetokenisedReferences(references, "fr").scores([output])
