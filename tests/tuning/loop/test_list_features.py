"""Features added to n-best lists by commands and scorers, and the choice among their hypotheses."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError, ToolError, UserError
from moses_bridge.base.textio import read_lines
from tuning.loop.list_features import ListFeatures, NBestFeature, choose_best, search_weights

NBEST = b"""\
0 ||| a b  ||| LM0= -1 TM0= -2 -3 ||| -6
0 ||| a c  ||| LM0= -2 TM0= -1 -1 ||| -4
2 ||| d  ||| LM0= -5 TM0= 0 0 ||| -5
2 ||| e  ||| LM0= -5 TM0= 0 0 ||| -5
"""
# Answers -(number of the last word), and notes how many n-grams it was asked for.
SCORER = """
import sys
import numpy as np
from moses_bridge.formats.ngram_scorer import serve_ngrams

class Scorer:
    order, start_id, end_id, open_id, reads_source = 3, 9, 10, -1, SEES

    def encode(self, words):
        return np.array(["abcde".index(word.decode()) for word in words], np.int32)

    def read(self, sources):
        return sum(len(source.split()) + 1 for source in sources)

    def log_probs(self, ngrams):
        with open(sys.argv[1], "a") as asked:
            print(len(ngrams), file=asked)
        return -ngrams[:, -1].astype(np.float32)

    estimates = log_probs

