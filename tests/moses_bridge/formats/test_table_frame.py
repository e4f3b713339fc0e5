"""Phrase tables as data frames: only changed values change the bytes of a table."""

from __future__ import annotations

import gzip
import math
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from moses_bridge.base.errors import InputError, UserError
from moses_bridge.formats.phrase_table import append_scores
from moses_bridge.formats.table_frame import read_frame, write_frame

# Blanks, tabs, numbers and ends of rows as programs and people have written them.
ODD = (
    b"a ||| x ||| 0.50 1e-3 ||| 0-0 ||| 2 4 1 ||| |||\n"
    b"a b ||| \xff\xe9  y|||1 .25|||0-0  1-1|||2 4\n"
    b"caf\xc3\xa9 |||  z ||| 1e-007\t0.3000000000000000044 |||  ||| 2 4 1 7 ||| sparse=1 ||| {{p v}} |||\n"
    b"d ||| w ||| 0.5 0.5\r\n"
    b"e ||| |||  0.5   0.5  \n"
)


def table(folder: Path, content: bytes = ODD) -> Path:
    path = folder / "table"
    path.write_bytes(content)
    return path


def written(frame: pd.DataFrame, folder: Path) -> list[bytes]:
    write_frame(frame, folder / "out")
    return (folder / "out").read_bytes().split(b"\n")[:-1]


def test_a_table_read_and_written_is_the_same_bytes(tmp_path: Path) -> None:
    write_frame(read_frame(table(tmp_path)), tmp_path / "out.gz")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == ODD


def test_tables_of_moses_are_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    """The first 30,000 rows."""
    for path in sorted((golden / "extract").glob("phrase-table*"))[:1]:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as rows:
            content = b"".join(islice(rows, 30_000))
        write_frame(read_frame(table(tmp_path, content)), tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == content


def test_what_the_columns_say(tmp_path: Path) -> None:
    frame = read_frame(table(tmp_path))
    counts = ["count_target", "count_source", "count_pair"]
    assert [*frame.columns] == [
        *("source", "target", "score0", "score1", "alignment"),
        *counts,
        "line",
    ]
    assert [*frame["source"]] == ["a", "a b", "café", "d", "e"]
    assert [*frame["target"]] == ["x", "\udcff\udce9  y", "z", "w", ""]
    assert frame["score0"].tolist() == [0.5, 1, 1e-7, 0.5, 0.5]
    assert [*frame["alignment"]] == ["0-0", "0-0  1-1", "", "", ""]
    expected = [[2, 4, 1], [2, 4, math.nan], [2, 4, 1], [math.nan] * 3, [math.nan] * 3]
    assert np.array_equal(frame[counts].to_numpy(), expected, equal_nan=True)


def test_rows_chosen_and_sorted_keep_their_bytes(tmp_path: Path) -> None:
    lines = ODD.split(b"\n")
    frame = read_frame(table(tmp_path))
    chosen = frame[frame["score0"] < 1].sort_values("source", ascending=False)
    assert written(chosen, tmp_path) == [lines[place] for place in (4, 3, 2, 0)]


def test_an_added_score_is_written_as_the_command_does(tmp_path: Path) -> None:
    frame = read_frame(table(tmp_path))
    frame["score2"] = [0.125, 1e-12, 1 / 3, 0.5, 0.25]
    rows = zip(ODD.split(b"\n"), frame["score2"], strict=False)
    expected = [append_scores(line, [score]) for line, score in rows]
    assert [row.split() for row in written(frame, tmp_path)] == [row.split() for row in expected]


def test_only_what_was_changed_changes(tmp_path: Path) -> None:
    frame = read_frame(table(tmp_path))
    frame.loc[0, "score1"] = 0.75
    frame.loc[1, "target"] = "été"
    frame.loc[2, "alignment"] = "0-0"
    frame.loc[3, ["count_target", "count_source", "count_pair"]] = [3, 2, 1]
    assert written(frame, tmp_path) == [
        b"a ||| x ||| 0.50 0.75 ||| 0-0 ||| 2 4 1 ||| |||",
        "a b ||| été|||1 .25|||0-0  1-1|||2 4".encode(),
        b"caf\xc3\xa9 |||  z ||| 1e-007\t0.3000000000000000044 ||| 0-0 ||| 2 4 1 7 ||| sparse=1 |||"
        b" {{p v}} |||",
        b"d ||| w ||| 0.5 0.5 ||| ||| 3 2 1 \r",
        b"e ||| |||  0.5   0.5  ",
    ]


def test_a_score_taken_away(tmp_path: Path) -> None:
    frame = read_frame(table(tmp_path)).drop(columns="score1")
    assert written(frame, tmp_path)[0] == b"a ||| x ||| 0.50 ||| 0-0 ||| 2 4 1 ||| |||"


def test_rows_made_in_python(tmp_path: Path) -> None:
    frame = pd.DataFrame({"source": ["a", b"b"], "target": ["é", "x y"], "score0": [0.5, 1 / 3]})
    assert written(frame, tmp_path) == ["a ||| é ||| 0.5".encode(), b"b ||| x y ||| 0.3333333"]
    frame["alignment"] = ["0-0", None]
    frame["count_target"] = [123456789, None]
    assert written(frame, tmp_path) == [
        "a ||| é ||| 0.5 ||| 0-0 ||| 123456789".encode(),
        b"b ||| x y ||| 0.3333333",
    ]


def test_an_empty_table(tmp_path: Path) -> None:
    assert read_frame(table(tmp_path, b"")).shape == (0, 7)


def test_a_malformed_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table:2: found 2 columns, expected at least 3"):
        read_frame(table(tmp_path, b"a ||| b ||| 1\na ||| b\n"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"rnn": [0.5]}, "a phrase table: found the column 'rnn', expected source, target, score0"),
        ({"score2": [0.5]}, "found scores score0, score2, expected"),
        ({"score0": [math.nan]}, "row 0, score0: found nan, expected a finite number"),
        ({"score0": ["high"]}, "row 0, score0: found 'high', expected a finite number"),
        ({"target": ["x ||| y"]}, r'row 0, target: found "\|\|\|" in'),
        ({"target": ["x\ny"]}, "row 0, target: found the end of a line in"),
        ({"source": [" "]}, "row 0, source: found nothing, expected at least one word"),
        ({"count_pair": [1]}, "row 0: found no count_target, expected it before the other counts"),
        ({"line": [7]}, "row 0, line: found 7, expected a row as it was read"),
    ],
)
def test_a_frame_that_is_no_table(
    columns: dict[str, list[object]], message: str, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"source": ["a"], "target": ["x"], "score0": [0.5]}).assign(**columns)
    with pytest.raises(UserError, match=message):
        write_frame(frame, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_frame_without_sources(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found no column 'source'"):
        write_frame(pd.DataFrame({"target": ["x"], "score0": [0.5]}), tmp_path / "out")
