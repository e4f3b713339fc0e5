"""Settings of a tuning and of a reranking."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError
from moses_bridge.decoding.interface import DecoderConfig
from tuning.loop.mbr import MbrChoice
from tuning.metrics.by_name import MbrMetricName, MetricChoice
from tuning.optimisers.by_name import OptimizerName
from tuning.optimisers.contract import OptimizerConfig

METRIC_SETTINGS = ("metric", "metric_command", "metric_cache")


@dataclass(frozen=True)
class TuningConfig:
    """Settings of `tune`.

    Attributes:
        optimizer: optimiser of the weights. Batch MIRA varies least between tunings, and translates other
            texts as well as any.
        nbest_size: number of distinct hypotheses of a sentence.
        max_iterations: largest number of decodings of the dev text; the last one only measures.
        min_weight_change: the loop ends when no normalised weight moves by more.
        min_pool_gain: the loop ends when the pool offers no more BLEU (0 to 100) than this; for keep = "best".
        patience: the loop ends after this many decodings in a row without a better one, not counting the
            start; for keep = "best".
        keep: weights to keep: "last", those of the last decoding, or "best", those with the best decoded dev
            BLEU. If an optimiser's weights settle, like kbmira's, the best of several decodings is best by
            chance.
        dropped_lists: number of first n-best lists to drop from the pool once the next list is made. Early
            lists depend on the initial weights and bias later ones while they are in the pool. The loop does
            not end before it drops them. 0 keeps all lists, as Moses does.
        left_out: columns with a fixed weight of 0, like "TranslationModel0_2": the system is tuned as if it
            did not have them.
        start_spread: each weight of the start is multiplied by exp(start_spread z), z normal and drawn
            with the seed, so that runs do not share a start. 0 starts from the weights as they are.
        neural_weight: initial weight of each neural model in the search, unless --init-weights has one. With
            0 the first n-best lists are those of the system without the model.
        metric: what weights are tuned for: bleu, chrf, ter, word-accuracy, line-accuracy, cer or column; or
            several with weights, as bleu=0.5,chrf=0.5. min_pool_gain, and keep = "best", then refer to it.
        metric_command: command of the metric "column": {hypotheses}, {source} and {reference} become paths of
            files with a line for each hypothesis, and it writes a number for each to {out}; more is better.
        metric_cache: file that keeps the numbers of metric_command; "" keeps them in memory alone.
        search: settings of the optimiser.
        decoder: settings of the decoder.
    """

    optimizer: OptimizerName = "kbmira"
    nbest_size: Annotated[int, AtLeast(1)] = 100
    max_iterations: Annotated[int, AtLeast(1)] = 8
    min_weight_change: float = 1e-4
    min_pool_gain: float = 0.01
    patience: Annotated[int, AtLeast(1)] = 3
    keep: Literal["best", "last"] = "last"
    start_spread: Annotated[float, AtLeast(0)] = 0.0
    neural_weight: float = 0.0
    dropped_lists: Annotated[int, AtLeast(0)] = 0
    left_out: tuple[str, ...] = ()
    metric: str = "bleu"
    metric_command: str = ""
    metric_cache: str = ""
    search: OptimizerConfig = field(default_factory=OptimizerConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)

    def __post_init__(self) -> None:
        check_limits(self)
        _ = self.chosen_metric
        if self.dropped_lists >= self.max_iterations:
            raise ConfigError(
                f"dropped_lists is {self.dropped_lists}, max_iterations {self.max_iterations}: "
                "no list would replace the dropped ones; raise max_iterations"
            )

    @property
    def chosen_metric(self) -> MetricChoice:
        """The metric with its command."""
        return MetricChoice(self.metric, self.metric_command, self.metric_cache)

    def as_record(self) -> dict[str, Any]:
        """The settings as JSON values; those of the metric only where it is not BLEU."""
        record = asdict(self)
        if self.metric == "bleu":
            for name in METRIC_SETTINGS:
                del record[name]
        return record


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
        list_size: of lists of the format "plain", the number of hypotheses of each sentence.
        word_penalty: of lists, whether to add the feature WordPenalty0, minus the number of words, where they
            have none. It lets the weights correct the length of the output.
        mbr: of lists, the metric of a feature MBR0: the mean quality of a hypothesis against the others of its
            sentence (minimum Bayes risk); "bleu-aggregated" and "chrf-aggregated" measure it against one
            reference with their mean numbers of n-grams. None adds no such feature.
        mbr_command: command of mbr = "column", like metric_command: it scores each hypothesis of a sentence
            with each other one as {reference}.
        mbr_cache: .npz that keeps the matrix of each sentence for mbr = "column", "bleu" or "chrf"; "" keeps
            none.
        metric: what weights are tuned for: bleu, chrf, ter, word-accuracy, line-accuracy, cer or column; or
            several with weights, as bleu=0.5,chrf=0.5.
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
    list_size: Annotated[int, AtLeast(0)] = 0
    word_penalty: bool = True
    mbr: MbrMetricName | None = None
    mbr_command: str = ""
    mbr_cache: str = ""
    metric: str = "bleu"
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
