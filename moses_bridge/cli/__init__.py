"""The command moses-bridge: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

import click

from moses_bridge.base.command import VERSION, CommandGroup
from moses_bridge.cli import corpus, decode, steps, tables


@click.group(cls=CommandGroup)
@VERSION
def main() -> None:
    """Make corpora, phrase tables and translations in Moses's formats, with or without Moses.

    Text files may be compressed (.gz, .bz2, .xz, .zst).
    """


for _module in (corpus, tables, decode, steps):
    for _command in _module.COMMANDS:
        main.add_command(_command)
