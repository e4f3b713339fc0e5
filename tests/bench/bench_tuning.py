"""Seconds of MERT on the n-best lists of a tuning run, 20 restarts, next to `mert`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from results import Result, write_results

from moses_bridge.formats.tuning_data import write_init_opt
from moses_bridge.programs import find_program
from tuning.bleu_stats import References
from tuning.mert import optimize_mert
from tuning.nbest_pool import NBestPool, read_pool
from tuning.optimizer import OptimizerOptions

THREADS = 2


def main(nbest: Path, reference: Path, out: Path) -> None:
    """Measure on one n-best list."""
    pool = read_pool([nbest], References.read([reference]))
    start = np.full((1, len(pool.names)), 1 / len(pool.names))
    optimize_mert(pool, start, OptimizerOptions(n_restarts=0), 1, 1)
    started = time.perf_counter()
    optimize_mert(pool, start, OptimizerOptions(n_restarts=20), 1, THREADS)
    ours = time.perf_counter() - started
    work = f"MERT, {len(pool):,} hypotheses, {len(pool.names)} features, 20 restarts, 2 threads"
    peer = _mert_seconds(pool, start) if find_program("mert") else None
    write_results([Result(work, "mert.py", "mert", ours, peer, "s")], out)


def _mert_seconds(pool: NBestPool, start: np.ndarray) -> float:
    """Wall time of Moses's program on the same hypotheses."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "f").open("w") as features, (folder / "s").open("w") as scores:
            for number, sentence in enumerate(pool.sentence_ids):
                rows = slice(pool.offsets[number], pool.offsets[number + 1])
                n = rows.stop - rows.start
                names = " ".join(pool.names)
                print("FEATURES_TXT_BEGIN_0", sentence, n, len(pool.names), names, file=features)
                print("SCORES_TXT_BEGIN_0", sentence, n, 9, "BLEU", file=scores)
                np.savetxt(features, pool.features[rows], fmt="%g")
                np.savetxt(scores, pool.statistics[rows], fmt="%d")
                print("FEATURES_TXT_END_0", file=features)
                print("SCORES_TXT_END_0", file=scores)
        write_init_opt(folder / "i", [start[0], np.zeros_like(start[0]), np.ones_like(start[0])])
        command = ["mert", "-d", str(len(pool.names)), "-n", "20", "--threads", str(THREADS)]
        started = time.perf_counter()
        subprocess.run(
            [*command, "--ffile", "f", "--scfile", "s", "--ifile", "i"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - started


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
