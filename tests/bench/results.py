"""Results of benchmarks: written as JSON with machine and date, printed as a table."""

from __future__ import annotations

import datetime
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """One comparison on the same work in the same run.

    Attributes:
        work: what was done.
        ours: the way of ours that did it.
        peer: what else did it.
        ours_value: our speed or time.
        peer_value: the peer's, None where it is not installed.
        unit: of both; with a "/s" in it more is better, otherwise less.
    """

    work: str
    ours: str
    peer: str
    ours_value: float
    peer_value: float | None
    unit: str

    @property
    def ratio(self) -> float | None:
        """Over 1 where ours is better; None without a peer."""
        if self.peer_value is None:
            return None
        if "/s" in self.unit:
            return self.ours_value / self.peer_value
        return self.peer_value / self.ours_value


def write_results(results: list[Result], path: Path) -> None:
    """Write the results and print them."""
    rows = [asdict(result) | {"ratio": result.ratio} for result in results]
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"machine": machine, "date": datetime.date.today().isoformat(), "results": rows}
    path.write_text(json.dumps(record, indent=1) + "\n")
    for row in rows:
        peer = "-" if row["peer_value"] is None else f"{row['peer_value']:,.1f}"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(
            f"{row['work']} | {row['ours']} {row['ours_value']:,.1f} | {row['peer']} {peer} "
            f"| {row['unit']} | {ratio}"
        )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
