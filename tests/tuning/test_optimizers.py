"""The list of optimisers and their modules agree."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from tuning.optimizers import OPTIMIZER_NAMES, OptimizerName, load_optimizer


@pytest.mark.parametrize("name", OPTIMIZER_NAMES)
def test_each_name_is_that_of_a_module_and_its_function(name: OptimizerName) -> None:
    found = inspect.unwrap(load_optimizer(name))
    assert found is getattr(import_module(f"tuning.{name}"), f"optimize_{name}")
