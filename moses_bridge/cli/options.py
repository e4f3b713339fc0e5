"""Options that the commands share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Languages:
    """The languages of a parallel text.

    Attributes:
        source_language: Code of the source language: en.
        target_language: Code of the target language: fr, de or pt_BR.
    """

    source_language: str
    target_language: str
