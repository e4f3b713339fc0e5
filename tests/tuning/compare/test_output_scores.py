"""Scores of translations, by hand and against sacreBLEU, also on text that was never tokenised."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacremoses import MosesDetokenizer

from moses_bridge.base.errors import ConfigError, InputError
from tuning.compare.output_scores import (
    DetokenisedReferences,
    metrics_of_runs,
    score_output,
    score_systems,
    tuned_metrics,
)
from tuning.metrics import ter_edits

# As tokenised text, and as it reads.
OUTPUT = ["l&apos; homme est là .", "un chat noir , deux chats blancs", "trois petits chiens"]
REFERENCE = ["l&apos; homme est ici .", "un chat noir , deux chats gris", "trois chiens petits"]
PLAIN_OUTPUT = ["l'homme est là.", "un chat noir, deux chats blancs", "trois petits chiens"]
PLAIN_REFERENCE = ["l'homme est ici.", "un chat noir, deux chats gris", "trois chiens petits"]


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    for name, lines in (("output", OUTPUT), ("reference", REFERENCE)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return tmp_path / "output", tmp_path / "reference"


def test_detokenised_scores_are_sacrebleus_on_plain_text(texts: tuple[Path, Path]) -> None:
    scores = score_output(texts[0], [texts[1]], "fr", n_samples=20)
    for found, metric in (
        (scores.detokenised_bleu, BLEU()),
        (scores.chrf, CHRF()),
        (scores.ter, TER()),
    ):
        expected = metric.corpus_score(PLAIN_OUTPUT, [PLAIN_REFERENCE])
        assert found == pytest.approx(expected.score)


def test_bleu_of_tokens_by_hand(texts: tuple[Path, Path]) -> None:
    # Matches of 1- to 4-grams: 4+6+3, 2+5+0, 1+4+0, 0+3+0 of 15, 12, 9, 6; equal lengths.
    scores = score_output(texts[0], [texts[1]], "fr", n_samples=20)
    assert scores.precisions == pytest.approx([1300 / 15, 700 / 12, 500 / 9, 300 / 6])
    assert scores.bleu == pytest.approx(100 * (13 / 15 * 7 / 12 * 5 / 9 * 3 / 6) ** 0.25)
    assert (scores.output_words, scores.reference_words, scores.length_ratio) == (15, 15, 1)
    assert scores.bootstrap_sd > 0


def test_words_of_longer_output_and_the_default_bootstrap(texts: tuple[Path, Path]) -> None:
    texts[0].write_text("".join(line + " tout petits\n" for line in OUTPUT))
    scores = score_output(texts[0], [texts[1]], "fr")
    assert (scores.output_words, scores.reference_words, scores.length_ratio) == (21, 15, 21 / 15)
    assert scores == score_output(texts[0], [texts[1]], "fr", n_samples=1000, seed=1)


def test_other_numbers_of_lines_are_refused(texts: tuple[Path, Path]) -> None:
    texts[0].write_text("un\n")
    with pytest.raises(InputError, match=r"output: found 1 lines, expected 3"):
        score_output(texts[0], [texts[1]], "fr")


def test_of_several_references_the_best_match_counts_and_documents_are_drawn(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    """A second reference that is the output; of two documents one draw in four is the first one twice."""
    alone = score_output(texts[0], [texts[1]], "fr", n_samples=400)
    both = score_output(texts[0], [texts[1], texts[0]], "fr", n_samples=20)
    assert (both.bleu, both.detokenised_bleu) == (100, 100)  # sacreBLEU: 100.00000000000004
    groups = tmp_path / "groups"
    groups.write_text("a\nb\na\n")
    scores = score_output(texts[0], [texts[1]], "fr", n_samples=400, groups=groups)
    assert scores.bleu == alone.bleu
    # BLEU of document a twice: matches 7, 2, 1, 0 of 8, 6, 4, 2, so 0; b twice: 6, 5, 4, 3 of 7, 6, 5, 4.
    of_draws = [0.0, alone.bleu, alone.bleu, 100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25]
    assert scores.bootstrap_sd == pytest.approx(np.std(of_draws), rel=0.1)
    groups.write_text("a\nb\n")
    with pytest.raises(InputError, match=r"groups: found 2 lines, expected 3, as .*reference has"):
        score_output(texts[0], [texts[1]], "fr", groups=groups)


def test_the_scores_of_a_system_are_means_over_its_files(texts: tuple[Path, Path]) -> None:
    output, reference = texts
    systems = {"two": [output, reference], "one": [output]}
    two, one = score_systems(systems, [reference], "fr", n_samples=20)
    alone = score_output(output, [reference], "fr", n_samples=20)
    assert (one.system, one.outputs, one.means["chrf"]) == ("one", [alone], alone.chrf)
    assert (one.deviations, two.files) == ({}, [str(output), str(reference)])
    assert two.means["bleu"] == pytest.approx((alone.bleu + 100) / 2)
    assert two.deviations["bleu"] == pytest.approx((100 - alone.bleu) / 2**0.5)
    with pytest.raises(ConfigError, match="one has a file twice: its deviation would be too small"):
        score_systems({"one": [output, output]}, [reference], "fr")


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


TUNED_REFERENCE = ["the old cat sat here .", "a dog ran home"]
OUTPUTS = {
    "one": ["the cat sat here .", "a dog ran"],
    "two": ["the old cat sat .", "dogs run home"],
}


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_bleu_and_columns_are_not_counted_again_and_each_metric_once() -> None:
    found = metrics_of_runs(["chrf", "bleu", "cer", "column", "chrf"])
    assert [choice.name for choice in found] == ["cer", "chrf"]


def test_a_system_has_the_mean_over_its_outputs(tmp_path: Path) -> None:
    reference = write(tmp_path / "reference", TUNED_REFERENCE)
    outputs = [write(tmp_path / name, lines) for name, lines in OUTPUTS.items()]
    found = tuned_metrics({"a": outputs}, metrics_of_runs(["chrf"]), [reference], reference)
    scores = [CHRF().corpus_score(lines, [TUNED_REFERENCE]).score for lines in OUTPUTS.values()]
    assert found == {"a": {"chrf": pytest.approx(sum(scores) / 2)}}


def test_an_output_of_another_length_is_refused(tmp_path: Path) -> None:
    reference = write(tmp_path / "reference", TUNED_REFERENCE)
    short = write(tmp_path / "short", OUTPUTS["one"][:1])
    with pytest.raises(InputError, match="short"):
        tuned_metrics({"a": [short]}, metrics_of_runs(["cer"]), [reference], reference)
