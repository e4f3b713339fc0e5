from __future__ import annotations

import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.training.pairs import pair_cache
from rescorer.training.pairs.pair_cache import stored_pairs
from rescorer.training.pairs.pair_files import PairFiles, write_pairs
from rescorer.training.pairs.phrase_pairs import PairChoice

ROWS = (
    b"a b ||| x ||| 1 ||| ||| 1 1 2\nb ||| y x ||| 1 ||| ||| 1 1 3\na b ||| x ||| 1 ||| ||| 1 1 4\n"
)


def write(folder: Path, rows: bytes = ROWS) -> Path:
    table = folder / "table"
    table.write_bytes(rows)
    return table


def content(files: PairFiles) -> list[list[object]]:
    return [[column.tolist() for column in part] for part in files.parts()]


def test_a_table_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, cache = write(tmp_path), tmp_path / "new" / "cache"
    first = stored_pairs(table, PairChoice(), cache)
    monkeypatch.setattr(pair_cache, "write_pairs", None)
    again = stored_pairs(table, PairChoice(), cache)
    assert content(again) == content(first) and again.digest == first.digest
    assert (int(again.n_pairs.sum()), again.header["n_rows"]) == (2, 3)
    assert sorted(path.name for path in cache.parent.iterdir()) == ["cache"]


def test_with_or_without_a_cache_the_pairs_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    table = write(tmp_path)
    kept = stored_pairs(table, PairChoice(), tmp_path / "cache")
    passing = stored_pairs(table, PairChoice(), None)
    assert not [*scratch.iterdir()]
    assert content(kept) == content(passing) and kept.digest == passing.digest


def test_of_two_trainings_at_once_the_second_takes_what_the_first_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, cache, n_readings = write(tmp_path), tmp_path / "cache", 0
    is_reading, may_end = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> None:
        nonlocal n_readings
        n_readings += 1
        is_reading.set()
        assert may_end.wait(60)
        write_pairs(*arguments)

    monkeypatch.setattr(pair_cache, "write_pairs", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(stored_pairs, table, PairChoice(), cache)
        assert is_reading.wait(60)
        second = pool.submit(stored_pairs, table, PairChoice(), cache)
        assert not wait([second], 0.2).done
        may_end.set()
        assert content(first.result()) == content(second.result())
    assert n_readings == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "table"]


def test_a_disk_without_room_for_the_cache_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path)

    def full(table: Path, choice: PairChoice, identity: Any, directory: Path) -> None:
        if tmp_path in directory.parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_pairs(table, choice, identity, directory)

    monkeypatch.setattr(pair_cache, "write_pairs", full)
    found = stored_pairs(table, PairChoice(), tmp_path / "cache")
    assert content(found) == content(stored_pairs(table, PairChoice(), None))
    told = capsys.readouterr().err
    assert "No space left" in told and f"{tmp_path / 'cache'}'; the pairs are not kept" in told
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_an_empty_directory_becomes_a_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    assert stored_pairs(write(tmp_path), PairChoice(), tmp_path / "cache").n_pairs.sum() == 2


@pytest.mark.parametrize(
    ("rows", "choice", "message"),
    [
        (ROWS + b"c ||| z ||| 1\n", PairChoice(), "pairs of another table"),
        (ROWS.replace(b"y", b"z"), PairChoice(), "pairs of another table"),
        (ROWS, PairChoice(5), "max_phrase_words 7, not 5"),
        (ROWS, PairChoice(with_counts=True), "with_counts False, not True"),
        (ROWS, PairChoice(reverse_sides=True), "reverse_sides False, not True"),
    ],
)
def test_other_pairs_are_refused(
    tmp_path: Path, rows: bytes, choice: PairChoice, message: str
) -> None:
    cache = tmp_path / "cache"
    stored_pairs(write(tmp_path), PairChoice(), cache)
    before = {path: path.read_bytes() for path in cache.iterdir()}
    with pytest.raises(ConfigError, match=message):
        stored_pairs(write(tmp_path, rows), choice, cache)
    assert {path: path.read_bytes() for path in cache.iterdir()} == before


def test_counts_are_those_of_the_last_row(tmp_path: Path) -> None:
    files = stored_pairs(write(tmp_path), PairChoice(with_counts=True), None)
    assert sorted(np.concatenate([part.counts for part in files.parts()])) == [3, 4]
    plain = stored_pairs(write(tmp_path), PairChoice(), None)
    assert np.concatenate([part.counts for part in plain.parts()]).tolist() == [1, 1]


