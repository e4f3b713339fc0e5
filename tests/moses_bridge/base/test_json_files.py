from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import (
    open_record_of,
    read_json,
    read_record,
    record_of,
    write_json,
)


def test_what_is_written_is_read_by_any_reader(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None], "é": {"nested": True}}
    write_json(tmp_path / "new" / "value.json", value)
    assert json.loads((tmp_path / "new" / "value.json").read_text()) == value
    assert read_json(tmp_path / "new" / "value.json") == value
    write_json(tmp_path / "value.json", {"a": [1]})
    assert (tmp_path / "value.json").read_bytes() == b'{\n "a": [\n  1\n ]\n}\n'


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "nothing", "{'a': 1}", "[" * 100_000, "1" * 5000]
)
def test_what_is_no_json_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "value.json").write_text(text)
    with pytest.raises(InputError, match=r"value\.json: .*expected a JSON file"):
        read_json(tmp_path / "value.json")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_json(tmp_path / "none.json")


def test_what_never_ends_or_is_too_large_is_not_read(tmp_path: Path) -> None:
    """As in the directory of a run from somewhere else."""
    path = tmp_path / "value.json"
    for device in ("/dev/zero", "/dev/stdin"):
        path.symlink_to(device)
        with pytest.raises(InputError, match=r"value\.json: found a directory, a pipe or a device"):
            read_json(path)
        path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(InputError, match=r"found 1,099,511,627,776 bytes, expected at most 1,073,"):
        read_json(path)


def test_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("mine")
    (tmp_path / "value.json").symlink_to("config")
    write_json(tmp_path / "value.json", 1)
    assert (tmp_path / "config").read_text() == "mine"
    assert read_json(tmp_path / "value.json") == 1


def test_a_value_that_json_does_not_have_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "value.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "value.json", {"a": object()})
    assert read_json(tmp_path / "value.json") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]


@dataclass(frozen=True)
class Inner:
    a: int


@dataclass(frozen=True)
class Whole:
    rows: list[Inner]
    table: dict[str, list[float]]
    anything: Any = None


def test_a_record_is_made_with_all_its_tables(tmp_path: Path) -> None:
    write_json(tmp_path / "r.json", {"rows": [{"a": 1}], "table": {"x": [1, 2.5]}, "anything": []})
    found = read_record(Whole, tmp_path / "r.json", "a record")
    assert found == Whole([Inner(1)], {"x": [1.0, 2.5]}, [])
    more = {"rows": [], "table": {}, "new": 1}
    assert open_record_of(Whole, more, "r", "a record") == Whole([], {})
    with pytest.raises(InputError, match=r"r: found unknown key 'new'.* expected a record"):
        record_of(Whole, more, "r", "a record")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([1], r"found \[1\], expected a record. Do this"),
        ({"table": {}}, "found the key 'rows' is missing, expected a record. Do this"),
        ({"rows": {}, "table": {}}, "found {} in 'rows', expected a list, in a record. Do this"),
        ({"rows": [{"a": "x"}], "table": {}}, "found 'x' in 'rows: a', expected int, in a record"),
        ({"rows": [], "table": {"x": [1, None]}}, "found None in 'table: x', expected float"),
        ({"rows": [], "table": {"x": [True]}}, "found True in 'table: x', expected float"),
        (
            {"rows": [], "table": {"x": [2**70]}},
            "found 118.* in 'table: x', expected a number of at most 64",
        ),
    ],
)
def test_a_record_of_wrong_types_is_told(value: Any, fault: str) -> None:
    with pytest.raises(InputError, match=f"r:7: {fault}"):
        record_of(Whole, value, "r", "a record", "Do this", 7)
