"""The choices of options of commands, kept apart from the modules chosen, which are slow to load."""

from __future__ import annotations

from typing import Literal

OutputFormat = Literal["json", "text", "markdown", "latex"]
