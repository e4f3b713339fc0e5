"""Phrase models on a table: how far they rank the targets of a source as the table does, and rows a second.

    python bench_phrase_models.py TABLE OUT.json NAME=MODEL[,MODEL...] ...

Several models joined by commas are the mean of their log-probabilities; NAME=word-probs:MODEL,MODEL is that of
their words' probabilities. Correlations are Spearman's between a model's value and the table's p(target |
source) or p(source | target), among the targets of one source, in the mean over the sources of a band of
frequency that have five targets at least (and not all with the same p). Rows a second are of the processor's
time, in bfloat16; reading and writing of the table are left out.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from moses_bridge.formats.phrase_table import direct_prob, inverse_prob, read_blocks, source_count
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.models.ensemble import named_ensemble
from rescorer.models.model_directory import scorer_of_model

BLOCK_ROWS = 8192
LEAST_TARGETS = 5
BANDS = (1, 10, 100, 1000)  # lowest count of a source in each


@dataclass(frozen=True)
class Rows:
    """What is scored.

    Attributes:
        blocks: runs of rows with whole sources.
        probs: of each row p(target | source), and p(source | target), *Shape:* (n,) each.
        starts: the first row of each source, *Shape:* (n_sources,).
        counts: how often each source was extracted, *Shape:* (n_sources,).
    """

    blocks: list[Batch]
    probs: dict[str, NDArray[np.float64]]
    starts: NDArray[np.int64]
    counts: NDArray[np.float64]


def read(table: Path) -> Rows:
    """All rows of a table."""
    blocks, direct, inverse = [], list[float](), list[float]()
    starts, counts = list[int](), list[float]()
    for block in read_blocks(table, BLOCK_ROWS):
        blocks.append(Batch(block.sources, block.targets))
        for row, line in enumerate(block.lines):
            number = block.first_line + row
            if not row or block.sources[row] != block.sources[row - 1]:
                starts.append(len(direct))
                counts.append(source_count(line, table, number))
            direct.append(direct_prob(line, table, number))
            inverse.append(inverse_prob(line, table, number))
    probs = {"p(t | s)": np.array(direct), "p(s | t)": np.array(inverse)}
    return Rows(blocks, probs, np.array(starts), np.array(counts))


def scorer_of(text: str) -> NamedScorer:
    """A model, or an ensemble."""
    mean, _, names = text.rpartition(":")
    compute = Compute("bfloat16")
    scorers = [scorer_of_model(Path(name), compute) for name in names.split(",")]
    if len(scorers) == 1:
        return scorers[0]
    return named_ensemble(scorers, "word-probs" if mean == "word-probs" else "sentence-log-probs")


def measure(scorer: NamedScorer, rows: Rows) -> dict[str, float]:
    """Rows a second, and the correlation of each band; a first block warms up."""
    scorer.scorer.values(rows.blocks[0])
    start = time.process_time()
    values = np.concatenate([scorer.scorer.values(block) for block in rows.blocks])
    seconds = time.process_time() - start
    found = {"rows/s": len(values) / seconds}
    for name, probs in rows.probs.items():
        found |= by_band(values, probs, rows, name)
    return found


def by_band(
    values: NDArray[np.float64], probs: NDArray[np.float64], rows: Rows, name: str
) -> dict[str, float]:
    """The mean correlation over the sources of each band, and how many they are."""
    ends = [*rows.starts[1:], len(values)]
    spans = [slice(first, last) for first, last in zip(rows.starts, ends, strict=True)]
    by_source = np.array([correlation(values[span], probs[span]) for span in spans])
    found = {}
    for lowest, below in zip(BANDS, (*BANDS[1:], math.inf), strict=True):
        chosen = by_source[(rows.counts >= lowest) & (rows.counts < below)]
        chosen = chosen[np.isfinite(chosen)]
        found[f"{name} from {lowest}"] = float(chosen.mean()) if len(chosen) else math.nan
        found[f"{name} sources from {lowest}"] = len(chosen)
    return found


def correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Spearman's; NaN for too few targets, or equal values on one side."""
    if len(one) < LEAST_TARGETS or np.ptp(one) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def main(table: Path, out: Path, models: Sequence[str]) -> None:
    """Measure all models on all rows."""
    torch.set_num_threads(1)
    rows = read(table)
    results = {}
    for model in models:
        name, _, directories = model.partition("=")
        results[name] = measure(scorer_of(directories), rows)
        print(name, *(f"{key} {value:,.3f}" for key, value in results[name].items()), sep=" | ")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
