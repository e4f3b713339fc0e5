"""Scores of translations, by hand and against sacreBLEU, also on text that was never tokenised."""

from __future__ import annotations

import json
import random
import subprocess
import sys
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
    lowercased_bleu,
    metrics_of_runs,
    score_output,
    score_systems,
    tuned_metrics,
)
from tuning.compare.target_text import TargetText
from tuning.metrics import ter_edits

FRENCH = TargetText("fr")
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
    scores = score_output(texts[0], [texts[1]], FRENCH, n_samples=20)
    for found, metric in (
        (scores.detokenised_bleu, BLEU()),
        (scores.chrf, CHRF()),
        (scores.ter, TER()),
    ):
        expected = metric.corpus_score(PLAIN_OUTPUT, [PLAIN_REFERENCE])
        assert found == pytest.approx(expected.score)


def test_bleu_of_tokens_by_hand(texts: tuple[Path, Path]) -> None:
    # Matches of 1- to 4-grams: 4+6+3, 2+5+0, 1+4+0, 0+3+0 of 15, 12, 9, 6; equal lengths.
    scores = score_output(texts[0], [texts[1]], FRENCH, n_samples=20)
    assert scores.precisions == pytest.approx([1300 / 15, 700 / 12, 500 / 9, 300 / 6])
    assert scores.bleu == pytest.approx(100 * (13 / 15 * 7 / 12 * 5 / 9 * 3 / 6) ** 0.25)
    assert (scores.output_words, scores.reference_words, scores.length_ratio) == (15, 15, 1)
    assert scores.bootstrap_sd > 0


def test_words_of_longer_output_and_the_default_bootstrap(texts: tuple[Path, Path]) -> None:
    texts[0].write_text("".join(line + " tout petits\n" for line in OUTPUT))
    scores = score_output(texts[0], [texts[1]], FRENCH)
    assert (scores.output_words, scores.reference_words, scores.length_ratio) == (21, 15, 21 / 15)
    assert scores == score_output(texts[0], [texts[1]], FRENCH, n_samples=1000, seed=1)


def test_other_numbers_of_lines_are_refused(texts: tuple[Path, Path]) -> None:
    texts[0].write_text("un\n")
    with pytest.raises(InputError, match=r"output: found 1 lines, expected 3"):
        score_output(texts[0], [texts[1]], FRENCH)


