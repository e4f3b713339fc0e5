"""Features of n-best lists as they are named, and the choice among reranked hypotheses."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from tuning.loop.list_features import NBestFeature, choose_best, search_weights

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
