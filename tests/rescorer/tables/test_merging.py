from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import NamedScorer
from rescorer.models.scorer_choice import LengthScorer, RandomScorer
from rescorer.tables.column import ColumnConfig
from rescorer.tables.merging import in_order, merge_shards, merged
from rescorer.tables.record import RunRecord
from rescorer.tables.scored_table import score_table
from rescorer.tables.source_table import Shard

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


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("n_shards", [1, 2, 5])
def test_the_merged_file_is_that_of_one_run(tmp_path: Path, n_shards: int, suffix: str) -> None:
    """Byte for byte, as it is compressed: the same blocks were scored."""
    table = str(large_table(tmp_path / "table.gz", 200))
    whole = tmp_path / f"whole{suffix}"
    score_table(table, str(whole), [NOISE], ColumnConfig(block_rows=20))
    parts = [tmp_path / f"part{number}{suffix}" for number in range(n_shards)]
    for number, part in enumerate(parts, start=1):
        config = ColumnConfig(block_rows=20, shard=Shard(number, n_shards))
        score_table(table, str(part), [NOISE], config)
    out = tmp_path / f"out{suffix}"
    merge_shards(parts, out)
    assert out.read_bytes() == whole.read_bytes()


class HighScorer(LengthScorer):
    """Rows whose probabilities are below the floor."""

    def values(self, batch: Batch) -> NDArray[np.float32]:
        return np.where([len(target) > 3 for target in batch.targets], -100, -1).astype(np.float32)


def test_floored_rows_are_those_of_all_parts(tmp_path: Path) -> None:
    """Of s0 to s9, t9 and shorter are above the floor: the parts have different numbers of the others."""
    rows = [b"s%d ||| t%d ||| 0.5 1\n" % (row, row * 7) for row in range(40)]
    table = str(written(tmp_path / "table.gz", b"".join(rows)))
    parts = [tmp_path / f"part{number}.gz" for number in (1, 2, 3)]
    scorer = NamedScorer("high", HighScorer(), "1")
    for number, part in enumerate(parts, start=1):
        score_table(table, str(part), [scorer], ColumnConfig(shard=Shard(number, 3)))
    floored = [RunRecord.read(str(part)).counts.n_floored for part in parts]
    n_floored = sum(len(b"t%d" % (row * 7)) > 3 for row in range(40))
    assert merged(in_order(parts), tmp_path / "out.gz").counts.n_floored == (n_floored,) == (25,)
    assert floored[0] != (25,)
    record = json.loads((tmp_path / "out.gz.json").read_bytes())
    assert record["columns"][0]["n_floored"] == 25


def test_the_record_of_a_part_has_its_bytes(tmp_path: Path) -> None:
    """As `sha256sum` has them; that of a whole table says nothing of them."""
    first, second = shards(tmp_path)
    for part in (first, second):
        record = json.loads(Path(f"{part}.json").read_bytes())
        assert record["n_bytes"] == part.stat().st_size
        assert record["sha256"] == sha256(part.read_bytes()).hexdigest()
    merge_shards([first, second], tmp_path / "out.gz")
    assert not {"n_bytes", "sha256"} & {*json.loads((tmp_path / "out.gz.json").read_bytes())}


def without_digest(part: Path) -> None:
    """As earlier versions wrote a record."""
    path = Path(f"{part}.json")
    record = json.loads(path.read_bytes())
    del record["n_bytes"], record["sha256"]
    path.write_text(json.dumps(record))


def flipped(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 1]) + data[61:]


def without_rows(data: bytes) -> bytes:
    return gzip.compress(b"".join(gzip.decompress(data).splitlines(keepends=True)[:-3]))


