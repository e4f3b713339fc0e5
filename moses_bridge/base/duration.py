"""Durations as text."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A duration in seconds as text: "0.4 s", "59 s", "3 min 05 s", "2 h 07 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"
