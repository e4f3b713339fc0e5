"""Options that the commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moses_bridge.base.options import ConfigOptions, InputFile, Positive, option
from tuning.optimisers.by_name import OptimizerName
from tuning.pools.metric_name import MetricName

References = Annotated[
    tuple[InputFile, ...],
    option("--reference"),
    "Tokenised reference; may be given several times.",
]


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text that is translated, with its references.

    Attributes:
        source: Tokenised source text.
        references: Tokenised reference; may be given several times.
    """

    source: InputFile
    references: References


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ConfigOptions):
    """How weights are found.

    Attributes:
        optimizer: How weights are found.
        metric: What weights are tuned for.
        metric_command: Command of the metric column: {hypotheses}, {source} and {reference} become paths, and
            it writes a number for each line to {out}.
        nbest_size: Distinct translations of a sentence in an n-best list.
    """

    optimizer: Annotated[OptimizerName | None, option(key="optimizer")] = None
    metric: Annotated[MetricName | None, option(key="metric")] = None
    metric_command: Annotated[str | None, option(key="metric_command")] = None
    nbest_size: Annotated[Positive | None, option(key="nbest_size")] = None
