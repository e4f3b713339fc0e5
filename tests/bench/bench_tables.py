"""A whole table through `rescorer score` without a network, next to gzip on the same rows.

    python bench_tables.py TABLE.gz OUT.json [ROWS]

With ROWS the table is repeated until it has so many. Time is that of the processor, the start of the program
included.
"""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from results import Result, write_results

from moses_bridge.base.textio import read_lines


def main(table: Path, out: Path, least_rows: int) -> None:
    """Measure, and write the results."""
    rows_of_table = sum(1 for _ in read_lines(table))
    n_times = max(1, -(-least_rows // rows_of_table))
    n_rows = rows_of_table * n_times
    with TemporaryDirectory() as folder:
        long, new = Path(folder, "long.gz"), Path(folder, "new.gz")
        with long.open("wb") as stream:
            for _ in range(n_times):
                stream.write(table.read_bytes())
        rescorer = Path(sys.executable).with_name("rescorer")
        score = [rescorer, "score", long, "--control", "length", "--jobs", "1", "--out", new]
        ours = processor_seconds(shlex.join(map(str, score)))
        peer = processor_seconds(
            f"gzip -dc {shlex.quote(str(long))} | gzip -6 > {shlex.quote(str(new))}"
        )
    work = f"read and write {n_rows:,} rows, the start included"
    names = "rescorer score --control length", "gzip -dc into gzip -6"
    write_results([Result(work, *names, ours, peer, "processor s")], out)


def processor_seconds(command: str) -> float:
    """Seconds that a command of the shell keeps processors busy, those of the system included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, shell=True, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else 0)
