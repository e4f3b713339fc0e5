from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from moses_bridge.base import textio
from moses_bridge.base.errors import InputError
from rescorer.tables import rows
from rescorer.tables.rows import Shard
from rescorer.tables.source_table import SourceTable

ROWS = [b"a ||| x ||| 0.5 1 ||| 0-0", b"a ||| y ||| 0.5 1", b"b|||y|||0.5 1|||0-0\r"]
BAD = b"only ||| two"


def written(folder: Path, rows: list[bytes], name: str = "table.gz") -> str:
    text = b"".join(row + b"\n" for row in rows)
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(folder / name)


def test_the_first_row_tells_of_all_and_is_one_of_them(tmp_path: Path) -> None:
    table = SourceTable.open(written(tmp_path, ROWS))
    assert (table.n_scores, table.has_alignment, table.shard) == (2, True, None)
    assert [*table.rows] == [(1, ROWS[0]), (2, ROWS[1]), (3, ROWS[2])]
    assert table.bad_rows.rows == []


@pytest.mark.parametrize("row", [ROWS[1], b"a ||| x ||| 0.5 1 |||", b"a ||| x ||| 0.5 1 ||| ||| 1"])
def test_a_first_row_without_links(tmp_path: Path, row: bytes) -> None:
    assert not SourceTable.open(written(tmp_path, [row, ROWS[0]])).has_alignment


def test_the_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it may be a pipe."""
    opened: list[object] = []

    def read_lines(path: textio.StrPath) -> object:
        opened.append(path)
        return textio.read_lines(path)

    monkeypatch.setattr(rows, "read_lines", read_lines)
    path = written(tmp_path, ROWS)
    assert len([*SourceTable.open(path).rows]) == 3
    assert opened == [path]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(row + b"\n" for row in ROWS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    table = SourceTable.open("-")
    assert table.identity == {"path": "-"}
    assert [row for _, row in table.rows] == ROWS


@pytest.mark.parametrize("place", [0, 1, 3])
def test_malformed_rows_are_left_out(tmp_path: Path, place: int) -> None:
    rows = [*ROWS[:place], BAD, *ROWS[place:]]
    table = SourceTable.open(written(tmp_path, rows), max_bad_rows=1)
    assert [row for _, row in table.rows] == ROWS
    assert (table.n_scores, table.bad_rows.rows) == (2, [BAD])


def test_a_shard_has_its_own_rows_with_their_line_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    assert [*SourceTable.open(path, shard=Shard(2, 2)).rows] == [(3, ROWS[2])]
    assert [n for n, _ in SourceTable.open(path, shard=Shard(1, 2)).rows] == [1, 2]


def test_another_file_is_another_table(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    first = SourceTable.open(path).identity
    assert first["path"] == path and first["bytes"] == os.stat(path).st_size
    (tmp_path / "link.gz").symlink_to(path)
    assert SourceTable.open(str(tmp_path / "link.gz")).identity == first
    os.utime(path, ns=(1, 1))
    touched = SourceTable.open(path).identity
    written(tmp_path, ROWS[:1])
    os.utime(path, ns=(1, 1))
    shorter = SourceTable.open(path).identity
    assert first != touched != shorter and touched["modified_ns"] == shorter["modified_ns"] == 1


@pytest.mark.parametrize(
    ("rows", "n_bad", "shard", "message"),
    [
        ([], 0, None, "found no row to score"),
        ([BAD], 1, None, "found no row to score"),
        (ROWS, 0, Shard(1, 50), "fewer shards of it"),
        ([BAD, *ROWS], 0, None, r"table\.gz:1: found 2 columns"),
        ([BAD, BAD, *ROWS], 1, None, r"table\.gz:2: found 2 columns"),
        ([*ROWS[:2], b"c ||| d |||"], 0, Shard(2, 2), r"table\.gz:3: found 0 scores"),
    ],
)
def test_tables_without_a_good_first_row_are_refused(
    tmp_path: Path, rows: list[bytes], n_bad: int, shard: Shard | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        SourceTable.open(written(tmp_path, rows), n_bad, shard)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none"):
        SourceTable.open(str(tmp_path / "none"))