@pytest.mark.parametrize("header", [None, "[]", '{"format": 99}', '{"format": 1}', "{"])
def test_a_directory_of_something_else_is_refused(tmp_path: Path, header: str | None) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "letter").write_text("Dear all")
    if header is not None:
        (cache / "pairs.json").write_text(header)
    with pytest.raises(InputError, match=r"cache.*: found"):
        stored_pairs(write(tmp_path), PairChoice(), cache)
    assert (cache / "letter").read_text() == "Dear all"


@pytest.mark.parametrize("name", ["target_words", "word_ends", "source_counts", "words"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_damaged_cache_is_named(tmp_path: Path, name: str, is_gone: bool) -> None:
    table, cache = write(tmp_path), tmp_path / "cache"
    stored_pairs(table, PairChoice(), cache)
    data = (cache / name).read_bytes()
    if is_gone:
        (cache / name).unlink()
    else:
        (cache / name).write_bytes(data[:-1])
    with pytest.raises(InputError, match=f"{name}: found {0 if is_gone else len(data) - 1} bytes"):
        stored_pairs(table, PairChoice(), cache)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("target_words", b"\xff\xff\xff\xff"),
        ("target_words", b"\xff\xff\xff\x7f"),
        ("target_words", b"\x00\x00\x00\x00"),
        ("source_words", b"\xff\xff\xff\xff"),
        ("source_lens", b"\xff\xff"),
        ("target_lens", b"\xff\xff"),
        ("n_targets", b"\xff\xff\xff\xff"),
        ("first_rows", b"\xff\xff\xff\xff"),
        ("word_ends", b"\xff\xff\xff\xff"),
        ("source_counts", b"\xff"),
        ("target_counts", b"\xff"),
        ("words", b"\n"),
        ("words", b"z"),
    ],
)
def test_a_cache_that_has_changed_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    """Numbers of words index compiled code: one that is too large would be a segmentation fault."""
    table, cache = write(tmp_path), tmp_path / "cache"
    stored_pairs(table, PairChoice(), cache)
    stored_pairs(table, PairChoice(), cache)
    before = (cache / name).read_bytes()
    (cache / name).write_bytes(data + before[len(data) :])
    assert (cache / name).read_bytes() != before
    with pytest.raises(InputError, match=r"cache: found other pairs or words than were written.*R"):
        stored_pairs(table, PairChoice(), cache)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"parts": "x"}, "found 'x' in 'parts', expected a list"),
        ({"parts": [1]}, "found 1 in 'parts', expected a list"),
        ({"parts": [[1, 2]]}, "found sizes that no pairs have"),
        ({"parts": [[-1] * 7]}, "found sizes that no pairs have"),
        ({"parts": [[2**63] * 7]}, "found sizes that no pairs have"),
        ({"n_words": "x"}, "found 'x' in 'n_words', expected int"),
        ({"n_words": 0}, "found sizes that no pairs have"),
        ({"n_words": 10**30}, "in 'n_words', expected a number of at most 64 bits"),
        ({"digest": 5}, "found 5 in 'digest', expected str"),
        ({"choice": [1]}, r"found \[1\] in 'choice', expected a table"),
        ({"digest": "00"}, "found other pairs or words than were written"),
    ],
)
def test_a_header_with_other_values_is_refused(
    tmp_path: Path, changes: dict[str, object], fault: str
) -> None:
    table, cache = write(tmp_path), tmp_path / "cache"
    stored_pairs(table, PairChoice(), cache)
    header = json.loads((cache / "pairs.json").read_text())
    (cache / "pairs.json").write_text(json.dumps(header | changes))
    with pytest.raises(InputError, match=fault):
        stored_pairs(table, PairChoice(), cache)


def test_a_table_with_a_fault_leaves_no_cache(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="table:4: found 1 column"):
        stored_pairs(write(tmp_path, ROWS + b"a\n"), PairChoice(), tmp_path / "cache")
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_a_table_that_is_no_file_has_no_cache(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"leave --cache c out"):
        stored_pairs("-", PairChoice(), "c")


def test_what_a_cache_says_of_itself(tmp_path: Path) -> None:
    stored_pairs(write(tmp_path), PairChoice(), tmp_path / "cache")
    header = json.loads((tmp_path / "cache" / "pairs.json").read_text())
    assert header["table"]["bytes"] == len(ROWS)
    assert header["choice"] == {
        "max_phrase_words": 7,
        "min_prob": 0.0,
        "with_counts": False,
        "reverse_sides": False,
    }
    assert (header["format"], header["n_words"], len(header["parts"])) == (1, 4, 256)
