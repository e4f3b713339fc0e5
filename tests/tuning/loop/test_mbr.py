"""How much hypotheses are like each other, against the metrics' own counts."""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF as SacreChrf

from moses_bridge.base.errors import ConfigError, InputError
from tuning.loop import mbr as mbr_by_command
from tuning.loop.mbr import Likeness, MbrChoice, Sentence, add_mbr
from tuning.metrics.bleu import BLEU, References
from tuning.metrics.by_name import MbrMetricName

# One hypothesis comes twice, one is empty.
TEXTS = [b"a b c d e", b"a b c x e f", b"q", "é b c d".encode(), b"a b c d e", b""]


def likeness_of(choice: MbrChoice) -> Likeness:
    likeness = choice.likeness()
    assert likeness is not None
    return likeness


def values_of(name: MbrMetricName) -> list[float]:
    (values,) = likeness_of(MbrChoice(name))([Sentence(0, b"", TEXTS)])
    return [*values]


def test_values_by_chrf_are_means_of_sacrebleus_numbers() -> None:
    texts = [text.decode() for text in TEXTS]
    expected = []
    for own, text in enumerate(texts):
        others = (other for place, other in enumerate(texts) if place != own)
        scores = [SacreChrf().sentence_score(text, [other]).score / 100 for other in others]
        expected.append(np.mean(scores))
    assert values_of("chrf") == pytest.approx(expected)


def test_values_by_bleu_are_means_of_the_qualities_of_pairs() -> None:
    expected = []
    for own, text in enumerate(TEXTS):
        others = [[other] for place, other in enumerate(TEXTS) if place != own]
        pairs = [(place, text) for place in range(len(others))]
        expected.append(BLEU.quality(References(others).statistics(pairs)).mean())
    assert values_of("bleu") == pytest.approx(expected)


def ngrams(units: str | list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(units[at : at + order]) for at in range(len(units) - order + 1))


def aggregated(metric: str, own: int) -> float:
    """By the formula of the module, n-gram by n-gram, with the definitions of sentence BLEU+1 and of chrF."""
    texts = [text.decode() for text in TEXTS]
    units = [text.split() if metric == "bleu" else "".join(text.split()) for text in texts]
    rows = []
    for order in range(1, 5 if metric == "bleu" else 7):
        counts = [ngrams(each, order) for each in units]
        others = [each for place, each in enumerate(counts) if place != own]
        known = {ngram for each in counts for ngram in each}
        means = {ngram: sum(each[ngram] for each in others) / len(others) for ngram in known}
        matches = sum(min(counts[own][ngram], means[ngram]) for ngram in known)
        rows.append((matches, counts[own].total(), sum(means.values())))
    if metric == "bleu":
        added = [0, 1, 1, 1]
        logs = [
            math.log(max(m + a, 1e-9) / max(n + a, 1e-9))
            for (m, n, _), a in zip(rows, added, strict=True)
        ]
        brevity = min(0.0, 1 - (rows[0][2] + 1) / max(rows[0][1], 1e-9))
        return math.exp(sum(logs) / 4 + brevity)
    rows = [row for row in rows if row[1] and row[2]]
    precision = sum(m / n for m, n, _ in rows) / max(1, len(rows))
    recall = sum(m / n for m, _, n in rows) / max(1, len(rows))
    return 5 * precision * recall / (4 * precision + recall) if recall else 0.0


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_an_aggregated_reference_has_the_mean_numbers_of_ngrams_of_the_others(
    metric: Literal["bleu", "chrf"],
) -> None:
    expected = [aggregated(metric, own) for own in range(len(TEXTS))]
    name: MbrMetricName = "bleu-aggregated" if metric == "bleu" else "chrf-aggregated"
    assert values_of(name) == pytest.approx(expected)
    (single,) = likeness_of(MbrChoice(name))([Sentence(0, b"", [b"a"])])
    assert single.tolist() == [0]


