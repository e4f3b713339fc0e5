"""The metrics that systems were tuned for, on the test text: counted on its tokens, as in the tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tuning.pools.metric_by_name import MetricChoice
from tuning.pools.metric_name import MetricName

COUNTED = frozenset({"bleu", "column"})  # BLEU has columns of its own; a column has no numbers here


def metrics_of_runs(names: Sequence[MetricName]) -> list[MetricChoice]:
    """The metrics of tuned runs that can be counted on another text, in alphabetic order."""
    return [MetricChoice(name) for name in sorted({*names} - COUNTED)]


def tuned_metrics(
    systems: Mapping[str, Sequence[Path]],
    metrics: Sequence[MetricChoice],
    references: Sequence[Path],
    source: Path,
) -> dict[str, dict[str, float]]:
    """Each system by each of the metrics, as the mean over its outputs.

    Args:
        systems: the outputs of each.
        metrics: what is counted.
        references: one file each.
        source: the translated text.

    Raises:
        InputError: an output has another number of lines than the references, or a metric's command wrote
            something else than a number for each line.
        ToolError: a metric's command failed.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in systems}
    for choice in metrics:
        counter = choice.references(references, source)
        for name, outputs in systems.items():
            sums = [counter.output_statistics(path).sum(axis=0) for path in outputs]
            values = [float(counter.metric.value(of_output)) for of_output in sums]
            found[name][choice.name] = float(np.mean(values))
    return found
