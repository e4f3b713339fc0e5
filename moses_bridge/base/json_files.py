"""JSON files: read with a clear error, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import open_write


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        InputError: the file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(path, None, str(error), "a JSON file") from error


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON, whole or not at all."""
    with open_write(path) as stream:
        stream.write(json.dumps(value, indent=1).encode() + b"\n")
