from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_bridge.errors import ConfigError, InputError
from moses_bridge.experiment import split_experiment, to_toml

ROOT = Path(__file__).resolve().parents[2]
SCALARS = st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_written_is_read_again(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table


def test_types_stay() -> None:
    table = {
        "i": 1,
        "f": 1.0,
        "b": True,
        "s": 'a"\\\n\x7f\U0001f600',
        "l": [0, 0.5],
        "t": {"x": {}},
    }
    again = tomllib.loads(to_toml(table))
    assert again == table
    assert [type(again[key]) for key in "ifb"] == [int, float, bool]


@pytest.mark.parametrize("value", [None, b"bytes", (1, 2), {1, 2}])
def test_values_without_a_place_in_toml(value: object) -> None:
    with pytest.raises(ConfigError, match=type(value).__name__):
        to_toml({"key": value})


def test_a_file_for_each_table_touched_only_when_it_changes(tmp_path: Path) -> None:
    experiment, out = tmp_path / "e.toml", tmp_path / "config"
    experiment.write_text(
        "[corpus]\nn_dev = 5 # few\n[train]\nwidth = 3\n[train.adam]\nrate = 0.1\n"
    )
    assert split_experiment(experiment, out) == [out / "corpus.toml", out / "train.toml"]
    assert tomllib.loads((out / "corpus.toml").read_text()) == {"n_dev": 5}
    assert tomllib.loads((out / "train.toml").read_text()) == {"width": 3, "adam": {"rate": 0.1}}
    before = {path.name: path.stat().st_ino for path in out.iterdir()}
    experiment.write_text("[train]\nwidth = 4\n[train.adam]\nrate = 0.1\n[corpus]\nn_dev = 5\n")
    split_experiment(experiment, out)
    after = {path.name: path.stat().st_ino for path in out.iterdir()}
    assert after["corpus.toml"] == before["corpus.toml"]
    assert after["train.toml"] != before["train.toml"]
    assert tomllib.loads((out / "train.toml").read_text())["width"] == 4


@pytest.mark.parametrize("path", sorted((ROOT / "tuning" / "experiments").glob("*.toml")), ids=str)
def test_experiments_of_the_project_keep_their_values(path: Path, tmp_path: Path) -> None:
    parts = {
        part.stem: tomllib.loads(part.read_text()) for part in split_experiment(path, tmp_path)
    }
    assert parts == tomllib.loads(path.read_text())


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("seed = 1\n[corpus]\n", ConfigError, "'seed' stands outside any table"),
        ("[corpus\n", InputError, "a TOML file"),
    ],
)
def test_faulty_experiments(tmp_path: Path, text: str, kind: type[Exception], found: str) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text)
    with pytest.raises(kind, match=found):
        split_experiment(path, tmp_path / "out")
