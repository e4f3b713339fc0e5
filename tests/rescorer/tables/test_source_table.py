from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moses_bridge.base import textio
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.tables import source_table
from rescorer.tables.source_table import (
    BadRows,
    Shard,
    SourceTable,
    parse_shard,
    shard_rows,
    table_identity,
)

ROWS = [b"a ||| x ||| 0.5 1 ||| 0-0", b"a ||| y ||| 0.5 1", b"b|||y|||0.5 1|||0-0\r"]
BAD = b"only ||| two"


def written(folder: Path, rows: list[bytes], name: str = "table.gz") -> Path:
    text = b"".join(row + b"\n" for row in rows)
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder / name


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

    monkeypatch.setattr(source_table, "read_lines", read_lines)
    path = written(tmp_path, ROWS)
    assert len([*SourceTable.open(path).rows]) == 3
    assert opened == [str(path)]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(row + b"\n" for row in ROWS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    table = SourceTable.open(textio.Stream("-"))
    assert table_identity(textio.Stream("-")) == {"path": "-"}
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
    first = table_identity(path)
    assert first["path"] == str(path) and first["bytes"] == os.stat(path).st_size
    (tmp_path / "link.gz").symlink_to(path)
    assert table_identity(tmp_path / "link.gz") == first
    os.utime(path, ns=(1, 1))
    touched = table_identity(path)
    written(tmp_path, ROWS[:1])
    os.utime(path, ns=(1, 1))
    shorter = table_identity(path)
    assert first != touched != shorter and touched["modified_ns"] == shorter["modified_ns"] == 1


def test_a_changed_file_of_the_same_size_and_time_is_another_table(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    first, data = table_identity(path), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(first["modified_ns"],) * 2)
    changed = table_identity(path)
    assert {key for key in first if first[key] != changed[key]} == {"sha256"}


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
        SourceTable.open(tmp_path / "none")


TEN_ROWS = [b"%d ||| x ||| 1" % (number // 3) for number in range(10)]


def numbered(rows: list[bytes]) -> Iterator[tuple[int, bytes]]:
    return enumerate(rows, start=1)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/", "a/b", "1/3/5", "-1/3", ""])
def test_shards_are_numbered_from_one(text: str) -> None:
    with pytest.raises(ConfigError, match="I/N"):
        parse_shard(text)


@pytest.mark.parametrize("text", ["1/1", "3/8", "8/8"])
def test_a_shard_is_read(text: str) -> None:
    number, n_shards = map(int, text.split("/"))
    assert parse_shard(text) == Shard(number, n_shards)


@pytest.mark.parametrize("n_rows", [0, 1, 7, 100])
@pytest.mark.parametrize("n_shards", [1, 3, 8])
def test_shards_cover_each_line_once(n_rows: int, n_shards: int) -> None:
    parts = [Shard(number, n_shards).rows(n_rows) for number in range(1, n_shards + 1)]
    assert [line for part in parts for line in part] == list(range(1, n_rows + 1))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("n_shards", [1, 2, 3, 4, 9, 20])
def test_no_source_is_cut_in_two(tmp_path: Path, n_shards: int) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(row + b"\n" for row in TEN_ROWS))
    parts = [[*shard_rows(table, Shard(number, n_shards))] for number in range(1, n_shards + 1)]
    assert [row for part in parts for row in part] == [*numbered(TEN_ROWS)]
    sources = [{row.split()[0] for _, row in part} for part in parts]
    assert sum(map(len, sources)) == 4


def test_all_rows_that_are_counted_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(row + b"\n" for row in TEN_ROWS))
    list(shard_rows(table, Shard(1, 2)))
    assert "count rows: 10/10 (100%) rows" in capsys.readouterr().err


def test_the_first_word_of_a_source_is_not_its_end(tmp_path: Path) -> None:
    """Blanks around a source are no part of it."""
    table = tmp_path / "table"
    table.write_bytes(b"a ||| x ||| 1\n a  ||| y ||| 1\na b ||| y ||| 1\na b ||| z ||| 1\n")
    first, second = ([*shard_rows(table, Shard(number, 2))] for number in (1, 2))
    assert [number for number, _ in first] == [1, 2] and [n for n, _ in second] == [3, 4]


def test_blanks_around_a_source_do_not_cut_it(tmp_path: Path) -> None:
    """The rows of one source, written with and without a blank more, go to one shard."""
    table = tmp_path / "table"
    rows = [b"%s ||| x ||| 1" % source for source in (b"a", b"a ", b" a", b"a\t", b"b", b"b ")]
    table.write_bytes(b"".join(row + b"\n" for row in rows))
    parts = [[*shard_rows(table, Shard(number, 3))] for number in (1, 2, 3)]
    assert [[n for n, _ in part] for part in parts] == [[1, 2, 3, 4], [], [5, 6]]


@pytest.mark.parametrize(("n_rows", "are_blocks"), [(16, True), (15, False)])
def test_shards_begin_where_blocks_do(tmp_path: Path, n_rows: int, are_blocks: bool) -> None:
    """Blocks of 4 rows, two of each shard at least; sources have three rows each, so blocks have six."""
    table = tmp_path / "table"
    rows = [b"%d ||| x ||| 1" % (number // 3) for number in range(n_rows)]
    table.write_bytes(b"".join(row + b"\n" for row in rows))
    parts = [[*shard_rows(table, Shard(number, 2, 4))] for number in (1, 2)]
    assert [row for part in parts for row in part] == [*numbered(rows)]
    assert parts[1][0][0] == (13 if are_blocks else 10)


BAD_ROWS = [b"only ||| two", b"x ||| y ||| nan", b" ||| y ||| 1", b"x ||| y ||| 1 1"]


@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("place", [1, 5, 10])
def test_malformed_rows_are_kept_apart(bad: bytes, place: int) -> None:
    found = BadRows(1)
    rows = [*TEN_ROWS[:place], bad, *TEN_ROWS[place:]]
    kept = [*found.well_formed(numbered(rows), "table")]
    assert kept == [(n, row) for n, row in numbered(rows) if row != bad]
    assert found.rows == [bad]


@pytest.mark.parametrize(("limit", "line"), [(0, 2), (1, 4), (2, 5)])
def test_one_malformed_row_more_is_refused(limit: int, line: int) -> None:
    rows = [TEN_ROWS[0], BAD_ROWS[0], TEN_ROWS[1], BAD_ROWS[1], BAD_ROWS[2], TEN_ROWS[2]]
    bad_rows = BadRows(limit)
    with pytest.raises(InputError) as caught:
        list(bad_rows.well_formed(numbered(rows), "table"))
    assert (caught.value.path, caught.value.line) == ("table", line)
    assert len(bad_rows.rows) == limit


def test_a_negative_score_is_malformed_among_probabilities_alone() -> None:
    rows = [*numbered([b"x ||| y ||| -1"])]
    assert [*BadRows(0).well_formed(rows, "table")] == rows
    with pytest.raises(InputError, match="table:1: "):
        list(BadRows(0, are_probs=True).well_formed(rows, "table"))


def test_a_table_has_negative_scores_unless_they_are_probabilities(tmp_path: Path) -> None:
    path = written(tmp_path, [ROWS[0], b"x ||| y ||| 1 -1"])
    (block,) = SourceTable.open(path).blocks(10)
    assert len(block) == 2
    with pytest.raises(InputError, match=r"table\.gz:2: "):
        list(SourceTable.open(path, are_probs=True).blocks(10))
