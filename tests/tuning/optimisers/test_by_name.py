"""The list of optimisers and their modules agree, and each of them shows how far it is."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import numpy as np
import pytest

from tests.tuning.optimisers.pools import RIGHT, WRONG
from tuning.optimisers.by_name import OPTIMIZER_NAMES, OptimizerName, load_optimizer
from tuning.optimisers.contract import MertConfig, OptimizerConfig
from tuning.optimisers.nbest_pool import make_pool

LABELS = {"mert": "MERT", "kbmira": "batch MIRA", "pro": "PRO", "xbleu": "xBLEU"}


@pytest.mark.parametrize("name", OPTIMIZER_NAMES)
def test_each_name_is_that_of_a_module_and_its_function(name: OptimizerName) -> None:
    found = inspect.unwrap(load_optimizer(name))
    assert found is getattr(import_module(f"tuning.optimisers.{name}"), f"optimize_{name}")


@pytest.mark.parametrize("name", OPTIMIZER_NAMES)
def test_each_shows_its_progress_to_the_end(
    name: OptimizerName, capsys: pytest.CaptureFixture[str]
) -> None:
    features = np.tile([[1.0, 0.0], [0.0, 1.0]], (3, 1))
    statistics = np.tile(np.array([RIGHT, WRONG], np.int32), (3, 1))
    pool = make_pool(("A_0", "B_0"), np.repeat(np.arange(3), 2), features, statistics)
    config = OptimizerConfig(mert=MertConfig(n_restarts=2, small_pool_work=0))
    load_optimizer(name)(pool, np.array([[0.2, 0.8]]), config, 1, 1)
    assert re.search(rf"^{LABELS[name]}.*: (\d+)/\1 \(100%\) ", capsys.readouterr().err, re.M)
