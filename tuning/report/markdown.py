"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

LINE_END = "  \n"  # two blanks at the end keep a line separate in a paragraph


def to_markdown(frame: pd.DataFrame, notes: Sequence[str]) -> str:
    """A table, an empty line, the notes."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in frame.to_numpy().tolist()]
    lines = [list(frame.columns), ["---"] * len(frame.columns), *rows]
    table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return table + "\n" + "".join(note + LINE_END for note in notes)
