"""Optimising on files of Moses: what is found there is what is found on their pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError
from tuning.optimisers.by_name import load_optimizer
from tuning.optimisers.contract import OptimizerConfig
from tuning.optimisers.moses_files import optimize_files, read_moses_pool, read_start


def test_each_features_file_has_its_scores_file(tmp_path: Path) -> None:
    one, two = [tmp_path / "features.dat"], [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(ConfigError, match="1 --features and 2 --scores; they go in pairs"):
        optimize_files(one, two, tmp_path / "init.opt", "kbmira", OptimizerConfig())


def test_files_of_moses_are_optimised_on_as_their_pool(golden: Path) -> None:
    folder = golden / "mert"
    features, scores = [folder / "run1.features.dat.gz"], [folder / "run1.scores.dat.gz"]
    init, config = folder / "run1.init.opt", OptimizerConfig(frozen=("LM0_0",))
    pool = read_moses_pool(features, scores)
    start = read_start(init, pool)
    found = optimize_files(features, scores, init, "kbmira", config, 3, 2)
    assert found == load_optimizer("kbmira")(pool, start[None], config, 3, 1)
    assert found == optimize_files(features, scores, init, "kbmira", config, seed=3)
    assert found != optimize_files(features, scores, init, "kbmira", config)
    assert "LM0_0" in found.frozen
