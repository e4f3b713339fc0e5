"""The optimisers by name: the one list used by settings, commands and the loop."""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tuning.optimisers.contract import Optimizer, OptimizerConfig, OptimizerResult
    from tuning.optimisers.nbest_pool import NBestPool

OptimizerName = Literal["mert", "kbmira", "pro", "xbleu"]
OPTIMIZER_NAMES: tuple[OptimizerName, ...] = get_args(OptimizerName)


def load_optimizer(name: OptimizerName) -> Optimizer:
    """The function `optimize_NAME` of the module tuning.NAME, imported only now: numba is slow to start.

    Prints a note if it must be compiled first.
    """
    from moses_bridge.base.compiled.notice import CompilationNotice

    function = cast(
        "Optimizer", getattr(import_module(f"tuning.optimisers.{name}"), f"optimize_{name}")
    )

    @wraps(function)
    def optimize(
        pool: NBestPool, starts: NDArray[np.float64], config: OptimizerConfig, seed: int, jobs: int
    ) -> OptimizerResult:
        with CompilationNotice(f"the optimiser {name} (up to half a minute)"):
            return function(pool, starts, config, seed, jobs)

    return optimize
