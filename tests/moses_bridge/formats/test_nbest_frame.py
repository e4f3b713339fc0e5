"""N-best lists as data frames."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from moses_bridge.base.errors import InputError, UserError
from moses_bridge.formats.nbest_frame import read_nbest_frame, write_nbest_frame

LIST = (
    b"0 ||| le chat  ||| LM0= -7.25 TM0= -1 0.5 WT_a~b= 2 ||| -9.5 ||| 0=0 1=1 ||| 0-0 1-1\n"
    b"0 ||| \xff chat  ||| LM0= -1e-05 TM0= -1 0 ||| -3\n"
    b"1 |||  ||| LM0= 0 TM0= 0 0 ||| 0\n"
)


def written(frame: pd.DataFrame, folder: Path) -> bytes:
    write_nbest_frame(frame, folder / "out")
    return (folder / "out").read_bytes()


def frame_of(folder: Path, content: bytes = LIST) -> pd.DataFrame:
    (folder / "list").write_bytes(content)
    return read_nbest_frame(folder / "list")


def test_what_the_columns_say(tmp_path: Path) -> None:
    frame = frame_of(tmp_path)
    assert {*frame.columns} == {
        *("sentence", "target", "LM0", "TM0_0", "TM0_1", "WT_a~b", "total", "rest")
    }
    assert [*frame["sentence"]] == [0, 0, 1] and frame["sentence"].dtype == int
    assert [*frame["target"]] == ["le chat", "\udcff chat", ""]
    assert [*frame["LM0"]] == [-7.25, -1e-05, 0] and [*frame["TM0_1"]] == [0.5, 0, 0]
    assert frame["WT_a~b"][0] == 2 and math.isnan(frame["WT_a~b"][1])
    assert [*frame["total"]] == [-9.5, -3, 0]
    assert [*frame["rest"]] == ["0=0 1=1 ||| 0-0 1-1", "", ""]
    assert [*frame_of(tmp_path, b"").columns] == ["sentence", "target", "total", "rest"]


def test_a_list_read_and_written_is_the_same(tmp_path: Path, small_golden: Path) -> None:
    assert written(frame_of(tmp_path), tmp_path) == LIST
    paths = sorted(small_golden.rglob("*nbest*"))
    assert paths
    for path in paths:
        frame = read_nbest_frame(path)
        write_nbest_frame(frame, tmp_path / "again.gz")
        pd.testing.assert_frame_equal(read_nbest_frame(tmp_path / "again.gz"), frame)


def test_features_are_changed_added_and_dropped(tmp_path: Path) -> None:
    frame = frame_of(tmp_path).drop(columns=["total", "rest", "WT_a~b", "LM0"])
    frame["TM0_0"] += 0.25
    frame["New0"] = [0.1 + 0.2, 1 / 3, -1]
    assert written(frame[::-1], tmp_path).splitlines()[1:] == [
        b"0 ||| \xff chat  ||| TM0= -0.75 0 New0= 0.333333333333 ||| 0",
        b"0 ||| le chat  ||| TM0= -0.75 0.5 New0= 0.3 ||| 0",
    ]


def test_the_lists_of_other_programs_are_read(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("0 ||| a b ||| F0= -1.5 F1= -2 ||| -1.75\n")
    frame = read_nbest_frame(tmp_path / "m", "marian")
    assert frame.loc[0, ["target", "F0", "F1", "total"]].tolist() == ["a b", -1.5, -2, -1.75]
    with pytest.raises(InputError, match="list:1: found the sentence id 'x '"):
        frame_of(tmp_path, b"x ||| a ||| A0= 1 ||| 1\n")
    with pytest.raises(InputError, match="list:1: found a feature total, expected another name"):
        frame_of(tmp_path, b"0 ||| a ||| total= 1 ||| 1\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": ["a ||| b"]}, r'row 0, target: found "\|\|\|"'),
        ({"target": [None]}, "row 0, target: found NoneType None, expected str"),
        ({"sentence": [-1]}, "row 0, sentence: found -1.0, expected a whole number from 0"),
        ({"sentence": [0.5]}, "row 0, sentence: found 0.5, expected a whole number from 0"),
        ({"LM0": [math.inf]}, "row 0, LM0: found inf, expected a finite number"),
        ({"T_1": [math.nan], "T_0": [1.0]}, "row 0, T_1: found nan, expected a finite number"),
        ({"total": ["x"]}, "row 0, total: found 'x', expected a finite number"),
        ({"my score": [1.0]}, "found the feature name 'my score', expected letters and digits"),
        ({"rest": ["a\nb"]}, "row 0, rest: found the end of a line"),
    ],
)
def test_what_a_list_cannot_have(
    tmp_path: Path, changes: dict[str, list[object]], message: str
) -> None:
    frame = pd.DataFrame({"sentence": [0], "target": ["a"], "LM0": [1.0]} | changes)
    with pytest.raises(UserError, match=message):
        written(frame, tmp_path)
    assert not (tmp_path / "out").exists()


def test_columns_that_are_missing_or_there_twice(tmp_path: Path) -> None:
    frame = pd.DataFrame({"sentence": [0], "LM0": [1.0]})
    with pytest.raises(UserError, match="found the columns sentence, LM0, expected sentence, targ"):
        written(frame, tmp_path)
    twice = pd.DataFrame([[0, "a", 1.0, 1.0]], columns=["sentence", "target", "A0", "A0"])
    with pytest.raises(UserError, match="features, each once"):
        written(twice, tmp_path)
