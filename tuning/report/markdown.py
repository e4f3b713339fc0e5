"""Tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from tuning.report.lines import one_line

LINE_END = "  \n"  # two blanks keep a line of its own in a paragraph
# A bar ends a cell and a backslash may take a bar's own away; tags and entities are HTML.
CELL = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", ">": "&gt;", "&": "&amp;"})
TAGS = re.compile(r"<(?=[A-Za-z/!?])")  # not those of "p < 0.05"


def to_markdown(frame: pd.DataFrame, notes: Sequence[str], lead: Sequence[str] = ()) -> str:
    """The lead and an empty line if there is one, a table, an empty line, the notes."""
    rows = [[_escaped(cell) for cell in row] for row in frame.to_numpy().tolist()]
    head = [_escaped(name) for name in frame.columns]
    lines = [head, ["---"] * len(head), *rows]
    table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return _lines(lead) + "\n" * bool(lead) + table + "\n" + _lines(notes)


def _lines(texts: Sequence[str]) -> str:
    return "".join(TAGS.sub("&lt;", one_line(text)) + LINE_END for text in texts)


def _escaped(cell: str) -> str:
    return one_line(cell).translate(CELL)
