"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def to_text(frame: pd.DataFrame, notes: Sequence[str], lead: Sequence[str] = ()) -> str:
    """The lead and an empty line if there is one, columns in line, an empty line, the notes."""
    top = "".join(f"{line}\n" for line in lead) + "\n" * bool(lead)
    return top + frame.to_string(index=False) + "\n\n" + "".join(f"{note}\n" for note in notes)
