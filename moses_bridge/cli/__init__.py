"""The command moses-bridge: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

from moses_bridge.base.command import program
from moses_bridge.cli import corpus, decode, steps, tables


@program
def main() -> None:
    """Make corpora, phrase tables and translations in Moses's formats, with or without Moses.

    Text files may be compressed (.gz, .bz2, .xz, .zst).
    """


main.add_section("Make text", corpus.COMMANDS)
main.add_section("Make and check tables", tables.COMMANDS)
main.add_section("Combine models of several corpora", tables.COMBINING)
main.add_section("Translate", decode.COMMANDS)
main.add_section("Run experiments", steps.COMMANDS)
