"""Processor seconds of MERT with 20 restarts, next to `mert`: on the list of a run, and on Moses's own files.

For the files of a Moses run (MOSES_GOLDEN, iterations 1 and 2) the processor time of `mert` is in
its logs; where `mert` is installed it is measured here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from golden import GOLDEN
from results import Result, write_results

from moses_bridge.base.programs import find_program
from moses_bridge.base.textio import write_lines
from tuning.metrics.bleu import References
from tuning.optimisers.contract import MertConfig, OptimizerConfig
from tuning.optimisers.mert import optimize_mert
from tuning.optimisers.moses_files import read_moses_pool, read_start
from tuning.optimisers.nbest_pool import NBestPool
from tuning.optimisers.pool_reader import read_pool

THREADS = 2
UNIT = "processor s"
OPTIONS = OptimizerConfig(mert=MertConfig(n_restarts=20))


def main(nbest: Path, reference: Path, out: Path) -> None:
    """Measure on one n-best list and on the files of a Moses run."""
    results = [_on_list(nbest, reference)]
    if (GOLDEN / "mert").is_dir():
        results += _on_golden(GOLDEN / "mert")
    write_results(results, out)


def _on_list(nbest: Path, reference: Path) -> Result:
    """The search alone."""
    pool = read_pool([nbest], References.read([reference]))
    start = np.full(len(pool.names), 1 / len(pool.names))
    optimize_mert(pool, start[None], OptimizerConfig(mert=MertConfig(n_restarts=0)), 1, 1)
    started = time.process_time()
    optimize_mert(pool, start[None], OPTIONS, 1, THREADS)
    ours = time.process_time() - started
    return Result(_work(pool), "mert.py", "mert", ours, _mert_seconds(pool, start), UNIT)


def _on_golden(folder: Path) -> Iterator[Result]:
    """Reading and search, as the times in the logs have both, for each iteration and all together."""
    sums = np.zeros(2)
    for iteration in (1, 2):
        runs = range(1, iteration + 1)
        started = time.process_time()
        pool = read_moses_pool(
            [folder / f"run{run}.features.dat.gz" for run in runs],
            [folder / f"run{run}.scores.dat.gz" for run in runs],
        )
        start = read_start(folder / f"run{iteration}.init.opt", pool)
        found = optimize_mert(pool, start[None], OPTIONS, 1, THREADS)
        ours = time.process_time() - started
        log = (folder / f"iteration{iteration}.mert.log").read_text()
        best, logged = re.findall(r"=> ([\d.]+)|Stopping.*CPU ([\d.]+)", log)
        theirs = _mert_seconds(pool, start) or float(logged[1])
        sums += ours, theirs
        work = f"iteration {iteration} of a Moses run with reading, BLEU {found.bleu:.2f}"
        yield Result(work, "mert.py", f"mert, {100 * float(best[0]):.2f}", ours, theirs, UNIT)
    yield Result(
        "both iterations together", "mert.py", "mert", float(sums[0]), float(sums[1]), UNIT
    )


def _work(pool: NBestPool) -> str:
    return f"MERT, {len(pool):,} hypotheses, {len(pool.names)} features, 20 restarts, 2 threads"


def _mert_seconds(pool: NBestPool, start: np.ndarray) -> float | None:
    """Processor time of Moses's program on the same hypotheses; None where it is not installed."""
    if not find_program("mert"):
        return None
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_lines(folder / "f", _lines(pool, b"FEATURES", pool.names, pool.features))
        write_lines(folder / "s", _lines(pool, b"SCORES", ("BLEU",), pool.statistics))
        np.savetxt(folder / "i", [start, np.zeros_like(start), np.ones_like(start)], "%.6f")
        command = ["mert", "-d", str(len(pool.names)), "-n", "20", "--threads", str(THREADS)]
        before = os.times()
        subprocess.run(
            [*command, "--ffile", "f", "--scfile", "s", "--ifile", "i"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        after = os.times()
        used = after.children_user + after.children_system
        return used - before.children_user - before.children_system


def _lines(
    pool: NBestPool, kind: bytes, names: tuple[str, ...], values: np.ndarray
) -> Iterator[bytes]:
    """The lines of a features.dat or scores.dat, as Moses's extractor prints them."""
    for number, sentence in enumerate(pool.sentence_ids):
        rows = values[pool.offsets[number] : pool.offsets[number + 1]]
        header = b"%s_TXT_BEGIN_0 %d %d %d " % (kind, sentence, *rows.shape)
        yield header + " ".join(names).encode()
        yield from (b"%g " * len(row) % tuple(row) for row in rows.tolist())
        yield kind + b"_TXT_END_0"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
