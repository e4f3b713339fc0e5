"""Settings of a reranking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.config import AtLeast, check_limits
from tuning.optimisers.by_name import OptimizerName
from tuning.optimisers.contract import OptimizerConfig
from tuning.pools.mbr_by_name import MbrChoice
from tuning.pools.metric_by_name import MetricChoice
from tuning.pools.metric_name import MbrMetricName, MetricName


@dataclass(frozen=True)
class RerankConfig:
    """Settings of `rerank_run` and `rerank_lists`.

    Attributes:
        optimizer: optimiser of the weights.
        nbest_size: of a run, the number of distinct hypotheses of a sentence; lists longer than in the tuning
            may contain better ones.
        run_commands: of a run, whether to run the commands of n-best features and neural language models
            recorded in its file.
        n_runs: of lists, the number of times the weights of a system are learned, each with a seed of its own.
        list_format: format of lists.
        word_penalty: of lists, whether to add the feature WordPenalty0, minus the number of words, where they
            have none. It lets the weights correct the length of the output.
        mbr: of lists, the metric of a feature MBR0: the mean quality of a hypothesis against the others of its
            sentence (minimum Bayes risk). None adds no such feature.
        mbr_command: command of mbr = "column", like metric_command: it scores each hypothesis of a sentence
            with each other one as {reference}.
        mbr_cache: file that keeps the numbers of mbr_command; "" keeps none.
        metric: what weights are tuned for.
        metric_command: command of the metric "column": {hypotheses}, {source} and {reference} become paths of
            files with a line for each hypothesis, and it writes a number for each to {out}; more is better.
        metric_cache: file that keeps the numbers of metric_command; "" keeps them in memory alone.
        search: settings of the optimiser.
    """

    optimizer: OptimizerName = "kbmira"
    nbest_size: Annotated[int, AtLeast(1)] = 100
    run_commands: bool = False
    n_runs: Annotated[int, AtLeast(1)] = 3
    list_format: ListFormat = "moses"
    word_penalty: bool = True
    mbr: MbrMetricName | None = None
    mbr_command: str = ""
    mbr_cache: str = ""
    metric: MetricName = "bleu"
    metric_command: str = ""
    metric_cache: str = ""
    search: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        check_limits(self)
        _ = self.chosen_metric, self.chosen_mbr

    @property
    def chosen_metric(self) -> MetricChoice:
        """The metric with its command."""
        return MetricChoice(self.metric, self.metric_command, self.metric_cache)

    @property
    def chosen_mbr(self) -> MbrChoice:
        """The metric of the feature MBR0 with its command."""
        return MbrChoice(self.mbr, self.mbr_command, self.mbr_cache)
