from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.scorer import NamedScorer
from rescorer.models.controls import LengthScorer, RandomScorer
from rescorer.tables.column import ColumnConfig
from rescorer.tables.merging import merged
from rescorer.tables.rows import Shard
from rescorer.tables.run import read_run
from rescorer.tables.scored_table import merge_shards, score_table

INI = b"""\
[feature]
PhraseDictionaryMemory name=TM num-features=2 path=table.gz

[weight]
TM= 0.20 0.1
"""
LENGTH = NamedScorer("length", LengthScorer(), "1")
NOISE = NamedScorer("noise", RandomScorer(1), "2")


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def text_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def large_table(path: Path, n_rows: int) -> Path:
    """Groups of 1 to 7 rows."""
    rng = np.random.default_rng(5)
    sources = np.repeat(np.arange(n_rows), rng.integers(1, 8, n_rows))[:n_rows]
    rows = [b"s%d ||| t%d ||| 0.5 1" % (source, row) for row, source in enumerate(sources)]
    return written(path, b"\n".join(rows) + b"\n")


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7])
def test_shards_merged_are_the_table(tmp_path: Path, n_shards: int) -> None:
    table = large_table(tmp_path / "table.gz", 200)
    (tmp_path / "moses.ini").write_bytes(INI)
    score_table(
        *(str(table), str(tmp_path / "whole.gz"), [NOISE], ColumnConfig()),
        ini=tmp_path / "moses.ini",
        ini_out=tmp_path / "whole.ini",
    )
    parts = []
    for number in range(1, n_shards + 1):
        part = tmp_path / f"part{number}.gz"
        config = ColumnConfig(block_rows=11, shard=Shard(number, n_shards))
        score_table(str(table), str(part), [NOISE], config)
        parts.append(part)
    inis = (tmp_path / "moses.ini", tmp_path / "merged.ini")
    lines = merge_shards(parts[::-1], tmp_path / "merged.gz", *inis)
    assert text_of(tmp_path / "merged.gz") == text_of(tmp_path / "whole.gz")
    assert "200 rows, 3 scores" in lines[0]
    expected = (tmp_path / "whole.ini").read_bytes().replace(b"whole.gz", b"merged.gz")
    assert inis[1].read_bytes() == expected
    sources = [{row.split()[0] for row in text_of(part).split(b"\n")[:-1]} for part in parts]
    assert sum(map(len, sources)) == len(set.union(*sources))


def shards(tmp_path: Path) -> list[Path]:
    table = large_table(tmp_path / "table.gz", 50)
    parts = [tmp_path / f"part{number}.gz" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        score_table(str(table), str(part), [NOISE], ColumnConfig(shard=Shard(number, 2)))
    return parts


def test_shards_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    first, second = shards(tmp_path)
    out, whole = tmp_path / "out.gz", tmp_path / "whole.gz"
    table = str(tmp_path / "table.gz")
    score_table(table, str(whole), [NOISE], ColumnConfig())
    other = tmp_path / "other.gz"
    score_table(table, str(other), [LENGTH], ColumnConfig(shard=Shard(2, 2)))
    for parts, message in [
        ([first], "found shards 1 of 2, expected each of 1 to 2 once"),
        ([first, first], "found shards 1, 1 of 2"),
        ([first, other], "found other settings"),
        ([first, whole], "found a whole table"),
    ]:
        with pytest.raises(InputError, match=message):
            merge_shards(parts, out)
    with pytest.raises(ConfigError, match="suffix"):
        merge_shards([first, second], tmp_path / "out")
    with pytest.raises(ConfigError, match="never modified"):
        merge_shards([first, second], second)
    assert not out.exists()


def test_shards_of_another_width_are_refused(tmp_path: Path) -> None:
    """Their settings say the same; what the rows have does not."""
    first, second = shards(tmp_path)
    path = Path(f"{second}.json")
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps({**content, "n_old_scores": 3}))
    with pytest.raises(InputError, match=r"part2\.gz\.json: found other settings"):
        merge_shards([first, second], tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()


def spoilt_shards(tmp_path: Path, n_allowed: int, bad: tuple[int, ...]) -> list[Path]:
    """Two shards of ten rows, of which some are malformed."""
    rows = [b"s%d ||| t ||| %b\n" % (row, b"nan 1" if row in bad else b"1 1") for row in range(10)]
    table = written(tmp_path / "table.gz", b"".join(rows))
    parts = [tmp_path / f"part{number}.gz" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        config = ColumnConfig(max_bad_rows=n_allowed, shard=Shard(number, 2))
        score_table(str(table), str(part), [NOISE], config)
    return parts


def test_malformed_rows_of_all_shards_are_together(tmp_path: Path) -> None:
    parts, out = spoilt_shards(tmp_path, 3, (1, 4, 7)), tmp_path / "out.gz"
    counts = merged(parts, out).counts
    assert (counts.n_rows, counts.n_bad_rows) == (7, 3)
    bad = Path(f"{out}.bad").read_bytes()
    assert bad == b"s1 ||| t ||| nan 1\ns4 ||| t ||| nan 1\ns7 ||| t ||| nan 1\n"
    assert text_of(out).count(b"\n") == 7


def test_more_malformed_rows_than_one_run_allows_are_refused(tmp_path: Path) -> None:
    """Each shard has no more than are allowed, and both together have."""
    parts, out = spoilt_shards(tmp_path, 2, (1, 4, 7)), tmp_path / "out.gz"
    message = r"part1\.gz\.bad: found 3 malformed rows.*at most 2.*--skip-bad 3"
    with pytest.raises(InputError, match=message):
        merge_shards(parts, out)
    assert not out.exists() and not Path(f"{out}.bad").exists()


def test_what_is_said_of_the_whole_is_the_sum(tmp_path: Path) -> None:
    parts, out = shards(tmp_path), tmp_path / "out.gz"
    run = merged(parts[::-1], out)
    assert read_run(str(out)) == run
    assert run.config.shard is None
    assert run.counts.n_rows == sum(read_run(str(part)).counts.n_rows for part in parts) == 50


@pytest.mark.parametrize("content", ["{}", "[]", "{"])
def test_a_part_without_its_report_is_refused(tmp_path: Path, content: Any) -> None:
    first, second = shards(tmp_path)
    Path(f"{second}.json").write_text(content)
    with pytest.raises(InputError, match=r"part2\.gz\.json"):
        merged([first, second], tmp_path / "out.gz")


def test_shards_with_a_column_that_is_no_longer_made_are_refused(tmp_path: Path) -> None:
    first, second = shards(tmp_path)
    path = Path(f"{second}.json")
    path.write_text(path.read_text().replace('"sum"', '"residual"'))
    with pytest.raises(InputError, match=r"part2\.gz\.json: found a column 'residual', which"):
        merge_shards([first, second], tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()