def test_of_several_references_the_best_match_counts_and_documents_are_drawn(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    """A second reference that is the output; of two documents one draw in four is the first one twice."""
    alone = score_output(texts[0], [texts[1]], FRENCH, n_samples=400)
    both = score_output(texts[0], [texts[1], texts[0]], FRENCH, n_samples=20)
    assert (both.bleu, both.detokenised_bleu) == (100, 100)  # sacreBLEU: 100.00000000000004
    groups = tmp_path / "groups"
    groups.write_text("a\nb\na\n")
    scores = score_output(texts[0], [texts[1]], FRENCH, n_samples=400, groups=groups)
    assert scores.bleu == alone.bleu
    # BLEU of document a twice: matches 7, 2, 1, 0 of 8, 6, 4, 2, so 0; b twice: 6, 5, 4, 3 of 7, 6, 5, 4.
    of_draws = [0.0, alone.bleu, alone.bleu, 100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25]
    assert scores.bootstrap_sd == pytest.approx(np.std(of_draws), rel=0.1)
    groups.write_text("a\nb\n")
    with pytest.raises(InputError, match=r"groups: found 2 lines, expected 3, as .*reference has"):
        score_output(texts[0], [texts[1]], FRENCH, groups=groups)


def test_the_scores_of_a_system_are_means_over_its_files(texts: tuple[Path, Path]) -> None:
    output, reference = texts
    systems = {"two": [output, reference], "one": [output]}
    two, one = score_systems(systems, [reference], FRENCH, n_samples=20)
    alone = score_output(output, [reference], FRENCH, n_samples=20)
    assert (one.system, one.outputs, one.means["chrf"]) == ("one", [alone], alone.chrf)
    assert (one.deviations, two.files) == ({}, [str(output), str(reference)])
    assert two.means["bleu"] == pytest.approx((alone.bleu + 100) / 2)
    assert two.deviations["bleu"] == pytest.approx((100 - alone.bleu) / 2**0.5)
    with pytest.raises(ConfigError, match="one has a file twice: its deviation would be too small"):
        score_systems({"one": [output, output]}, [reference], FRENCH)


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
    given = [[text or None for text in texts] for texts in shown[2:]]  # an empty one is none
    found = DetokenisedReferences(paths[2:], FRENCH).scores(paths[:2])
    for scores, texts in zip(found, shown[:2], strict=True):
        for number, metric in ((scores.bleu, BLEU()), (scores.chrf, CHRF()), (scores.ter, TER())):
            assert number == metric.corpus_score(texts, given).score > 0


def write_numbers(path: Path, first: int, n_lines: int) -> Path:
    path.write_text("".join(f"un chat {first + number}\n" for number in range(n_lines)))
    return path


def test_ter_is_that_of_the_whole_text(tmp_path: Path) -> None:
    """Edits and words are added up over sentences of other lengths, and equal sentences count each time."""
    output, reference = tmp_path / "output", tmp_path / "reference"
    texts = ["a b", "a b c d e f", "a b", ""], ["b a", "a x c d y f", "b a", "z"]
    for path, lines in zip((output, reference), texts, strict=True):
        path.write_text("".join(line + "\n" for line in lines))
    (scores,) = DetokenisedReferences([reference], FRENCH).scores([output])
    assert scores.ter == pytest.approx(TER().corpus_score(texts[0], [texts[1]]).score)
    assert scores.ter == pytest.approx(100 * (1 + 2 + 1 + 1) / 11)


def test_an_empty_reference_is_no_division_by_zero(tmp_path: Path) -> None:
    """Nor is it a second reference, as None is none in sacreBLEU."""
    empty, word, other = (tmp_path / name for name in ("empty", "word", "other"))
    for path in (empty, word, other):
        path.write_text("\n" if path == empty else f"{path.name}\n")
    (scores,) = DetokenisedReferences([empty], FRENCH).scores([empty])
    assert scores.ter == 0
    (scores,) = DetokenisedReferences([word, empty], FRENCH).scores([other])
    assert scores.ter == TER().corpus_score(["other"], [["word"], [None]]).score == 100


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
    first, second = DetokenisedReferences([output], FRENCH).scores([output, other])
    assert counted == ["un chat 0", "un chat 1", "un chat 2", "trois"]
    assert (first.ter, second.ter) == (50, 50)


def test_signatures_tell_the_number_of_references(tmp_path: Path) -> None:
    reference = write_numbers(tmp_path / "reference", 0, 2)
    signatures = DetokenisedReferences([reference, reference], FRENCH).signatures
    assert [text.split("|nrefs:")[0] for text in signatures] == [
        "BLEU|detokenised|lang:fr",
        "chrF|detokenised|lang:fr",
        "TER|detokenised|lang:fr",
    ]
    assert all("|nrefs:2|" in text for text in signatures)


def test_words_that_are_not_utf8_are_read(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(b"un chat \xff noir\n")
    (tmp_path / "reference").write_bytes("un chat \ufffd noir\n".encode())
    (scores,) = DetokenisedReferences([tmp_path / "reference"], FRENCH).scores(
        [tmp_path / "output"]
    )
    assert scores.bleu == pytest.approx(100)


def test_texts_of_other_lengths_are_refused(tmp_path: Path) -> None:
    two, three = (write_numbers(tmp_path / str(n), 0, n) for n in (2, 3))
    with pytest.raises(InputError, match="3: found 3 lines, expected 2"):
        DetokenisedReferences([two, three], FRENCH)
    with pytest.raises(ValueError, match="longer"):
        DetokenisedReferences([two], FRENCH).scores([three])


def test_an_empty_line_among_references_is_none(tmp_path: Path) -> None:
    """As None in sacreBLEU: the brevity penalty, TER and the signature know of one reference there."""
    outputs = ["un chat noir", "deux chats", "x"]
    one, other = ["un petit chat noir dort ici", "deux chats", ""], ["", "deux petits chats", ""]
    paths = [tmp_path / name for name in ("output", "one", "other")]
    for path, lines in zip(paths, (outputs, one, other), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    references = DetokenisedReferences(paths[1:], FRENCH)
    (found,) = references.scores(paths[:1])
    given = [one, [None, other[1], None]]
    for number, metric in ((found.bleu, BLEU()), (found.chrf, CHRF()), (found.ter, TER())):
        assert number == pytest.approx(metric.corpus_score(outputs, given).score)
    assert all("|nrefs:var|" in text for text in references.signatures)
    sums = score_output(paths[0], paths[1:], FRENCH, n_samples=2)
    assert (sums.output_words, sums.reference_words) == (6, 6 + 2 + 0)


ZH_OUTPUT = [
    "我 喜欢 苹果 ， 也 喜欢 iPhone 手机 。",
    "他 在 New York 工作 （ 三 年 ）",
    "天气 很 好 ！",
]
ZH_REFERENCE = [
    "我 喜欢 苹果 ， 还 喜欢 iPhone 手机 。",
    "他 在 New York 住 了 三 年",
    "今天 天气 很 好 ！",
]
ZH_PLAIN = {
    "output": ["我喜欢苹果，也喜欢iPhone手机。", "他在New York工作（三年）", "天气很好！"],
    "reference": ["我喜欢苹果，还喜欢iPhone手机。", "他在New York住了三年", "今天天气很好！"],
}


def by_command(folder: Path, plain: dict[str, list[str]], *options: str) -> list[float]:
    """BLEU, chrF and TER as sacreBLEU's command prints them."""
    for name, lines in plain.items():
        (folder / f"plain.{name}").write_text("".join(f"{line}\n" for line in lines))
    texts = [folder / "plain.reference", "-i", folder / "plain.output"]
    command = [sys.executable, "-m", "sacrebleu", *map(str, texts), "-m", "bleu", "chrf", "ter"]
    printed = subprocess.run(
        [*command, "-b", "-w", "8", *options], check=True, capture_output=True, text=True
    ).stdout
    return [float(number) for number in json.loads(printed)]


@pytest.mark.parametrize(
    ("target", "options", "tokenizer"),
    [
        (TargetText("zh"), ["-tok", "zh", "--ter-normalized", "--ter-asian-support"], "zh"),
        (TargetText("zh_TW", "char"), ["-tok", "char"], "char"),
        (TargetText("yue", "intl"), ["-tok", "intl"], "intl"),
        (TargetText("ja", "none"), ["-tok", "none"], "none"),
    ],
)
def test_text_without_blanks_is_scored_as_by_sacrebleus_command(
    tmp_path: Path, target: TargetText, options: list[str], tokenizer: str
) -> None:
    output, reference = write(tmp_path / "o", ZH_OUTPUT), write(tmp_path / "r", ZH_REFERENCE)
    scores = score_output(output, [reference], target, n_samples=2)
    expected = by_command(tmp_path, ZH_PLAIN, "--ter-normalized", "--ter-asian-support", *options)
    found = scores.detokenised_bleu, scores.chrf, scores.ter
    assert found == pytest.approx(expected)
    assert f"BLEU|detokenised|lang:{target.language}|nrefs:1|" in scores.signatures[0]
    assert f"|tok:{tokenizer}|" in scores.signatures[0]
    assert "|norm:yes|punct:yes|asian:yes|" in scores.signatures[2]


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


def test_lowercased_bleu_is_sacrebleus_and_a_mean_over_outputs(tmp_path: Path) -> None:
    lines = ["The Cat sat on the Mat", "a dog"]
    outputs = [["the cat sat on the mat", "a DOG ran"], ["a cat sat on a mat", "A dog"]]
    reference = write(tmp_path / "reference", lines)
    paths = [write(tmp_path / f"out{n}", each) for n, each in enumerate(outputs)]
    metric = BLEU(tokenize="none", smooth_method="none", lowercase=True, force=True)
    expected = [metric.corpus_score(each, [lines]).score for each in outputs]
    found = lowercased_bleu({"both": paths, "first": paths[:1]}, [reference])
    assert found == {
        "both": pytest.approx(np.mean(expected)),
        "first": pytest.approx(expected[0]),
    }
    assert lowercased_bleu({"A": paths}, [write(tmp_path / "small", ["a", "b"])]) == {}


def test_an_output_of_another_length_is_refused(tmp_path: Path) -> None:
    reference = write(tmp_path / "reference", TUNED_REFERENCE)
    short = write(tmp_path / "short", OUTPUTS["one"][:1])
    with pytest.raises(InputError, match="short"):
        tuned_metrics({"a": [short]}, metrics_of_runs(["cer"]), [reference], reference)
