"""The command rescorer: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

import click

from moses_bridge.base.command import VERSION, CommandGroup
from rescorer.cli import generate, look, score, train
from rescorer.contract.parallel import let_waiting_threads_sleep


@click.group(cls=CommandGroup)
@VERSION
def main() -> None:
    """Neural scores for the phrase tables and n-best lists of Moses."""
    let_waiting_threads_sleep()


main.extra = "views"
for _module in (train, score, look, generate):
    for _command in _module.COMMANDS:
        main.add_command(_command)
