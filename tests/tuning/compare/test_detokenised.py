"""Scores of detokenised text; tests/tuning/compare/test_output_scores.py sets them beside sacreBLEU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sacrebleu.metrics.ter import TER

from tuning.compare import detokenised
from tuning.compare.detokenised import DetokenisedReferences


def test_ter_with_several_references_and_processes(tmp_path: Path) -> None:
    """More distinct pairs than one task has, so that processes are started."""
    output, reference = tmp_path / "output", tmp_path / "reference"
    output.write_text("".join(f"un chat {number}\n" for number in range(300)))
    reference.write_text("".join(f"un chat {number + 1}\n" for number in range(300)))
    references = [reference, output]
    one, two = (DetokenisedReferences(references, "fr", jobs).scores([output]) for jobs in (1, 2))
    assert one == two
    assert (one[0].chrf, one[0].ter) == (pytest.approx(100), 0)


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


def test_each_distinct_pair_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[detokenised.Pair] = []

    def count(pair: detokenised.Pair) -> tuple[float, float]:
        counted.append(pair)
        return 1.0, 2.0

    monkeypatch.setattr(detokenised, "_edits", count)
    output = write_numbers(tmp_path / "output", 0, 3)
    other = write_numbers(tmp_path / "other", 0, 2)
    with other.open("a") as stream:
        stream.write("trois\n")
    first, second = DetokenisedReferences([output], "fr").scores([output, other])
    assert [pair[0] for pair in counted] == ["un chat 0", "un chat 1", "un chat 2", "trois"]
    assert (first.ter, second.ter) == (50, 50)


@pytest.mark.parametrize(("n_lines", "jobs", "n_started"), [(256, 2, 0), (257, 1, 0), (257, 2, 1)])
def test_processes_are_started_for_long_texts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_lines: int, jobs: int, n_started: int
) -> None:
    started: list[int] = []

    class Processes(ThreadPoolExecutor):
        def __init__(self, n_processes: int, mp_context: object) -> None:
            started.append(n_processes)
            super().__init__(n_processes)

    monkeypatch.setattr(detokenised, "ProcessPoolExecutor", Processes)
    output = write_numbers(tmp_path / "output", 0, n_lines)
    (scores,) = DetokenisedReferences([output], "fr", jobs).scores([output])
    assert scores.chrf == pytest.approx(100)
    assert started == [2] * n_started
    DetokenisedReferences([output], "fr").scores([output])
    assert started == [2] * n_started


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
