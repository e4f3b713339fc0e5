"""The names that options of commands choose from, apart from what they choose, which is slow to load."""

from __future__ import annotations

from typing import Literal

OutputFormat = Literal["json", "text", "markdown", "latex"]
