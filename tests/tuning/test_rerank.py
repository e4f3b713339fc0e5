"""Features added to n-best lists by commands, and the choice among reranked hypotheses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from moses_bridge.errors import ConfigError, InputError, ToolError
from tuning.rerank import NBestFeature, add_features, rerank, search_weights

NBEST = b"""\
0 ||| a b  ||| LM0= -1 TM0= -2 -3 ||| -6
0 ||| a c  ||| LM0= -2 TM0= -1 -1 ||| -4
2 ||| d  ||| LM0= -5 TM0= 0 0 ||| -5
2 ||| e  ||| LM0= -5 TM0= 0 0 ||| -5
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nbest, source = tmp_path / "nbest", tmp_path / "source"
    nbest.write_bytes(NBEST)
    source.write_bytes(b"x y\n\nz\n")
    return nbest, source


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
    rerank(files[0], weights, files[1], tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == expected


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
    add_features(files[0], files[1], features, tmp_path / "out.gz")
    rerank(tmp_path / "out.gz", {"A0": [1.0], "B0": [1.0]}, files[1], tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"a b\n\nd\n"
    assert files[0].read_bytes() == NBEST


def test_a_failing_command_tells_its_last_words(files: tuple[Path, Path], tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'import sys; sys.exit(\"no model here\")' {{nbest}} {{out}}"
    with pytest.raises(ToolError, match="no model here"):
        add_features(files[0], files[1], [NBestFeature("A0", command)], tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


def test_a_command_that_adds_nothing_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    feature = NBestFeature("A0", command_that_adds(tmp_path / "b.py", "B0", 2))
    with pytest.raises(ConfigError, match="the command of A0 wrote a list without A0="):
        add_features(files[0], files[1], [feature], tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


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
        ("A0:=x {nbest} {out}", "expected NAME=COMMAND or NAME:STAND_IN"),
    ],
)
def test_an_unusable_feature_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NBestFeature.parse(text)


def test_a_damaged_list_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    files[0].write_bytes(b"0 ||| a ||| LM0= x ||| 1\n")
    with pytest.raises(InputError, match="nbest:1"):
        rerank(files[0], {"LM0": [1.0]}, files[1], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_feature_starts_without_a_weight() -> None:
    assert NBestFeature.parse("A0=x {nbest} {out}").initial_weight == 0


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
