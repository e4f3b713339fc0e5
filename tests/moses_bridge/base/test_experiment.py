from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.experiment import experiment_files, load_experiment, split_experiment

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


@pytest.mark.parametrize("scale", ["tiny", "small", "full"])
def test_experiments_of_the_project_keep_their_values(scale: str, tmp_path: Path) -> None:
    folder = ROOT / "tuning" / "experiments"
    parts = {
        part.stem: tomllib.loads(part.read_text())
        for part in split_experiment([folder / f"{scale}.toml"], tmp_path)
    }
    own = tomllib.loads((folder / f"{scale}.toml").read_text())
    bases = ["systems.toml", "optimizers.toml", "home.toml"]
    assert own.pop("base") == ([*bases, "rnnsearch.toml"] if scale == "full" else bases)
    kinds = {"networks", "columns", "features", "systems", "tables"}
    home = tomllib.loads((folder / "home.toml").read_text())
    assert {name: parts[name] for name in own.keys() - kinds} == {
        name: home.get(name, {}) | table for name, table in own.items() if name not in kinds
    }
    systems = tomllib.loads((folder / "systems.toml").read_text())["systems"]
    assert {name: parts["systems"][name] for name in systems} == systems
    assert parts["tune-best"] == {**own["tune"], "keep": "best"}


def test_a_file_changes_its_bases_and_each_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "base.toml").write_text("[a]\nx = 1\ny = 1\n")
    (tmp_path / "inner" / "one.toml").write_text('base = "../base.toml"\n[a]\nx = 2\n')
    (tmp_path / "two.toml").write_text('base = ["base.toml", "inner/one.toml"]\n[b]\nz = 3\n')
    files = [tmp_path / "inner" / "one.toml", tmp_path / "two.toml"]
    assert experiment_files(files) == [tmp_path / "base.toml", *files]
    assert load_experiment(files) == {"a": {"x": 2, "y": 1}, "b": {"z": 3}}
    assert load_experiment([tmp_path / "two.toml"]) == load_experiment(files)


def test_a_table_may_have_the_keys_of_another_one(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('[a]\nx = 1\n[a.in]\ny = 1\nz = 1\n[b]\nbase = "a"\n[b.in]\ny = 2\n')
    split_experiment([path], tmp_path / "out")
    assert tomllib.loads((tmp_path / "out" / "b.toml").read_text()) == {
        "x": 1,
        "in": {"y": 2, "z": 1},
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            '[b]\nbase = "tabel"\n[table]\n',
            "e.toml: b: unknown base 'tabel'; did you mean 'table'?",
        ),
        ('[a]\n[b]\nbase = "a"\n[c]\nbase = "b"\n', "e.toml: c: its base 'b' has a base itself"),
        ('base = "e.toml"\n', "e.toml: it is a base of itself"),
        ("base = 1\n", "e.toml: base: found 1, expected a file or a list of files"),
        ("base = [1]\n", "e.toml: base: found [1], expected a file or a list of files"),
    ],
)
def test_a_wrong_base_is_an_error(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(found)):
        load_experiment([tmp_path / "e.toml"])


def test_a_missing_base_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text('base = "nowhere.toml"\n')
    with pytest.raises(InputError, match="nowhere"):
        load_experiment([tmp_path / "e.toml"])


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("seed = 1\n[corpus]\n", ConfigError, "'seed' is outside any table"),
        ("[corpus\n", InputError, "a TOML file"),
    ],
)
def test_faulty_experiments(tmp_path: Path, text: str, kind: type[Exception], found: str) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text)
    with pytest.raises(kind, match=found):
        split_experiment([path], tmp_path / "out")
