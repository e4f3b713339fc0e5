"""Preferences as files, Markdown or JSON by the suffix of the name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.json_files import write_json
from moses_bridge.base.textio import open_write
from rescorer.views.preference_text import to_markdown
from rescorer.views.preferences import Preferences, as_json

SUFFIXES = (".md", ".json")


def check_names(paths: Sequence[Path]) -> None:
    """Stop at a name that says no format, before anything is computed.

    Raises:
        ConfigError: a name ends neither in .md nor in .json.
    """
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise ConfigError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")


def write_preferences(result: Preferences, paths: Sequence[Path]) -> None:
    """Write the same preferences into each file.

    Raises:
        ConfigError: as of `check_names`.
    """
    check_names(paths)
    for path in paths:
        if path.suffix == ".json":
            write_json(path, as_json(result))
        else:
            with open_write(path) as stream:
                stream.write(to_markdown(result).encode())
