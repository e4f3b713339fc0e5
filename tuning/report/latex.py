"""Tables as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tuning.report.lines import one_line

# The characters with a special meaning in TeX (Knuth 1984, The TeXbook, chapter 7), and those that its default
# font has other glyphs for.
ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "&%_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)


def to_latex(frame: pd.DataFrame, notes: Sequence[str], lead: Sequence[str] = ()) -> str:
    """The lead and the notes as comments, a tabular."""
    columns = "l" + "r" * (len(frame.columns) - 1)
    lines = [list(frame.columns), *frame.to_numpy().tolist()]
    body = " \\\\\n".join(" & ".join(_escaped(cell) for cell in line) for line in lines)
    tabular = f"\\begin{{tabular}}{{{columns}}}\n{body} \\\\\n\\end{{tabular}}\n"
    return "".join(f"% {one_line(note)}\n" for note in (*lead, *notes)) + tabular


def _escaped(cell: str) -> str:
    return one_line(cell).translate(ESCAPES)
