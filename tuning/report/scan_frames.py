"""A scan as a frame of formatted cells, and the notes below it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tuning.compare.scan.weight_scan import Measures, Scan, ScanPoint

MISSED = "*"


def scan_frame(scan: Scan) -> pd.DataFrame:
    """One row for each value of the weight, then those of the other weight alone."""
    rows = [_point_cells(scan, point) for point in scan.points]
    return pd.DataFrame([*rows, *(_alone_cells(scan, measures) for measures in scan.without)])


def scan_notes(scan: Scan) -> list[str]:
    """Notes on how the numbers were made, one line each."""
    notes = [
        f"{scan.system}: {scan.n_sentences} sentences, full decodings; all other weights stay. The "
        f"system's own weight of {scan.feature} is {scan.own_weight:g}.",
        "BLEU on tokens; precision: geometric mean of the 1- to 4-gram precisions, BLEU without brevity "
        f"penalty; at equal length: {scan.against} changed until the output has the length of weight 0, "
        "interpolated between two decodings.",
        "delta: against weight 0, with its standard error over texts (jackknife); nothing is corrected "
        "for the number of weights tried.",
        f"The last {len(scan.without)} rows have weight 0: what {scan.against} does alone.",
    ]
    if _missed(scan.points):
        notes.append(f"{MISSED}: the length was not reached; the output nearest to it.")
    return notes


def _missed(points: Sequence[ScanPoint]) -> bool:
    return not all(point.has_length for point in points)


def _point_cells(scan: Scan, point: ScanPoint) -> dict[str, str]:
    mark = "" if point.has_length else MISSED
    equal = point.equal
    return _plain_cells(scan, point.weight, point.plain) | {
        f"{scan.against} then": f"{equal.against:.4f}{mark}",
        "BLEU at equal length": f"{equal.bleu:.2f}{mark}",
        "its precision": f"{equal.precision:.2f}",
        "delta": f"{equal.delta:+.2f}",
        "s.e.": f"{equal.error:.2f}",
    }


def _alone_cells(scan: Scan, measures: Measures) -> dict[str, str]:
    names = (
        f"{scan.against} then",
        "BLEU at equal length",
        "its precision",
        "delta",
        "s.e.",
    )
    return _plain_cells(scan, 0.0, measures) | dict.fromkeys(names, "")


def _plain_cells(scan: Scan, weight: float, measures: Measures) -> dict[str, str]:
    return {
        scan.feature: f"{weight:g}",
        scan.against: f"{measures.against:.4f}",
        "BLEU": f"{measures.bleu:.2f}",
        "precision": f"{measures.precision:.2f}",
        "length": f"{measures.length_ratio:.3f}",
    }
