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
