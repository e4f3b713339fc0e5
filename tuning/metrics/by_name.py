"""The metrics by name: the one list used by settings, commands and the loop. It loads none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath

if TYPE_CHECKING:
    from tuning.metrics.metric import MetricReferences

MetricName = Literal["bleu", "chrf", "ter", "word-accuracy", "cer", "column"]
MbrMetricName = Literal["bleu", "chrf", "column"]
LESS_IS_BETTER = ("ter", "cer")


@dataclass(frozen=True)
class MetricChoice:
    """A metric to tune for, with its command.

    Attributes:
        name: name of the metric.
        command: command of the metric "column"; see `tuning.metrics.column_metric.ColumnReferences`.
        cache: file that keeps its numbers; "" keeps them in memory alone.

    Raises:
        ConfigError: "column" has no command, or another metric has one.
    """

    name: MetricName = "bleu"
    command: str = ""
    cache: str = ""

    def __post_init__(self) -> None:
        if self.name == "column" and not self.command:
            raise ConfigError('the metric "column" needs a command: set metric_command')
        if self.name != "column" and (self.command or self.cache):
            raise ConfigError(f'the metric "{self.name}" has no command; leave metric_command out')

    def references(self, paths: Sequence[StrPath], source: StrPath) -> MetricReferences:
        """Read one file a reference; `source` is the translated text.

        Raises:
            InputError: a file has no lines, or another number of them than the source.
        """
        from tuning.metrics.metric import read_references

        sentences = read_references(paths, source)
        if self.name == "bleu":
            from tuning.metrics.bleu import References

            return References(sentences)
        if self.name == "chrf":
            from tuning.metrics.chrf import ChrfReferences

            return ChrfReferences(sentences)
        if self.name == "column":
            from tuning.metrics.column_metric import ColumnReferences

            cache = Path(self.cache) if self.cache else None
            return ColumnReferences(sentences, [*read_text_lines(source)], self.command, cache)
        from tuning.metrics import edit_rates

        if self.name == "ter":
            return edit_rates.TerReferences(sentences)
        if self.name == "cer":
            return edit_rates.CerReferences(sentences)
        return edit_rates.WordAccuracyReferences(sentences)
