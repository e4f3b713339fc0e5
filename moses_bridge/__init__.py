"""The files and programs of Moses, and built-in programs that do the same work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moses_bridge.base.errors import UserError

if TYPE_CHECKING:
    from moses_bridge.decoding.text_translator import TextTranslator

__all__ = ["UserError", "load"]


def load(system: Path | str, settings: Mapping[str, Any] | None = None) -> TextTranslator:
    """Load a system to translate plain text: `load("better").translate(["The package is free."])`.

    Args:
        system: what `moses-bridge build`, `tuning tune` or `tuning run improve` left.
        settings: those of `TranslateConfig`, as {"tags": "drop"}.

    Raises:
        UserError: a setting is wrong, or the system is missing, malformed or not fit; see `TextTranslator`.
    """
    from moses_bridge.base.config import from_mapping
    from moses_bridge.decoding.text_translator import TextTranslator
    from moses_bridge.decoding.translate_config import TranslateConfig

    return TextTranslator(Path(system), from_mapping(TranslateConfig, settings or {}, ""))
