"""The command moses-bridge: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

from moses_bridge.base.command import program


@program
def main() -> None:
    """Make corpora, phrase tables and translations in Moses's formats, with or without Moses.

    Text files may be compressed (.gz, .bz2, .xz, .zst).
    """


main.sections = {
    "Make text": {"moses_bridge.cli.corpus": ("corpus", "select", "folds", "join-folds")},
    "Make and check tables": {
        "moses_bridge.cli.tables": ("build", "align", "lexicon", "filter", "prune", "check")
    },
    "Combine models of several corpora": {"moses_bridge.cli.tables": ("combine", "mix-models")},
    "Translate": {"moses_bridge.cli.decode": ("translate", "decode", "score-nbest")},
    "Run experiments": {"moses_bridge.cli.steps": ("config", "step", "steps")},
}
