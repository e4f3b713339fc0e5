"""The command tuning: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

from moses_bridge.base.command import program
from tuning.cli import compare, letters, report, run, tune


@program
def main() -> None:
    """Tune log-linear weights against BLEU and compare tuned systems."""


main.extra = "report"
main.renamed = {"translate": "decode"}
main.add_section("Find weights", tune.COMMANDS)
main.add_section("Decode and compare", compare.COMMANDS)
main.add_section("Spell and pronounce", letters.COMMANDS)
main.add_section("Report", report.COMMANDS)
main.add_section("Run an experiment", (*run.COMMANDS, *report.PLANNING))
