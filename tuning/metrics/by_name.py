"""The metrics by name: the one list used by settings, commands and the loop. It loads none of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath

if TYPE_CHECKING:
    from tuning.metrics.metric import MetricReferences

MetricName = Literal["bleu", "chrf", "ter", "word-accuracy", "line-accuracy", "cer", "column"]
MbrMetricName = Literal["bleu", "chrf", "bleu-aggregated", "chrf-aggregated", "column"]
LESS_IS_BETTER = ("ter", "cer")


def metric_weights(name: str) -> dict[str, float]:
    """The metrics of a setting with their weights: of "chrf" alone, or of several, "bleu=0.5,chrf=0.5".

    Raises:
        ConfigError: it is neither.
    """
    names = get_args(MetricName)
    if name in names:
        return {name: 1.0}
    pattern = re.compile(rf"({'|'.join(names)})=(\d+(?:\.\d+)?)")
    found = {part[1]: float(part[2]) for part in map(pattern.fullmatch, name.split(",")) if part}
    if len(found) <= name.count(",") or not all(found.values()):
        expected = (
            f"one of {', '.join(names)}, or several with weights above 0, as bleu=0.5,chrf=0.5"
        )
        raise ConfigError(f"metric: found {name!r}, expected {expected}")
    return found


@dataclass(frozen=True)
class MetricChoice:
    """A metric to tune for, with its command.

    Attributes:
        name: name of the metric, or several with weights; see `metric_weights`.
        command: command of the metric "column"; see `tuning.metrics.column_metric.ColumnReferences`.
        cache: file that keeps its numbers; "" keeps them in memory alone.

    Raises:
        ConfigError: the name is none, "column" has no command, or another metric has one.
    """

    name: str = "bleu"
    command: str = ""
    cache: str = ""

    def __post_init__(self) -> None:
        has_column = "column" in metric_weights(self.name)
        if has_column and not self.command:
            raise ConfigError('the metric "column" needs a command: set metric_command')
        if not has_column and (self.command or self.cache):
            raise ConfigError(f'the metric "{self.name}" has no command; leave metric_command out')

    def references(self, paths: Sequence[StrPath], source: StrPath) -> MetricReferences:
        """Read one file a reference; `source` is the translated text.

        Raises:
            InputError: a file has no lines, or another number of them than the source.
        """
        from tuning.metrics.metric import read_references

        sentences, weights = read_references(paths, source), metric_weights(self.name).items()
        counters = [(self._counter(name, sentences, source), weight) for name, weight in weights]
        if "=" not in self.name:
            return counters[0][0]
        from tuning.metrics.metric import MixedReferences

        return MixedReferences(self.name, counters)

    def _counter(
        self, name: str, sentences: Sequence[Sequence[bytes]], source: StrPath
    ) -> MetricReferences:
        if name == "bleu":
            from tuning.metrics.bleu import References

            return References(sentences)
        if name == "chrf":
            from tuning.metrics.chrf import ChrfReferences

            return ChrfReferences(sentences)
        if name == "column":
            from tuning.metrics.column_metric import ColumnReferences

            cache = Path(self.cache) if self.cache else None
            return ColumnReferences(sentences, [*read_text_lines(source)], self.command, cache)
        from tuning.metrics import edit_rates

        return edit_rates.COUNTERS[name](sentences)
