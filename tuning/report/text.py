"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def to_text(frame: pd.DataFrame, notes: Sequence[str]) -> str:
    """Columns in line, an empty line, the notes."""
    return frame.to_string(index=False) + "\n\n" + "".join(f"{note}\n" for note in notes)
