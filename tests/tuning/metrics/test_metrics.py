"""The metrics against sacreBLEU, plain edit distance and each other's laws."""

from __future__ import annotations

import gzip
import random
import resource
import shlex
import signal
import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU as SacreBleu
from sacrebleu.metrics.chrf import CHRF as SacreChrf
from sacrebleu.metrics.ter import TER as SacreTer

from moses_bridge.base.errors import ConfigError, InputError, ToolError
from tests.conftest import LARGE
from tuning.metrics.bleu import BLEU, References
from tuning.metrics.by_name import LESS_IS_BETTER, MetricChoice
from tuning.metrics.chrf import CHRF, ChrfReferences
from tuning.metrics.column_metric import COLUMN, ColumnReferences
from tuning.metrics.edit_rates import (
    CER,
    LINE_ACCURACY,
    TER,
    WORD_ACCURACY,
    CerReferences,
    LineAccuracyReferences,
    TerReferences,
    WordAccuracyReferences,
)

N_REAL = 3000  # sacreBLEU takes 6 ms a sentence for TER
WORDS = ["a", "ab", "abc", "é", "日本", ".", "&apos;", "A", "longer-word", "b"]
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
sentences = st.lists(
    st.tuples(texts, st.lists(texts, min_size=2, max_size=2)), min_size=1, max_size=5
)
Sentences = list[tuple[str, list[str]]]


def encoded(sentences: Sentences) -> list[list[bytes]]:
    return [[text.encode() for text in references] for _, references in sentences]


def hypotheses(sentences: Sentences) -> list[tuple[int, bytes]]:
    return [(place, text.encode()) for place, (text, _) in enumerate(sentences)]


def streams(sentences: Sentences) -> tuple[list[str], list[list[str]]]:
    outputs = [text for text, _ in sentences]
    return outputs, [list(each) for each in zip(*(given for _, given in sentences), strict=True)]


@lru_cache(maxsize=8)
def by_sacrebleu(metric: Callable[[], Any], *sentences: tuple[str, ...]) -> Any:
    """Statistics, score and each sentence's score: seconds, so once for the plain and the compiled path."""
    outputs, references = streams([(text, [*given]) for text, *given in sentences])
    theirs = metric()
    statistics = theirs._extract_corpus_statistics(outputs, references)
    alone = [theirs._aggregate_and_compute([each]).score for each in statistics]
    return statistics, theirs._aggregate_and_compute(statistics).score, alone


def check_chrf(sentences: Sentences) -> None:
    found = ChrfReferences(encoded(sentences)).statistics(hypotheses(sentences))
    pairs = ((text, *given) for text, given in sentences)
    statistics, score, alone = by_sacrebleu(SacreChrf, *pairs)
    assert found.tolist() == statistics
    assert float(CHRF.value(found.sum(axis=0))) == score
    assert (100 * CHRF.quality(found)).tolist() == pytest.approx(alone)


def check_ter(sentences: Sentences) -> None:
    found = TerReferences(encoded(sentences)).statistics(hypotheses(sentences))
    pairs = ((text, *given) for text, given in sentences)
    statistics, score, _ = by_sacrebleu(SacreTer, *pairs)
    assert found.tolist() == statistics
    assert float(TER.value(found.sum(axis=0))) == score


@settings(deadline=None)
@given(sentences)
def test_chrf_is_sacrebleus(sentences: Sentences) -> None:
    check_chrf(sentences)


@settings(deadline=None)
@given(sentences)
def test_ter_is_sacrebleus(sentences: Sentences) -> None:
    check_ter(sentences)


@pytest.mark.slow
def test_on_thousands_of_real_sentences_the_metrics_are_sacrebleus() -> None:
    """Each target against the one before it and a changed copy of itself; made up where there is no corpus."""
    corpus = LARGE.parent / "data" / "debian-en-fr" / "train.fr.gz"
    rng = random.Random(1)
    if corpus.exists():
        with gzip.open(corpus, "rt", encoding="utf-8") as lines:
            real = [line.rstrip("\n") for line in islice(lines, N_REAL)]
    else:
        real = [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(N_REAL)]
    changed = [
        " ".join(word for word in text.split() if rng.random() > 0.2) or "x" for text in real
    ]
    pairs = [
        (text, [other, before])
        for text, other, before in zip(changed, real, [real[-1], *real], strict=False)
    ]
    check_chrf(pairs)
    check_ter([(text, given[:1]) for text, given in pairs])
    outputs, references = streams(pairs)
    sums = References(encoded(pairs)).statistics(hypotheses(pairs)).sum(axis=0)
    plain = SacreBleu(tokenize="none", smooth_method="none", force=True)
    assert float(BLEU.value(sums)) == pytest.approx(plain.corpus_score(outputs, references).score)


