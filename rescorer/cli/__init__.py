"""The command rescorer: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

from moses_bridge.base.command import program
from rescorer.cli import generate, look, score, train, warm
from rescorer.contract.compute import let_waiting_threads_sleep


@program
def main() -> None:
    """Neural scores for the phrase tables and n-best lists of Moses."""
    let_waiting_threads_sleep()


main.extra = "views"
main.renamed = {"translate": "decode"}
main.add_section("Train", train.COMMANDS)
main.add_section("Score", score.COMMANDS)
main.add_section("Look inside", look.COMMANDS)
main.add_section("Generate and decode", generate.COMMANDS)
main.add_section("Install", warm.COMMANDS)