serve_ngrams(Scorer(), sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuning.loop.list_features.HYPOTHESES_AT_ONCE", 3)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nbest, source = tmp_path / "nbest", tmp_path / "source"
    nbest.write_bytes(NBEST)
    source.write_bytes(b"x y\n\nz\n")
    return nbest, source


def add(features: Sequence[NBestFeature], files: tuple[Path, Path], out: Path) -> None:
    with ListFeatures(features) as lists:
        lists.add(*files, out)


def command_that_adds(script: Path, name: str, value: int) -> str:
    script.write_text(
        "import gzip, sys\n"
        "def opened(path, mode):\n"
        "    return gzip.open(path, mode) if path.endswith('.gz') else open(path, mode)\n"
        "with opened(sys.argv[1], 'rb') as lines, opened(sys.argv[2], 'wb') as out:\n"
        "    for line in lines:\n"
        "        fields = line.split(b' ||| ')\n"
        f"        fields[2] += b' {name}= {value}'\n"
        "        out.write(b' ||| '.join(fields))\n"
    )
    return f"{sys.executable} {script} {{nbest}} {{out}}"


def test_commands_run_one_after_the_other(files: tuple[Path, Path], tmp_path: Path) -> None:
    features = [
        NBestFeature("A0", command_that_adds(tmp_path / "a.py", "A0", 1)),
        NBestFeature("B0", command_that_adds(tmp_path / "b.py", "B0", 2)),
    ]
    add(features, files, tmp_path / "out.gz")
    choose_best(tmp_path / "out.gz", {"A0": [1.0], "B0": [1.0]}, files[1], tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"a b\n\nd\n"
    assert files[0].read_bytes() == NBEST


def test_a_failing_command_tells_its_last_words(files: tuple[Path, Path], tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'import sys; sys.exit(\"no model here\")' {{nbest}} {{out}}"
    with pytest.raises(ToolError, match="no model here"):
        add([NBestFeature("A0", command)], files, tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


def test_a_command_that_adds_nothing_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    feature = NBestFeature("A0", command_that_adds(tmp_path / "b.py", "B0", 2))
    with pytest.raises(ConfigError, match="the command of A0 wrote a list without A0="):
        add([feature], files, tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("lines = lines[:2]", ":3: found the end, expected a line, as in the list it read"),
        ("lines = lines + lines[3:]", ":5: found a line, expected the end"),
        ("lines = lines[::-1]", ":1: found the sentence id '2', expected '0'"),
    ],
)
def test_a_command_that_loses_entries_is_told(
    files: tuple[Path, Path], tmp_path: Path, change: str, fault: str
) -> None:
    command = command_that_adds(tmp_path / "a.py", "A0", 1)
    script = (tmp_path / "a.py").read_text()
    loop = "    for line in lines:"
    script = script.replace(loop, f"    lines = [*lines]\n    {change}\n{loop}")
    (tmp_path / "a.py").write_text(script)
    with pytest.raises(InputError, match=f"the list written by the command of A0{fault}"):
        add([NBestFeature("A0", command)], files, tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


def scorer(folder: Path, sees_source: bool = False) -> NBestFeature:
    (folder / "scorer.py").write_text(SCORER.replace("SEES", str(sees_source)))
    words = sys.executable, str(folder / "scorer.py"), str(folder / "asked")
    return NBestFeature("CSLM0", shlex.join(words))


def test_a_scorer_stays_and_is_asked_for_new_n_grams_alone(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    """Values by hand: a is 0, b 1, c 2, d 3, e 4 and the end 10."""
    other = tmp_path / "other"
    other.write_bytes(NBEST + b"2 ||| a b d  ||| LM0= -5 TM0= 0 0 ||| -5\n")
    with ListFeatures([scorer(tmp_path)]) as lists:
        lists.add(*files, tmp_path / "first.gz")
        lists.add(other, files[1], tmp_path / "second.gz")
    lines = NBEST.splitlines()
    values = [-11, -12, -13, -14]
    expected = [
        line.replace(b" ||| -", b" CSLM0= %.6f ||| -" % value, 1)
        for line, value in zip(lines, values, strict=True)
    ]
    assert list(read_lines(tmp_path / "first.gz")) == expected
    assert list(read_lines(tmp_path / "second.gz"))[4].split(b" ||| ")[2].endswith(b"-14.000000")
    assert (tmp_path / "asked").read_text().split() == ["7", "2", "2"]  # three hypotheses at a time


def test_scorers_and_commands_side_by_side(files: tuple[Path, Path], tmp_path: Path) -> None:
    features = [scorer(tmp_path), NBestFeature("B0", command_that_adds(tmp_path / "b.py", "B0", 2))]
    add(features, files, tmp_path / "out.gz")
    choose_best(tmp_path / "out.gz", {"CSLM0": [-1.0]}, files[1], tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"a c\n\ne\n"


def test_a_faulty_line_before_a_scorer_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    files[0].write_bytes(NBEST + b"2 ||| d\n")
    with pytest.raises(InputError, match="nbest:5: found 2 field"):
        add([scorer(tmp_path)], files, tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


def test_a_scorer_that_sees_the_source_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected one that sees the text alone"):
        add([scorer(tmp_path, sees_source=True)], files, tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


def test_a_command_that_is_no_scorer_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="expected a line ngram-scorer"):
        add([NBestFeature("A0", "echo hello")], files, tmp_path / "out.gz")


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"LM0": [1.0], "TM0": [0.0, 0.0]}, b"a b\n\nd\n"),
        ({"LM0": [1.0], "TM0": [1.0, 0.0]}, b"a b\n\nd\n"),
        ({"LM0": [0.0], "TM0": [0.0, 1.0]}, b"a c\n\nd\n"),
        ({"LM0": [-1.0]}, b"a c\n\nd\n"),
    ],
)
def test_the_best_by_weight_and_an_empty_line_where_there_is_none(
    files: tuple[Path, Path], tmp_path: Path, weights: dict[str, list[float]], expected: bytes
) -> None:
    choose_best(files[0], weights, files[1], tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == expected


@pytest.mark.parametrize("word", ["{model}", "{nbest.x}", "{}", "}", "'x"])
def test_a_command_that_cannot_be_filled_in_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="the command of A0: found"):
        NBestFeature("A0", f"x {{nbest}} {{out}} {word}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A0", "expected NAME=COMMAND"),
        ("=x {nbest} {out}", "the feature name ''"),
        ("A_0=x {nbest} {out}", "'_' for a sparse feature"),
        ("é0=x {nbest} {out}", "a letter first"),
        ("0A=x {nbest} {out}", "a letter first"),
        ("A0=x {nbest}", "has no {out}"),
        ("A0=x --source {source}", "has no {nbest}"),
        ("A0:=x {nbest} {out}", "expected NAME=COMMAND or NAME:STAND_IN"),
    ],
)
def test_an_unusable_feature_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NBestFeature.parse(text)


def test_a_damaged_list_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    files[0].write_bytes(b"0 ||| a ||| LM0= x ||| 1\n")
    with pytest.raises(InputError, match="nbest:1"):
        choose_best(files[0], {"LM0": [1.0]}, files[1], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_feature_starts_without_a_weight() -> None:
    assert NBestFeature.parse("A0=x {nbest} {out}").initial_weight == 0


def test_a_command_without_places_for_files_is_a_scorer() -> None:
    assert NBestFeature.parse("A0:LM0=serve 'a model'").is_scorer
    assert not NBestFeature.parse("A0=x {nbest} {out}").is_scorer


def test_the_search_goes_by_stand_ins() -> None:
    features = [
        NBestFeature.parse("CSLM0:LM0=x {nbest} {out}"),
        NBestFeature("B0", "{nbest} {out}"),
    ]
    weights = {"TM0": [1.0, 2.0], "LM0": [0.5], "CSLM0": [0.25], "B0": [3.0]}
    assert search_weights(weights, features) == {"TM0": [1.0, 2.0], "LM0": [0.75]}
    assert weights["LM0"] == [0.5]
    assert search_weights({"LM0": [0.5]}, []) == {"LM0": [0.5]}


@pytest.mark.parametrize("stand_in", ["LM1", "TM0", "B0"])
def test_a_stand_in_is_a_feature_of_the_decoder_with_one_value(stand_in: str) -> None:
    features = [
        NBestFeature("CSLM0", "{nbest} {out}", 0.0, stand_in),
        NBestFeature("B0", "{nbest} {out}"),
    ]
    weights = {"TM0": [1.0, 2.0], "LM0": [0.5], "CSLM0": [0.25], "B0": [3.0]}
    with pytest.raises(ConfigError, match=f"stand-in {stand_in} is no feature of one value"):
        search_weights(weights, features)
