"""Tables as LaTeX."""

from __future__ import annotations

import pandas as pd

from tuning.report.latex import to_latex


def test_what_tex_reserves_is_escaped_and_notes_are_comments() -> None:
    frame = pd.DataFrame([{"system": "50%_a&b", "p": r"\^~"}])
    assert to_latex(frame, ["one"]) == (
        "% one\n\\begin{tabular}{lr}\nsystem & p \\\\\n"
        r"50\%\_a\&b & \textbackslash{}\textasciicircum{}\textasciitilde{} \\"
        "\n\\end{tabular}\n"
    )


def test_a_line_break_in_a_name_ends_neither_a_row_nor_a_comment() -> None:
    frame = pd.DataFrame([{"system": "a\n\nb", "p": "<c|d>"}])
    found = to_latex(frame, ["A\n\\input{secret}\x85B\u2028C"])
    assert found.startswith("% A \\input{secret} B C\n\\begin{tabular}")
    assert r"a  b & \textless{}c\textbar{}d\textgreater{} \\" in found
