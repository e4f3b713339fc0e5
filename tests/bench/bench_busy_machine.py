"""What training and scoring lose beside one other busy process, on the same tables in the same run.

The commands run as a user runs them. Half of the speed is the most that may be lost: threads that spin where
they should wait lost nineteen parts of twenty.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from results import Result, write_results

from moses_bridge.base.textio import read_lines, write_lines

TRAINING_PAIRS = 60_000
SCORED_ROWS = 100_000
SETTINGS = f"max_pairs = {TRAINING_PAIRS}\nn_held_out = 500\n"
BUSY_LOOP = "while True: pass"


def main(table: Path, model: Path, out: Path) -> None:
    """Measure both commands alone and beside a busy loop."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.toml").write_text(SETTINGS)
        write_lines(folder / "rows.gz", islice(read_lines(table), SCORED_ROWS))
        write_lines(folder / "row.gz", islice(read_lines(table), 1))
        works = {
            "train, one pass": (lambda: updates_per_second(table, folder), "updates/s"),
            "rescorer score": (lambda: rows_per_second(model, folder), "rows/s"),
        }
        results = [measure(title, work, unit) for title, (work, unit) in works.items()]
    write_results(results, out)


def measure(title: str, work: Callable[[], float], unit: str) -> Result:
    """The speed beside a busy loop, against that alone; a first run compiles what there is to compile."""
    work()
    alone = work()
    with busy_process():
        beside = work()
    return Result(title, "beside a busy process", "alone", beside, alone, unit)


@contextmanager
def busy_process() -> Iterator[None]:
    """One process that never waits."""
    process = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def updates_per_second(table: Path, folder: Path) -> float:
    """Of `rescorer train`, as it reports them itself."""
    rescorer(
        *("train", table, "--out", folder / "model", "--config", folder / "config.toml"),
        *("--epochs", 1, "--overwrite"),
    )
    report = json.loads((folder / "model" / "config.json").read_text())["training"]["report"]
    return float(report["n_updates"]) / (60 * float(report["minutes"]))


def rows_per_second(model: Path, folder: Path) -> float:
    """Of `rescorer score`, its start left out."""
    seconds = []
    for name in ("row.gz", "rows.gz"):
        started = time.perf_counter()
        rescorer("score", folder / name, "--model", model, "--out", folder / "new.gz")
        seconds.append(time.perf_counter() - started)
    return SCORED_ROWS / (seconds[1] - seconds[0])


def rescorer(*arguments: object) -> str:
    """Run the command; what it prints on standard output."""
    command = [
        sys.executable,
        "-P",
        "-c",
        "from rescorer.cli import main; main()",
        *map(str, arguments),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