def test_against_a_single_other_one_an_aggregated_reference_is_that_one() -> None:
    sentence = Sentence(0, b"", TEXTS[:2])
    pairs: list[tuple[MbrMetricName, MbrMetricName]] = [
        ("bleu", "bleu-aggregated"),
        ("chrf", "chrf-aggregated"),
    ]
    for names in pairs:
        (plain,), (found,) = (likeness_of(MbrChoice(name))([sentence]) for name in names)
        assert found.tolist() == pytest.approx(plain.tolist())


def test_a_list_gets_the_feature_and_a_single_hypothesis_has_0(tmp_path: Path) -> None:
    nbest, out = tmp_path / "list", tmp_path / "out"
    nbest.write_text(
        "0 ||| a b ||| LM0= -1 ||| -1\n1 ||| c ||| LM0= -2 ||| -2\n0 ||| a b ||| LM0= -3 ||| 0\n"
    )
    source = tmp_path / "source"
    source.write_text("x\ny\n")
    add_mbr(nbest, source, likeness_of(MbrChoice("chrf")), out)
    assert out.read_text().splitlines() == [
        "0 ||| a b ||| LM0= -1 MBR0= 1.000000 ||| -1",
        "1 ||| c ||| LM0= -2 MBR0= 0.000000 ||| -2",
        "0 ||| a b ||| LM0= -3 MBR0= 1.000000 ||| 0",
    ]
    nbest.write_text("0 ||| a b\n")
    with pytest.raises(InputError, match="list:1: found 2 fields, expected at least 4"):
        add_mbr(nbest, source, likeness_of(MbrChoice("bleu")), out)


# Ten times the words of the source, plus those of the hypothesis; this times the words of the other one.
PROGRAM = """\
import sys
from pathlib import Path
texts = [Path(name).read_text().split("\\n")[:-1] for name in sys.argv[1:4]]
sizes = [[len(line.split()) for line in text] for text in texts]
numbers = [(10 * source + own) * other for source, own, other in zip(*sizes, strict=True)]
Path(sys.argv[4]).write_text("".join(f"{number}\\n" for number in numbers[SKIPPED:]))
with open(sys.argv[5], "a") as log:
    log.write(f"{len(numbers)}\\n")
"""
SENTENCES = [
    Sentence(0, b"x y", [b"a", b"b c", b"a"]),
    Sentence(2, b"z", [b"d"]),
    Sentence(3, b"z", [b"e f g", b""]),
]
# By hand: the mean over the others, (10 s + own) * mean words of the others.
LIKENESS = [[21 * 1.5, 22 * 1.0, 21 * 1.5], [0.0], [13 * 0.0, 10 * 3.0]]


def choice(tmp_path: Path, skipped: int = 0, cache: str = "") -> MbrChoice:
    script = tmp_path / "pairs.py"
    script.write_text(PROGRAM.replace("SKIPPED", str(skipped)))
    command = f"{sys.executable} {script} {{source}} {{hypotheses}} {{reference}} {{out}} {tmp_path / 'log'}"
    return MbrChoice("column", command, cache)


@pytest.mark.parametrize("pairs_a_call", [1, 500_000])
def test_values_by_a_command_are_means_over_the_other_hypotheses(
    pairs_a_call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbr_by_command, "PAIRS_AT_ONCE", pairs_a_call)
    likeness = likeness_of(choice(tmp_path))
    assert [values.tolist() for values in likeness(SENTENCES)] == LIKENESS
    calls = (tmp_path / "log").read_text().split()
    assert calls == (["4", "1", "4"] if pairs_a_call == 1 else ["9"])


