"""Tables as Markdown."""

from __future__ import annotations

import pandas as pd

from tuning.report.markdown import to_markdown


def test_bars_are_escaped_and_notes_keep_lines_of_their_own() -> None:
    frame = pd.DataFrame([{"system": "a|b", "p": "0.5"}])
    assert to_markdown(frame, ["one", "two"]) == (
        "| system | p |\n| --- | --- |\n| a\\|b | 0.5 |\n\none  \ntwo  \n"
    )
