from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.experiment import split_experiment

ROOT = Path(__file__).resolve().parents[3]


def test_a_file_for_each_table_touched_only_when_it_changes(tmp_path: Path) -> None:
    experiment, out = tmp_path / "e.toml", tmp_path / "config"
    experiment.write_text(
        "[corpus]\nn_dev = 5 # few\n[train]\nwidth = 3\n[train.adam]\nrate = 0.1\n"
    )
    assert split_experiment([experiment], out) == [out / "corpus.toml", out / "train.toml"]
    assert tomllib.loads((out / "corpus.toml").read_text()) == {"n_dev": 5}
    assert tomllib.loads((out / "train.toml").read_text()) == {"width": 3, "adam": {"rate": 0.1}}
    before = {path.name: path.stat().st_ino for path in out.iterdir()}
    experiment.write_text("[train]\nwidth = 4\n[train.adam]\nrate = 0.1\n[corpus]\nn_dev = 5\n")
    split_experiment([experiment], out)
    after = {path.name: path.stat().st_ino for path in out.iterdir()}
    assert after["corpus.toml"] == before["corpus.toml"]
    assert after["train.toml"] != before["train.toml"]
    assert tomllib.loads((out / "train.toml").read_text())["width"] == 4


def test_a_later_file_changes_the_keys_that_it_has(tmp_path: Path) -> None:
    base, change = tmp_path / "base.toml", tmp_path / "change.toml"
    base.write_text(
        "[corpus]\nn_dev = 5\nseed = 2\n[train]\nwidth = 3\n[train.adam]\nrate = 0.1\nb = 1\n"
    )
    change.write_text("[train.adam]\nrate = 0.2\n[corpus]\nn_dev = 7\n[tune]\nnbest_size = 9\n")
    split_experiment([base, change], tmp_path / "out")
    found = {path.stem: tomllib.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert found == {
        "corpus": {"n_dev": 7, "seed": 2},
        "train": {"width": 3, "adam": {"rate": 0.2, "b": 1}},
        "tune": {"nbest_size": 9},
    }


@pytest.mark.parametrize("path", sorted((ROOT / "tuning" / "experiments").glob("*.toml")), ids=str)
def test_experiments_of_the_project_keep_their_values(path: Path, tmp_path: Path) -> None:
    parts = {
        part.stem: tomllib.loads(part.read_text()) for part in split_experiment([path], tmp_path)
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
        split_experiment([path], tmp_path / "out")
