from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.tables.rows import BadRows, Shard, parse_shard, shard_rows

ROWS = [b"%d ||| x ||| 1" % (number // 3) for number in range(10)]


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
    table.write_bytes(b"".join(row + b"\n" for row in ROWS))
    parts = [[*shard_rows(table, Shard(number, n_shards))] for number in range(1, n_shards + 1)]
    assert [row for part in parts for row in part] == [*numbered(ROWS)]
    sources = [{row.split()[0] for _, row in part} for part in parts]
    assert sum(map(len, sources)) == 4


def test_all_rows_that_are_counted_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(row + b"\n" for row in ROWS))
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


BAD = [b"only ||| two", b"x ||| y ||| nan", b" ||| y ||| 1", b"x ||| y ||| 1 1"]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [1, 5, 10])
def test_malformed_rows_are_kept_apart(bad: bytes, place: int) -> None:
    found = BadRows(1)
    rows = [*ROWS[:place], bad, *ROWS[place:]]
    kept = [*found.well_formed(numbered(rows), "table")]
    assert kept == [(n, row) for n, row in numbered(rows) if row != bad]
    assert found.rows == [bad]


@pytest.mark.parametrize(("limit", "line"), [(0, 2), (1, 4), (2, 5)])
def test_one_malformed_row_more_is_refused(limit: int, line: int) -> None:
    rows = [ROWS[0], BAD[0], ROWS[1], BAD[1], BAD[2], ROWS[2]]
    bad_rows = BadRows(limit)
    with pytest.raises(InputError) as caught:
        list(bad_rows.well_formed(numbered(rows), "table"))
    assert (caught.value.path, caught.value.line) == ("table", line)
    assert len(bad_rows.rows) == limit