def test_a_file_keeps_the_matrices(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    for sentences in (SENTENCES[:1], SENTENCES, SENTENCES):
        likeness = likeness_of(choice(tmp_path, cache=str(path)))
        assert [values.tolist() for values in likeness(sentences)] == LIKENESS[: len(sentences)]
    assert (tmp_path / "log").read_text() == "4\n5\n"
    with np.load(path) as file:
        numbers = [int(name.partition("-")[0]) for name in file.files]
        found = [file[name].tolist() for name in file.files]
    # (10 s + own words) * words of the other one; "a" and "b c", the different ones, have a row and a column.
    assert numbers == [0, 2, 3] and found == [[[21, 42], [22, 44]], [[11]], [[39, 0], [30, 0]]]


@pytest.mark.parametrize("ends_at", [None, 40])
def test_the_matrices_are_written_a_few_times_and_most_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_at: int | None
) -> None:
    """All of them are written each time: once a sentence would be 64 times."""
    monkeypatch.setattr(mbr_by_command, "PAIRS_AT_ONCE", 1)
    written, path = list[int](), tmp_path / "kept.npz"
    savez = np.savez
    monkeypatch.setattr(
        np, "savez", lambda file, **kept: (written.append(len(kept)), savez(file, **kept))
    )
    sentences = [Sentence(number, b"x", [b"a", b"b c"]) for number in range(64)]
    likeness = likeness_of(MbrChoice("bleu", cache=str(path)))
    for number, _ in enumerate(likeness(sentences)):
        if number == ends_at:
            break
    assert len(written) <= 8 and written[-1] > (ends_at or 63) / 2
    with np.load(path) as file:
        assert len(file.files) == written[-1]


def test_matrices_of_other_hypotheses_or_another_metric_are_not_taken(tmp_path: Path) -> None:
    path = str(tmp_path / "kept.npz")
    first = Sentence(0, b"x", [b"a", b"b c"])
    for sentence in (first, first._replace(source=b"x y"), first._replace(texts=[b"a", b"b"])):
        list(likeness_of(choice(tmp_path, cache=path))([sentence]))
    list(likeness_of(MbrChoice("chrf", cache=path))([first]))
    assert (tmp_path / "log").read_text() == "4\n4\n4\n"
    with np.load(path) as file:
        assert len(file.files) == 4


@pytest.mark.parametrize("content", [b"key 0.5\n", b"PK", b""])
def test_a_file_without_matrices_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(content)
    with pytest.raises(InputError, match=r"cache: found .*, expected the matrices that mbr_cache"):
        choice(tmp_path, cache=str(tmp_path / "cache")).likeness()
    np.save(tmp_path / "cache.npy", np.zeros(2))
    with pytest.raises(
        InputError, match=r"cache.npy: found .*, expected the matrices that mbr_cache"
    ):
        choice(tmp_path, cache=str(tmp_path / "cache.npy")).likeness()


def test_a_command_that_writes_too_few_lines_is_refused(tmp_path: Path) -> None:
    likeness = likeness_of(choice(tmp_path, skipped=2))
    message = "the numbers of the command of MBR0: found 7 lines, expected 9, one a hypothesis"
    with pytest.raises(InputError, match=message):
        list(likeness(SENTENCES))


@pytest.mark.parametrize(
    ("name", "command", "message"),
    [
        ("column", "", 'mbr = "column" needs a command: set mbr_command'),
        ("chrf", "x", 'a command belongs to mbr = "column"; leave mbr_command out'),
        (None, "x", 'a command belongs to mbr = "column"; leave mbr_command out'),
        ("column", "x {hypotheses} {out}", r"the command of MBR0 has no {reference}: 'x {hyp"),
        (
            "column",
            "x {hypotheses} {reference} {out} {b}",
            r"the command of MBR0: found .* \('b'\)",
        ),
    ],
)
def test_a_command_that_does_not_fit_is_refused(
    name: MbrMetricName | None, command: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        MbrChoice(name, command).likeness()
    assert MbrChoice().likeness() is None


@pytest.mark.parametrize("name", ["bleu-aggregated", None])
def test_a_metric_without_matrices_keeps_none(name: MbrMetricName | None) -> None:
    with pytest.raises(ConfigError, match=f"mbr = {name!r} has no matrices; leave mbr_cache out"):
        MbrChoice(name, cache="x")
