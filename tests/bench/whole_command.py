"""`rescorer score` from file to file: its time and memory, and what of it is not the network."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.textio import write_lines
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import NamedScorer
from rescorer.contract.vocabulary import Shortlists
from rescorer.tables.column import ColumnConfig
from rescorer.tables.scored_table import Run, add_columns
from rescorer.tries.prefix_tree import build_prefix_tree

PROGRAM = """\
import atexit
from rescorer.cli import main
atexit.register(lambda: print(open("/proc/self/status").read()))
main()
"""


@dataclass(frozen=True)
class WholeCommand:
    """What the command needs for a table.

    Attributes:
        n_rows: of the table.
        seconds: of the command, without those that it needs for a single row.
        start_seconds: those.
        host_seconds: of the same with a scorer that looks words up, builds the tries and computes nothing.
        peak_mib: highest memory, MiB.
    """

    n_rows: int
    seconds: float
    start_seconds: float
    host_seconds: float
    peak_mib: float

    @property
    def rows_per_second(self) -> float:
        """Speed without the start."""
        return self.n_rows / self.seconds

    def __str__(self) -> str:
        return (
            f"rescorer score, {self.n_rows:,} rows: {self.seconds:.2f} s from file to file"
            f" (and {self.start_seconds:.2f} s to start), of which reading, looking up, tries, formatting"
            f" and writing {self.host_seconds:.2f} s, {self.host_seconds / self.seconds:.0%};"
            f" at most {self.peak_mib:,.0f} MiB"
        )


def measure_command(
    rows: list[bytes],
    model: Path,
    shortlists: Shortlists,
    jobs: int,
    device: str = "cpu",
) -> WholeCommand:
    """Run it on rows of a table, and on the first of them alone.

    Args:
        rows: with their sources together.
        model: a model directory.
        shortlists: words of the model.
        jobs: processors to use.
        device: "cpu" or "cuda".
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_lines(folder / "one.gz", rows[:1])
        write_lines(folder / "all.gz", rows)
        start_seconds = min(_run(folder / "one.gz", model, jobs, device)[0] for _ in range(2))
        seconds, peak_mib = _run(folder / "all.gz", model, jobs, device)
        host_seconds = _host_seconds(folder / "all.gz", LookUps(shortlists), jobs)
    return WholeCommand(len(rows), seconds - start_seconds, start_seconds, host_seconds, peak_mib)


def _run(table: Path, model: Path, jobs: int, device: str) -> tuple[float, float]:
    """Seconds and highest memory, MiB, of the command, which tells the latter itself.

    What the system says of child processes has the memory of their parent in it.
    """
    options = ["--model", model, "--out", table.with_name("new.gz"), "--device", device]
    command = [sys.executable, "-P", "-c", PROGRAM, "score", table, *options, "--jobs", jobs]
    started = time.perf_counter()
    ended = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    peak = re.search(r"VmHWM:\s*(\d+) kB", ended.stdout)
    assert peak is not None
    return seconds, int(peak[1]) / 1024


def _host_seconds(table: Path, scorer: LookUps, jobs: int) -> float:
    named = NamedScorer("look-ups", scorer, "1")
    started = time.perf_counter()
    config = ColumnConfig(jobs=jobs)
    add_columns(Run.prepare(str(table), str(table.with_name("new.gz")), [named], config))
    return time.perf_counter() - started


class LookUps:
    """A scorer without a network: what `TrieScorer` does with phrases before it computes.

    Args:
        shortlists: ids of the words.
    """

    needs_links = False

    def __init__(self, shortlists: Shortlists) -> None:
        assert shortlists.source is not None
        self.source, self.shortlist = shortlists.source, shortlists.target

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Numbers with as many digits as real ones, *Shape:* (n,)."""
        sources, targets = batch.sources, batch.targets
        numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
        groups = np.fromiter((numbers[source] for source in sources), np.int64, len(sources))
        ids, lens = self.source.encode_phrases(list(numbers))
        build_prefix_tree(ids, lens + 1)
        build_prefix_tree(*self.shortlist.encode_phrases(targets), groups, len(numbers))
        return np.linspace(-20, -1, len(targets))