def distance(one: list[str], other: list[str]) -> int:
    """Levenshtein's distance by its definition (Wagner and Fischer 1974)."""
    row = list(range(len(other) + 1))
    for i, unit in enumerate(one, start=1):
        before, row[0] = row[0], i
        for j, expected in enumerate(other, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (unit != expected))
    return row[-1]


@settings(deadline=None)
@given(sentences)
def test_edit_rates_are_those_of_the_definition(sentences: Sentences) -> None:
    one = [(text, given[:1]) for text, given in sentences]
    words = WordAccuracyReferences(encoded(one)).statistics(hypotheses(one))
    letters = CerReferences(encoded(one)).statistics(hypotheses(one))
    assert words.tolist() == [
        [distance(text.split(), other.split()), len(other.split())] for text, (other,) in one
    ]
    assert letters.tolist() == [[distance([*text], [*other]), len(other)] for text, (other,) in one]
    edits, n_units = words.sum(axis=0)
    if n_units:
        assert float(WORD_ACCURACY.value(words.sum(axis=0))) == pytest.approx(
            100 * (1 - edits / n_units)
        )


def test_line_accuracy_is_the_share_of_lines_equal_to_a_reference() -> None:
    references = [[b"a b", b"c"], [b"d"], [b""]]
    given = [(0, b"c"), (0, b" a  b "), (0, b"a"), (1, b"D"), (2, b"")]
    found = LineAccuracyReferences(references).statistics(given)
    assert found.tolist() == [[0, 1], [0, 1], [1, 1], [1, 1], [0, 1]]
    assert float(LINE_ACCURACY.value(found.sum(axis=0))) == pytest.approx(60)
    assert LINE_ACCURACY.quality(found).tolist() == [1, 1, 0, 0, 1]


def test_several_metrics_are_the_weighted_sum_of_sacrebleus_numbers(tmp_path: Path) -> None:
    pairs = [("a b c d e f", ["a b x d e f"]), ("q r s t u", ["q r s t u v"])]
    outputs, references = streams(pairs)
    for number, lines in enumerate((outputs, references[0])):
        (tmp_path / str(number)).write_text("".join(f"{line}\n" for line in lines))
    choice = MetricChoice("bleu=0.5,ter=0.25,chrf=2")
    counter = choice.references([tmp_path / "1"], tmp_path / "0")
    found = counter.statistics(hypotheses(pairs))
    bleu = SacreBleu(tokenize="none", smooth_method="none", force=True)
    scores = [
        each.corpus_score(outputs, references).score for each in (bleu, SacreTer(), SacreChrf())
    ]
    expected = 0.5 * scores[0] - 0.25 * scores[1] + 2 * scores[2]
    assert float(counter.metric.value(found.sum(axis=0))) == pytest.approx(expected)
    assert (counter.metric.sign, counter.metric.label) == (1, "0.5 BLEU -0.25 TER +2 chrF")
    turned = MetricChoice("ter=0.25,chrf=2,bleu=0.5").references([tmp_path / "1"], tmp_path / "0")
    assert (turned.metric.sign, turned.metric.label) == (1, "-0.25 TER +2 chrF +0.5 BLEU")
    sums = turned.statistics(hypotheses(pairs)).sum(axis=0)
    assert float(turned.metric.value(sums)) == pytest.approx(expected)
    shares = [0.5 / 2.75, 0.25 / 2.75, 2 / 2.75]
    alone = [BLEU.quality(found[:, :9]), TER.quality(found[:, 9:11]), CHRF.quality(found[:, 11:])]
    mean = [
        sum(w * q for w, q in zip(shares, each, strict=True)) for each in zip(*alone, strict=True)
    ]
    assert counter.metric.quality(found).tolist() == pytest.approx(mean)
    # In words: BLEU+1 of 6 and of 6 words; minus the edits; chrF of the letters of the references, 6 a word.
    gains = [6 * alone[0], -np.array([1.0, 1.0]), alone[2] * np.array([1.0, 1.0])]
    mean_gain = sum(w * gain for w, gain in zip(shares, gains, strict=True))
    assert counter.metric.gains(found) == pytest.approx(mean_gain)


