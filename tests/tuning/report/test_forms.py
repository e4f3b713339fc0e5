"""Tables in each form."""

from __future__ import annotations

import pandas as pd

from tuning.report.forms import to_latex, to_markdown, to_text


def test_what_tex_reserves_is_escaped_and_notes_are_comments() -> None:
    rows = [{"system": "50%_a&b", "p": r"\^~"}]
    assert to_latex(rows, ["one"]) == (
        "% one\n\\begin{tabular}{lr}\nsystem & p \\\\\n"
        r"50\%\_a\&b & \textbackslash{}\textasciicircum{}\textasciitilde{} \\"
        "\n\\end{tabular}\n"
    )


def test_a_line_break_in_a_name_ends_neither_a_row_nor_a_comment() -> None:
    rows = [{"system": "a\n\nb", "p": "<c|d>"}]
    found = to_latex(rows, ["A\n\\input{secret}\x85B\u2028C"])
    assert found.startswith("% A \\input{secret} B C\n\\begin{tabular}")
    assert r"a  b & \textless{}c\textbar{}d\textgreater{} \\" in found


def test_bars_are_escaped_and_notes_keep_lines_of_their_own() -> None:
    rows = [{"system": "a|b", "p": "0.5"}]
    assert to_markdown(rows, ["one", "two"]) == (
        "| system | p |\n| --- | --- |\n| a\\|b | 0.5 |\n\none  \ntwo  \n"
    )


def test_a_name_stays_one_cell_of_one_row() -> None:
    rows = [{"system": "a\nb\r\nc", "p": "C\\|D"}]
    table = to_markdown(rows, []).split("\n")
    assert table[2] == "| a b c | C\\\\\\|D |"
    assert len(table) == 5


def test_html_in_a_name_is_text() -> None:
    """CommonMark 0.31, sections 6.6 and 2.5: "<" before a letter begins a tag, "&" a character's name."""
    rows = [{"system": "<img src=x onerror=f()>", "p": "&lt;"}]
    found = to_markdown(rows, ["A difference (p < 0.05) of <script>x</script>\n| 1 |"])
    assert "| &lt;img src=x onerror=f()&gt; | &amp;lt; |" in found
    assert found.endswith("A difference (p < 0.05) of &lt;script>x&lt;/script> | 1 |  \n")


def test_columns_stand_in_line_and_notes_below() -> None:
    rows = [{"system": "Baseline", "p": ""}, {"system": "+X", "p": "0.5"}]
    assert to_text(rows, ["one", "two"]) == (
        "  system   p\nBaseline    \n      +X 0.5\n\none\ntwo\n"
    )


def test_text_is_that_of_pandas() -> None:
    rows = [{"system": "a\tb\nc", "p": "", "é": "0.5"}, {"system": "longer", "p": "日本", "é": "x"}]
    expected = pd.DataFrame(rows).to_string(index=False)
    assert to_text(rows, ["note"], ["lead"]) == f"lead\n\n{expected}\n\nnote\n"
