"""What `import tuning` offers: the results of the commands as DataFrames, and as a notebook shows them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tuning
from tuning.cli import main

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem

SETTINGS = {
    "optimizer": "mert",
    "nbest_size": 2,
    "max_iterations": 4,
    "keep": "best",
    "search": {"mert": {"n_restarts": 2, "n_directions": 1}},
}
TEXTS = ("source", "reference")


def tuned(system: FixedSystem, out: Path, seed: int = 1) -> tuning.Tuned:
    texts = [system[name] for name in TEXTS]
    return tuning.tune(system["moses.ini"], *texts, out, settings=SETTINGS, seed=seed)


def test_a_tuning_run(system: FixedSystem, tmp_path: Path) -> None:
    found = tuned(system, tmp_path / "run")
    assert found.dev_bleu == pytest.approx(100)
    assert found.weights == json.loads((tmp_path / "run" / "weights.json").read_text())["weights"]
    frame = found.frame()
    weights = ["weight Distortion0", "weight LM0"]
    measured = ["bleu", "length_ratio", "oracle_bleu", "pool_bleu", "kept"]
    assert [*frame.columns] == measured + weights
    assert frame["bleu"].max() == frame["bleu"][frame["kept"]].item() == found.dev_bleu
    assert frame["pool_bleu"].tolist() == [each.pool_bleu for each in found.run.iterations]
    assert frame[weights].abs().sum(axis=1).to_numpy() == pytest.approx(1)
    assert frame.index[0] == 1
    assert "<svg" in found._repr_svg_()


def test_the_last_decoding_before_the_limit_only_measures(
    system: FixedSystem, tmp_path: Path
) -> None:
    texts = [system[name] for name in TEXTS]
    settings = SETTINGS | {"max_iterations": 1}
    found = tuning.tune(system["moses.ini"], *texts, tmp_path / "run", settings)
    assert math.isnan(found.frame()["pool_bleu"].item())


def test_a_comparison(system: FixedSystem, tmp_path: Path) -> None:
    runs = [tmp_path / "run1", tmp_path / "run2"]
    for seed, run in enumerate(runs, start=1):
        tuned(system, run, seed)
    systems = {"Baseline": runs, "<B>": runs[0]}
    texts = [system[name] for name in TEXTS]
    found = tuning.compare_systems(systems, *texts, {"n_samples": 20})
    frame = found.frame()
    assert [*frame.index] == ["Baseline", "<B>"]
    assert [*frame["n_runs"]] == [2, 1]
    assert frame["test_bleu"].to_numpy() == pytest.approx(100)
    assert math.isnan(frame["test_sd"]["<B>"]) and frame["test_sd"]["Baseline"] == 0
    delta = frame["against_baseline.delta"]
    assert math.isnan(delta["Baseline"]) and delta["<B>"] == 0
    assert (frame["against_baseline.low"] <= delta).tolist() == [False, True]
    texts_of_frame = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    assert texts_of_frame == ["against_baseline.covers_runs"]
    shown = found._repr_html_()
    assert "<td>&lt;B&gt;</td>" in shown and "<td>100.00</td>" in shown and "<B>" not in shown
    assert found.write(tmp_path / "table") == (tmp_path / "table" / "table.txt").read_text()


def test_a_file_of_translations(system: FixedSystem, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("a b c d e\nf g h i x\nk l m n o\n")
    frame = tuning.evaluate(output, system["reference"], n_samples=20)
    arguments = [output, "--reference", system["reference"], "--samples", 20]
    result = CliRunner().invoke(main, ["evaluate", *map(str, arguments)])
    printed = json.loads(result.stdout)
    assert len(frame) == 1
    for name in ("bleu", "bootstrap_sd", "chrf", "ter", "output_words"):
        assert frame[name].item() == printed[name]
    precisions = frame[[f"precision{n}" for n in (1, 2, 3, 4)]].to_numpy()[0]
    assert np.array_equal(precisions, printed["precisions"])
    assert isinstance(frame, pd.DataFrame)


def test_settings_that_do_not_fit(system: FixedSystem, tmp_path: Path) -> None:
    texts = [system[name] for name in TEXTS]
    with pytest.raises(tuning.UserError, match="settings: unknown key 'nbest'; did you mean"):
        tuning.tune(system["moses.ini"], *texts, tmp_path / "run", {"nbest": 3})
    with pytest.raises(tuning.UserError, match="systems: found none, expected the runs of one"):
        tuning.compare_systems({}, *texts)
    with pytest.raises(tuning.UserError, match="nowhere"):
        tuning.compare_systems({"A": tmp_path / "nowhere"}, *texts)
    with pytest.raises(tuning.UserError, match="output"):
        tuning.evaluate(tmp_path / "output", system["reference"])


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, tuning; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "numpy", "pandas", "scipy", "click"} & {*found.stdout.split()}


# What users call: a change here is one that they notice. Types are as they stand in the code.
PUBLIC = """\
Compared(comparison: Comparison) -> None
Compared.frame() -> pd.DataFrame
Compared.notes() -> list[str]
Compared.write(out: Path | str) -> str
Tuned(directory: Path, run: TuningRun) -> None
Tuned.frame() -> pd.DataFrame
UserError
compare_systems(systems: Mapping[str, StrPath | Sequence[StrPath]], source: StrPath, \
references: StrPath | Sequence[StrPath], settings: Mapping[str, Any] | None = None, \
training: StrPath | Sequence[StrPath] = (), groups: StrPath | None = None, jobs: int = 1) -> Compared
evaluate(output: StrPath, references: StrPath | Sequence[StrPath], target_language: str = 'fr', \
n_samples: int = 1000, seed: int = 1, groups: StrPath | None = None) -> pd.DataFrame
run(experiment: StrPath | Sequence[StrPath], out: StrPath, \
settings: Mapping[str, Any] | None = None) -> None
tune(ini: StrPath, source: StrPath, references: StrPath | Sequence[StrPath], out: StrPath, \
settings: Mapping[str, Any] | None = None, seed: int = 1, resume: bool = False, \
init_weights: StrPath | None = None, nbest_features: Sequence[str] = (), jobs: int = 1) -> Tuned
"""


def test_the_public_names_and_their_signatures(
    public_signatures: Callable[[ModuleType], str],
) -> None:
    assert public_signatures(tuning) == PUBLIC