@pytest.mark.parametrize(
    "name", ["bleu=0.5,xml=1", "bleu,chrf", "bleu=0.5,chrf", "bleu=-1,ter=1", "", "ter="]
)
def test_what_are_no_metrics_is_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"metric: found .*, expected one of bleu, .* or several with"
    ):
        MetricChoice(name)
    assert {each.name for each in (TER, CER, WORD_ACCURACY, CHRF) if each.sign < 0} == {
        *LESS_IS_BETTER
    }


def test_of_two_references_the_nearer_one_counts() -> None:
    references = [[b"a b c d", b"a x"]]
    assert WordAccuracyReferences(references).statistics([(0, b"a b c")]).tolist() == [[1, 4]]
    assert WordAccuracyReferences(references).statistics([(0, b"a y")]).tolist() == [[1, 2]]
    assert CerReferences(references).statistics([(0, b"a xy")]).tolist() == [[1, 3]]


def test_the_nearer_reference_is_the_one_with_fewest_edits_for_its_length() -> None:
    """Three edits for five words are less than one for one, and so by characters."""
    references = [[b"a", b"a b c d e"], [b"a b c d e", b"a"]]
    words = WordAccuracyReferences(references).statistics([(0, b"a b"), (1, b"a b")])
    assert words.tolist() == [[3, 5], [3, 5]]
    letters = CerReferences(references).statistics([(0, b"a b"), (1, b"a b")])
    assert letters.tolist() == [[6, 9], [6, 9]]


@pytest.mark.parametrize("metric", [BLEU, CHRF, TER, WORD_ACCURACY, CER, COLUMN])
def test_the_values_along_a_line_are_those_of_the_sums(metric: MetricChoice) -> None:
    rng = np.random.default_rng(1)
    n = {"bleu": 9, "chrf": 18}.get(metric.name, 2)
    statistics = rng.integers(500, 1000, (9, n))
    firsts, losers, winners = np.split(rng.integers(9, size=17).astype(np.int32), [3, 10])
    sums = statistics[firsts].sum(axis=0)
    changes = statistics[winners] - statistics[losers]
    values = [metric.value(sums + changes[:k].sum(axis=0)) for k in range(8)]
    levels = [metric.level(float(value)) for value in values]
    assert metric.along(statistics, firsts, losers, winners).tolist() == pytest.approx(levels)
    better = [metric.sign * float(value) for value in values]
    assert np.argsort(levels).tolist() == np.argsort(better).tolist()


LENGTHS = """\
import sys
lines = [open(path).read().splitlines() for path in sys.argv[1:4]]
with open(sys.argv[4], "w") as out:
    for words, source, reference in zip(*lines):
        out.write(f"{len(words) + 100 * len(source) + 10000 * len(reference)}\\n")
with open("asked", "a") as log:
    log.write(f"{len(lines[0])}\\n")
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("lengths.py").write_text(LENGTHS)
    return f"{sys.executable} lengths.py {{hypotheses}} {{source}} {{reference}} {{out}}"


def test_a_column_is_asked_for_once_and_kept(command: str) -> None:
    texts = ([[b"xx"], [b"xxx"]], [b"s", b"ss"], command, Path("cache"))
    asked = [(0, b"a"), (1, b"abc"), (0, b"a"), (0, b"abc")]
    expected = [[20101, 1], [30203, 1], [20101, 1], [20103, 1]]
    references = ColumnReferences(*texts)
    assert references.statistics(asked).tolist() == expected
    assert references.statistics(asked[:1]).tolist() == expected[:1]
    again = ColumnReferences(*texts)
    assert again.statistics([*asked, (1, b"")]).tolist() == [*expected, [30200, 1]]
    assert Path("asked").read_text().split() == ["3", "1"]
    assert float(COLUMN.value(np.array(expected).sum(axis=0))) == np.mean([r[0] for r in expected])


def test_a_kept_number_that_was_damaged_is_refused(command: str) -> None:
    texts = ([[b"xx"]], [b"s"], command, Path("cache"))
    ColumnReferences(*texts).statistics([(0, b"a"), (0, b"ab")])
    lines = Path("cache").read_text().splitlines()
    key, number, check = lines[1].split()
    for wrong in (f"{key} 1{number} {check}", f"{key} {number[:-1]}"):
        Path("cache").write_text(f"{lines[0]}\n{wrong}\n")
        with pytest.raises(InputError, match="cache:2: found another line than was written"):
            ColumnReferences(*texts)
    # Earlier versions wrote no checks.
    Path("cache").write_text("".join(line.rpartition(" ")[0] + "\n" for line in lines))
    assert ColumnReferences(*texts).statistics([(0, b"ab")]).tolist() == [[20102, 1]]
    assert Path("asked").read_text().split() == ["2"]


OPEN = """\
import sys
open("started", "a").write("x")
for line in sys.stdin:
    fields = [len(field) for field in line.rstrip("\\n").split(" ||| ")]
    print(100 * fields[0] + 10000 * fields[1] + fields[2] if line != "\\n" else "", flush=True)
