"""What gives the feature MBR0, by its name: the one list used by settings and reranking."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moses_bridge.base.errors import ConfigError
from tuning.pools.mbr import Likeness, likeness_by_metric
from tuning.pools.metric_name import MbrMetricName


@dataclass(frozen=True)
class MbrChoice:
    """What gives the feature MBR0.

    Attributes:
        name: metric of the likeness.
        command: command of "column"; see `tuning.pools.number_command.NumberCommand`. {reference} is the other
            hypothesis.
        cache: file that keeps its numbers; "" keeps none.

    Raises:
        ConfigError: "column" has no command, or another metric has one.
    """

    name: MbrMetricName | None = None
    command: str = ""
    cache: str = ""

    def __post_init__(self) -> None:
        if self.name == "column" and not self.command:
            raise ConfigError('mbr = "column" needs a command: set mbr_command')
        if self.name != "column" and (self.command or self.cache):
            raise ConfigError('a command belongs to mbr = "column"; leave mbr_command out')

    def likeness(self) -> Likeness | None:
        """What gives the values; None for no feature.

        Raises:
            ConfigError: the command is malformed.
            InputError: the cache is malformed.
        """
        if self.name is None:
            return None
        if self.name != "column":
            return likeness_by_metric(self.name)
        from tuning.pools.mbr_by_command import likeness_by_command
        from tuning.pools.number_command import NumberCommand

        cache = Path(self.cache) if self.cache else None
        command = NumberCommand(self.command, "the command of MBR0", ("reference",), cache)
        return likeness_by_command(command.ask if cache is None else command.numbers)
