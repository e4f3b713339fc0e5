"""The command rescorer: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

from moses_bridge.base.command import program
from rescorer.contract.compute import let_waiting_threads_sleep


@program
def main() -> None:
    """Neural scores for the phrase tables and n-best lists of Moses."""
    let_waiting_threads_sleep()


main.extra = "views"
main.renamed = {"translate": "decode"}
main.sections = {
    "Train": {"rescorer.cli.train": ("train", "expected-bleu")},
    "Score": {"rescorer.cli.score": ("score", "merge", "nbest", "lines", "serve")},
    "Look inside": {
        "rescorer.cli.look": ("neighbors", "preferences", "map", "perplexity", "align")
    },
    "Generate and decode": {"rescorer.cli.generate": ("generate", "decode")},
    "Install": {"rescorer.cli.warm": ("warm",)},
}