"""


def test_a_command_without_places_stays_open_and_gives_the_same_numbers(command: str) -> None:
    Path("open.py").write_text(OPEN)
    texts = ([[b"xx"], [b"xxx"]], [b"s", b"ss"])
    asked = [(0, b"a"), (1, b"abc"), (0, b""), (0, b"a ||| b")]
    opened = ColumnReferences(*texts, f"{sys.executable} open.py")
    expected = ColumnReferences(*texts, command).statistics(asked[:3]).tolist()
    assert [opened.statistics([each]).tolist()[0] for each in asked[:3]] == expected
    assert opened.statistics(asked[3:]).tolist() == [[20100 + len("a &#124;&#124;&#124; b"), 1]]
    assert Path("started").read_text() == "x"
    Path("open.py").write_text("print(1); print('nan', flush=True)")
    message = (
        r"the answers of the metric's command:2: found the value 'nan', expected a finite number"
    )
    with pytest.raises(InputError, match=message):
        ColumnReferences(*texts, f"{sys.executable} open.py").statistics(asked)


def test_braces_of_a_command_that_stays_open() -> None:
    program = "import sys; [print({{0: '', 1: 5}}[len(x) > 1], flush=True) for x in sys.stdin]"
    texts = ([[b"x"]], [b"s"])
    given = shlex.join([sys.executable, "-c", program])
    assert ColumnReferences(*texts, given).statistics([(0, b"a")]).tolist() == [[5, 1]]
    with pytest.raises(ConfigError, match=r"Write {{ and }} for braces that name no file"):
        ColumnReferences(*texts, "awk '{print 1}'")


def test_without_room_for_the_file_the_numbers_are_kept_in_memory(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    references = ColumnReferences([[b"xx"]], [b"s"], command, tmp_path / "cache")
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, before[1]))
    try:
        for _ in range(2):
            assert references.statistics([(0, b"a")]).tolist() == [[20101, 1]]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handled)
    assert Path("asked").read_text().split() == ["1"]
    assert "cache'; the numbers are not kept\n" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_numbers_that_do_not_fit_are_refused_and_nothing_is_kept(command: str) -> None:
    faults = {
        "head -1": "found 1 lines, expected 2, one a hypothesis",
        "sed s/1/x/": "numbers of the metric's command:1: found .*, expected a finite number",
    }
    for program, message in faults.items():
        Path("wrong.sh").write_text(f'{program} "$1" > "$2"\n')
        references = ColumnReferences(
            [[b"r"]], [b"s"], "sh wrong.sh {hypotheses} {out}", Path("cache")
        )
        with pytest.raises(InputError, match=message):
            references.statistics([(0, b"1"), (0, b"12")])
    failing = ColumnReferences([[b"r"]], [b"s"], "false {hypotheses} {out}", Path("cache"))
    with pytest.raises(ToolError, match="failed with status 1"):
        failing.statistics([(0, b"1")])
    assert not Path("cache").exists()
    Path("cache").write_text("key x\n")
    with pytest.raises(InputError, match="cache:1: found the value 'x', expected a finite number"):
        ColumnReferences([[b"r"]], [b"s"], command, Path("cache"))


@pytest.mark.parametrize(
    ("name", "command", "message"),
    [
        ("column", "", 'the metric "column" needs a command'),
        ("chrf", "x {hypotheses} {out}", 'the metric "chrf" has no command'),
    ],
)
def test_a_metric_and_its_command_belong_together(name: str, command: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MetricChoice(name, command)  # type: ignore[arg-type]


def test_a_command_without_its_places_is_refused() -> None:
    for command, message in {
        "comet {hypotheses}": "has no {out}",
        "comet {hypotheses} {out} {wrong}": "'wrong'",
        " ": "no program",
    }.items():
        with pytest.raises(ConfigError, match=message):
            ColumnReferences([[b"r"]], [b"s"], command)
