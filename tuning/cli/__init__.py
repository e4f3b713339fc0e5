"""The command tuning: each of its verbs is a thin shell over one public function."""

from __future__ import annotations

from moses_bridge.base.command import program


@program
def main() -> None:
    """Tune log-linear weights against BLEU and compare tuned systems."""


main.extra = "report"
main.renamed = {"translate": "decode"}
main.sections = {
    "Find weights": {"tuning.cli.tune": ("tune", "rerank", "optimize")},
    "Decode and compare": {
        "tuning.cli.compare": ("evaluate", "worth", "decode", "compare", "gains", "pool", "scan")
    },
    "Spell and pronounce": {
        "tuning.cli.letters": ("letters train", "letters predict", "letters evaluate")
    },
    "Report": {"tuning.cli.report": ("plot", "report")},
    "Run an experiment": {"tuning.cli.run": ("run", "run improve"), "tuning.cli.report": ("plan",)},
}