def without_the_end_of_a_row(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data)[:-1])


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(
    ("damage", "found", "found_without_digest"),
    [
        (lambda data: data[:-20], "bytes, expected", "damaged data"),
        (lambda data: b"", "found 0 bytes", "found 0 rows, expected 2[0-9]"),
        (without_rows, "bytes, expected", "found 2[0-9] rows, expected 2[0-9]"),
        (without_the_end_of_a_row, "bytes, expected", "a row without its end"),
        (flipped, "found other bytes than were written", "damaged data|rows"),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_damaged_parts_are_refused_before_anything_is_written(
    tmp_path: Path,
    place: int,
    damage: Callable[[bytes], bytes],
    found: str,
    found_without_digest: str,
    is_old: bool,
) -> None:
    parts, out = shards(tmp_path), tmp_path / "out.gz"
    out.write_bytes(b"older")
    if is_old:
        without_digest(parts[place])
    parts[place].write_bytes(damage(parts[place].read_bytes()))
    message = found_without_digest if is_old else found
    with pytest.raises(InputError, match=message) as caught:
        merge_shards(parts, out)
    assert caught.value.path == str(parts[place])
    assert "score it again" in caught.value.hint or "Make it again" in caught.value.hint
    assert out.read_bytes() == b"older" and not (tmp_path / "out.gz.json").exists()


def test_whole_parts_without_a_digest_are_joined(tmp_path: Path) -> None:
    parts = shards(tmp_path)
    merge_shards(parts, tmp_path / "new.gz")
    for part in parts:
        without_digest(part)
    merge_shards(parts, tmp_path / "old.gz")
    assert (tmp_path / "new.gz").read_bytes() == (tmp_path / "old.gz").read_bytes()


def test_a_part_that_is_gone(tmp_path: Path) -> None:
    first, second = shards(tmp_path)
    second.unlink()
    with pytest.raises(InputError, match="No such file"):
        merge_shards([first, second], tmp_path / "out.gz")


def test_parts_that_earlier_versions_cut_otherwise_are_refused(tmp_path: Path) -> None:
    """Their shards began at other rows: joined with new ones, rows would be missing or come twice."""
    first, second = shards(tmp_path)
    path = Path(f"{second}.json")
    record = json.loads(path.read_bytes())
    record["settings"]["shard"] = record["settings"]["shard"][:2]
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="found other settings"):
        merge_shards([first, second], tmp_path / "out.gz")


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


def test_an_ini_for_another_number_of_scores_is_refused_before_the_merging(tmp_path: Path) -> None:
    parts, ini = shards(tmp_path), tmp_path / "moses.ini"
    ini.write_bytes(INI.replace(b"num-features=2", b"num-features=3").replace(b"0.20", b"0.2 0.2"))
    message = r"moses\.ini: found num-features=3 for TM, expected 2, as the rows of .*table\.gz"
    with pytest.raises(InputError, match=message):
        merge_shards(parts, tmp_path / "out.gz", ini, tmp_path / "out.ini")
    assert not (tmp_path / "out.gz").exists() and not (tmp_path / "out.ini").exists()


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
    counts = merged(in_order(parts), out).counts
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
    run = merged(in_order(parts[::-1]), out)
    assert RunRecord.read(str(out)) == run
    assert run.config.shard is None
    assert run.counts.n_rows == sum(RunRecord.read(str(part)).counts.n_rows for part in parts) == 50


@pytest.mark.parametrize("content", ["{}", "[]", "{"])
def test_a_part_without_its_report_is_refused(tmp_path: Path, content: Any) -> None:
    first, second = shards(tmp_path)
    Path(f"{second}.json").write_text(content)
    with pytest.raises(InputError, match=r"part2\.gz\.json"):
        merged(in_order([first, second]), tmp_path / "out.gz")


def test_shards_with_a_column_that_is_no_longer_made_are_refused(tmp_path: Path) -> None:
    first, second = shards(tmp_path)
    path = Path(f"{second}.json")
    path.write_text(path.read_text().replace('"sum"', '"residual"'))
    with pytest.raises(
        InputError, match=r"part2\.gz\.json: found the column 'residual' of an earlier"
    ):
        merge_shards([first, second], tmp_path / "out.gz")
    assert not (tmp_path / "out.gz").exists()
