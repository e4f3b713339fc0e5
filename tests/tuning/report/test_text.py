"""Tables as plain text."""

from __future__ import annotations

import pandas as pd

from tuning.report.text import to_text


def test_columns_stand_in_line_and_notes_below() -> None:
    frame = pd.DataFrame([{"system": "Baseline", "p": ""}, {"system": "+X", "p": "0.5"}])
    assert to_text(frame, ["one", "two"]) == (
        "  system   p\nBaseline    \n      +X 0.5\n\none\ntwo\n"
    )
