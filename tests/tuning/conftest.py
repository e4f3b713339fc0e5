"""Pools of hypotheses that real Moses programs made, and what these programs reached on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.formats.tuning_data import read_init_opt
from tuning.bleu_stats import bleu
from tuning.moses_pool import read_moses_pool
from tuning.nbest_pool import NBestPool


@dataclass(frozen=True)
class MosesIteration:
    """One iteration of a tuning run of Moses: its pool, its start, the BLEU (0 to 100) of mert and kbmira."""

    pool: NBestPool
    start: NDArray[np.float64]
    mert_log: Path
    mert_bleu: float
    kbmira_bleu: float


def moses_iteration(golden: Path, number: int) -> MosesIteration:
    """The pool of all iterations up to one."""
    folder = golden / "mert"
    runs = range(1, number + 1)
    pool = read_moses_pool(
        [folder / f"run{run}.features.dat.gz" for run in runs],
        [folder / f"run{run}.scores.dat.gz" for run in runs],
    )
    mert_log = folder / f"iteration{number}.mert.log"
    best_point = re.search(r"Best point: .* => ([\d.]+)", mert_log.read_text())
    logged = re.search(
        r"Best BLEU = ([\d.]+)", (folder / f"iteration{number}.kbmira.log").read_text()
    )
    assert best_point
    assert logged
    lines = (folder / f"iteration{number}.kbmira.weights").read_text().split("\n")
    weights = np.array([float(line.split()[1]) for line in lines if line])
    kbmira_bleu = max(100 * float(logged[1]), float(bleu(pool.statistics_of(weights))))
    start = read_init_opt(folder / f"run{number}.init.opt")[0]
    return MosesIteration(pool, start, mert_log, 100 * float(best_point[1]), kbmira_bleu)


@pytest.fixture(scope="session")
def first_iteration(golden: Path) -> MosesIteration:
    return moses_iteration(golden, 1)


@pytest.fixture(scope="session")
def second_iteration(golden: Path) -> MosesIteration:
    return moses_iteration(golden, 2)
