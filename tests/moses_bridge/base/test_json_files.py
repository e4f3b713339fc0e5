from __future__ import annotations

import json
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json, write_json


def test_what_is_written_is_read_by_any_reader(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None], "é": {"nested": True}}
    write_json(tmp_path / "new" / "value.json", value)
    assert json.loads((tmp_path / "new" / "value.json").read_text()) == value
    assert read_json(tmp_path / "new" / "value.json") == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nothing", "{'a': 1}"])
def test_what_is_no_json_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "value.json").write_text(text)
    with pytest.raises(InputError, match=r"value\.json: .*expected a JSON file"):
        read_json(tmp_path / "value.json")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_json(tmp_path / "none.json")


def test_a_value_that_json_does_not_have_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "value.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "value.json", {"a": object()})
    assert read_json(tmp_path / "value.json") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]
