"""What stands in the tables: results as frames of formatted cells, and the notes below them."""

from __future__ import annotations

import pandas as pd

from tuning.evaluation import Comparison, ResultRow
from tuning.output_scores import OutputScores

UNKNOWN = "*"
NOTE = (
    "BLEU on tokens, mean and standard deviation over the tuning runs; p by approximate randomisation "
    "over the pooled runs; text s.d.: of the first run's test BLEU over resampled texts; "
    f"{UNKNOWN}: not known from one run."
)


def comparison_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a system."""
    return pd.DataFrame([_cells(row) for row in comparison.rows])


def comparison_notes(comparison: Comparison) -> list[str]:
    """How the numbers were made, one line each."""
    return [NOTE, comparison.signature, *comparison.detokenised_signatures]


def _cells(row: ResultRow) -> dict[str, str]:
    return {
        "system": row.system,
        "dev BLEU": f"{row.dev_bleu:.2f}",
        "dev s.d.": _number(row.dev_sd, ".2f"),
        "test BLEU": f"{row.test_bleu:.2f}",
        "test s.d.": _number(row.test_sd, ".2f"),
        "text s.d.": f"{row.bootstrap_sd:.2f}",
        "delta": "" if row.delta is None else f"{row.delta:+.2f}",
        "p": "" if row.p_value is None else f"{row.p_value:.4f}",
        "runs": str(row.n_runs),
        "length": f"{row.length_ratio:.3f}",
        "1/2/3/4-gram": "/".join(f"{value:.1f}" for value in row.precisions),
        "detok. BLEU": f"{row.detokenised_bleu:.2f}",
        "chrF": f"{row.chrf:.2f}",
        "TER": f"{row.ter:.2f}",
    }


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def scores_frame(scores: OutputScores) -> pd.DataFrame:
    """The scores of one file of translations, in one row."""
    cells = {
        "BLEU": f"{scores.bleu:.2f}",
        "text s.d.": f"{scores.bootstrap_sd:.2f}",
        "length": f"{scores.length_ratio:.3f}",
        "1/2/3/4-gram": "/".join(f"{value:.1f}" for value in scores.precisions),
        "detok. BLEU": f"{scores.detokenised_bleu:.2f}",
        "chrF": f"{scores.chrf:.2f}",
        "TER": f"{scores.ter:.2f}",
    }
    return pd.DataFrame([cells])
