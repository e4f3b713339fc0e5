"""Tables as Markdown."""

from __future__ import annotations

import pandas as pd

from tuning.report.markdown import to_markdown


def test_bars_are_escaped_and_notes_keep_lines_of_their_own() -> None:
    frame = pd.DataFrame([{"system": "a|b", "p": "0.5"}])
    assert to_markdown(frame, ["one", "two"]) == (
        "| system | p |\n| --- | --- |\n| a\\|b | 0.5 |\n\none  \ntwo  \n"
    )


def test_a_name_stays_one_cell_of_one_row() -> None:
    frame = pd.DataFrame([{"system": "a\nb\r\nc", "p": "C\\|D"}])
    table = to_markdown(frame, []).split("\n")
    assert table[2] == "| a b c | C\\\\\\|D |"
    assert len(table) == 5


def test_html_in_a_name_is_text() -> None:
    """CommonMark 0.31, sections 6.6 and 2.5: "<" before a letter begins a tag, "&" a character's name."""
    frame = pd.DataFrame([{"system": "<img src=x onerror=f()>", "p": "&lt;"}])
    found = to_markdown(frame, ["A difference (p < 0.05) of <script>x</script>\n| 1 |"])
    assert "| &lt;img src=x onerror=f()&gt; | &amp;lt; |" in found
    assert found.endswith("A difference (p < 0.05) of &lt;script>x&lt;/script> | 1 |  \n")
