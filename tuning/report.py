"""The comparison as text, Markdown, LaTeX and JSON; formats only."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pandas as pd

from moses_bridge.textio import open_write
from tuning.evaluation import Comparison, ResultRow
from tuning.output_scores import OutputScores

UNKNOWN = "*"
LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)
NOTE = (
    "BLEU on tokens, mean and standard deviation over the tuning runs; p by approximate randomisation "
    "over the pooled runs; text s.d.: of the first run's test BLEU over resampled texts; "
    f"{UNKNOWN}: not known from one run."
)


def write_comparison(comparison: Comparison, out: Path) -> str:
    """Write OUT/table.txt, .md, .tex and .json.

    Returns:
        The text of table.txt.
    """
    frame = to_frame(comparison)
    foot = [NOTE, comparison.signature, *comparison.detokenised_signatures]
    text = frame.to_string(index=False) + "\n\n" + "\n".join(foot) + "\n"
    markdown = to_markdown(frame) + "\n\n" + "\n".join(f"{line}  " for line in foot) + "\n"
    latex = "".join(f"% {line}\n" for line in foot) + to_latex(frame)
    value = json.dumps(dataclasses.asdict(comparison), indent=1) + "\n"
    for suffix, content in (("md", markdown), ("tex", latex), ("json", value), ("txt", text)):
        with open_write(out / f"table.{suffix}") as stream:
            stream.write(content.encode())
    return text


def to_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a system, formatted."""
    return pd.DataFrame([_cells(row) for row in comparison.rows])


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


def format_scores(scores: OutputScores, form: str) -> str:
    """The scores of one file of translations as "json", "text", "markdown" or "latex"."""
    if form == "json":
        return json.dumps(dataclasses.asdict(scores), indent=1) + "\n"
    frame = pd.DataFrame([_score_cells(scores)])
    if form == "latex":
        return "".join(f"% {line}\n" for line in scores.signatures) + to_latex(frame)
    table = to_markdown(frame) if form == "markdown" else frame.to_string(index=False)
    end = "  \n" if form == "markdown" else "\n"
    return f"{table}\n\n" + "".join(line + end for line in scores.signatures)


def _score_cells(scores: OutputScores) -> dict[str, str]:
    return {
        "BLEU": f"{scores.bleu:.2f}",
        "text s.d.": f"{scores.bootstrap_sd:.2f}",
        "length": f"{scores.length_ratio:.3f}",
        "1/2/3/4-gram": "/".join(f"{value:.1f}" for value in scores.precisions),
        "detok. BLEU": f"{scores.detokenised_bleu:.2f}",
        "chrF": f"{scores.chrf:.2f}",
        "TER": f"{scores.ter:.2f}",
    }


def to_markdown(frame: pd.DataFrame) -> str:
    """A Markdown table."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in frame.to_numpy().tolist()]
    lines = [list(frame.columns), ["---"] * len(frame.columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def to_latex(frame: pd.DataFrame) -> str:
    """A LaTeX tabular."""
    columns = "l" + "r" * (len(frame.columns) - 1)
    lines = [list(frame.columns), *frame.to_numpy().tolist()]
    body = " \\\\\n".join(" & ".join(cell.translate(LATEX) for cell in line) for line in lines)
    return f"\\begin{{tabular}}{{{columns}}}\n{body} \\\\\n\\end{{tabular}}\n"
