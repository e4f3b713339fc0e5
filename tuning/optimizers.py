"""The optimisers by name: the one list that settings, the commands and the loop go by."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast, get_args

if TYPE_CHECKING:
    from tuning.optimizer import Optimizer

OptimizerName = Literal["mert", "kbmira", "pro", "xbleu"]
OPTIMIZER_NAMES: tuple[OptimizerName, ...] = get_args(OptimizerName)


def load_optimizer(name: OptimizerName) -> Optimizer:
    """The function `optimize_NAME` of the module tuning.NAME, imported only now: numba is slow to start."""
    return cast("Optimizer", getattr(import_module(f"tuning.{name}"), f"optimize_{name}"))
