"""The command tuning: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

import click

from moses_bridge.base.command import VERSION, CommandGroup
from tuning.cli import compare, plan, report, tune


@click.group(cls=CommandGroup)
@VERSION
def main() -> None:
    """Tune log-linear weights against BLEU and compare tuned systems."""


main.extra = "report"
for _module in (tune, compare, report, plan):
    for _command in _module.COMMANDS:
        main.add_command(_command)
