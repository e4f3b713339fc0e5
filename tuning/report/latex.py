"""Tables as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

# The characters with a special meaning in TeX (Knuth 1984, The TeXbook, chapter 7).
ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "&%_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)


def to_latex(frame: pd.DataFrame, notes: Sequence[str]) -> str:
    """The notes as comments, a tabular."""
    columns = "l" + "r" * (len(frame.columns) - 1)
    lines = [list(frame.columns), *frame.to_numpy().tolist()]
    body = " \\\\\n".join(" & ".join(cell.translate(ESCAPES) for cell in line) for line in lines)
    tabular = f"\\begin{{tabular}}{{{columns}}}\n{body} \\\\\n\\end{{tabular}}\n"
    return "".join(f"% {note}\n" for note in notes) + tabular
