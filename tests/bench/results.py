"""Results of benchmarks: written as JSON with what made them, printed as a table."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from moses_bridge.base.provenance import provenance


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
    """Write the results, and what made them, and print them."""
    rows = [asdict(result) | {"ratio": result.ratio} for result in results]
    path.parent.mkdir(parents=True, exist_ok=True)
    made = provenance(sys.argv, _inputs(sys.argv[1:], path))
    path.write_text(json.dumps({"made": asdict(made), "results": rows}, indent=1) + "\n")
    for row in rows:
        peer = "-" if row["peer_value"] is None else f"{row['peer_value']:,.1f}"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(
            f"{row['work']} | {row['ours']} {row['ours_value']:,.1f} | {row['peer']} {peer} "
            f"| {row['unit']} | {ratio}"
        )


def _inputs(arguments: Sequence[str], out: Path) -> Iterator[tuple[Path, str]]:
    """The files that a command line names, and those of models and runs; each with its SHA-256."""
    for argument in arguments:
        path = Path(argument.rpartition("=")[2])
        found = [path, *sorted(path.glob("*.json")), *sorted(path.glob("*.safetensors"))]
        for file in found:
            if file.is_file() and file.resolve() != out.resolve() and path != out.parent:
                with file.open("rb") as stream:
                    yield file, hashlib.file_digest(stream, "sha256").hexdigest()
