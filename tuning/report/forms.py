"""The forms of a table: text, Markdown, LaTeX and JSON. A row has its cells by their headings."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tuning.compare.comparison import Comparison
    from tuning.compare.gains import Gains, Pooled
    from tuning.compare.output_scores import OutputScores, SystemScores
    from tuning.compare.scan import Scan
    from tuning.compare.worth import Worth

    Result = Comparison | Gains | OutputScores | Pooled | Scan | Worth

OutputFormat = Literal["json", "text", "markdown", "latex"]
Row = Mapping[str, str]
IN_TEXT = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})
# A bar ends a cell and a backslash may take a bar's own away; tags and entities are HTML.
IN_MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", ">": "&gt;", "&": "&amp;"})
LINE_END = "  \n"  # two blanks keep a line of its own in a paragraph of Markdown
TAGS = re.compile(r"<(?=[A-Za-z/!?])")  # not those of "p < 0.05"
# The characters with a special meaning in TeX (Knuth 1984, The TeXbook, chapter 7), and those that its default
# font has other glyphs for.
IN_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%_#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)


def to_text(rows: Sequence[Row], notes: Sequence[str], lead: Sequence[str] = ()) -> str:
    """The lead and an empty line if there is one, columns in line, an empty line, the notes."""
    lines = [[cell.translate(IN_TEXT) for cell in line] for line in _lines(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        " ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "".join(f"{line}\n" for line in [*lead, *[""] * bool(lead), *table, "", *notes])


def to_markdown(rows: Sequence[Row], notes: Sequence[str], lead: Sequence[str] = ()) -> str:
    """The lead and an empty line if there is one, a table, an empty line, the notes."""
    head, *body = [
        [_one_line(cell).translate(IN_MARKDOWN) for cell in line] for line in _lines(rows)
    ]
    lines = [head, ["---"] * len(head), *body]
    table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return _paragraph(lead) + "\n" * bool(lead) + table + "\n" + _paragraph(notes)


def to_latex(rows: Sequence[Row], notes: Sequence[str], lead: Sequence[str] = ()) -> str:
    """The lead and the notes as comments, a tabular."""
    lines = [[_one_line(cell).translate(IN_LATEX) for cell in line] for line in _lines(rows)]
    columns = "l" + "r" * (len(lines[0]) - 1)
    body = " \\\\\n".join(map(" & ".join, lines))
    tabular = f"\\begin{{tabular}}{{{columns}}}\n{body} \\\\\n\\end{{tabular}}\n"
    return "".join(f"% {_one_line(note)}\n" for note in (*lead, *notes)) + tabular


RENDERERS: dict[str, Callable[[Sequence[Row], Sequence[str], Sequence[str]], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
}


def to_json(result: Result | Sequence[SystemScores]) -> str:
    """All attributes by name with all digits, of several systems as a list.

    Of a row tuned for BLEU no metric is named.
    """
    if isinstance(result, Sequence):
        return _json([dataclasses.asdict(scores) for scores in result])
    record = dataclasses.asdict(result)
    for row in record.get("rows", ()):
        for name in ("tuned_for", "metrics"):
            if not row.get(name, True):
                del row[name]
    return _json(record)


def _json(record: object) -> str:
    return json.dumps(record, indent=1) + "\n"


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    return [[*rows[0]], *([*row.values()] for row in rows)]


def _one_line(text: str) -> str:
    """The text on one line: whatever ends a line becomes a blank."""
    return " ".join(text.splitlines())


def _paragraph(texts: Sequence[str]) -> str:
    return "".join(TAGS.sub("&lt;", _one_line(text)) + LINE_END for text in texts)
