"""JSON files: read with a clear error, into records of known types; written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeVar, cast

from moses_bridge.base.config import (
    TOO_DEEP,
    WrongValueError,
    from_mapping,
    is_too_deep,
    shown_value,
)
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import StrPath, write_bytes

Record = TypeVar("Record")
MOST_BYTES = 1 << 30  # of a file: Python's values take some ten times as much memory


def read_json(path: Path) -> Any:
    """Read JSON; InputError if the file is missing, no plain file, too large, no JSON, or nested too deeply."""
    check_plain_file(path)
    try:
        n_bytes = path.stat().st_size
        if n_bytes > MOST_BYTES:
            raise InputError(path, None, f"{n_bytes:,} bytes", f"at most {MOST_BYTES:,} of JSON")
        text = path.read_bytes()
    except OSError as error:
        raise InputError(path, None, error.strerror or str(error), "a JSON file") from error
    except ValueError as error:  # a name with a zero byte
        raise InputError(repr(str(path)), None, str(error), "a JSON file") from error
    return parse_json(text, path)


def parse_json(
    text: bytes | str, path: StrPath, line: int | None = None, expected: str = "a JSON file"
) -> Any:
    """The value of a JSON text from a file, or from a line of one (numbered from 1).

    Raises:
        InputError: it is not JSON, has a number of thousands of digits, or is nested too deeply.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(path, line, str(error), expected) from error
    except RecursionError as error:
        raise InputError(path, line, TOO_DEEP, expected) from error
    if is_too_deep(value):
        raise InputError(path, line, TOO_DEEP, expected)
    return value


def read_record(kind: type[Record], path: Path, what: str, hint: str = "") -> Record:
    """Read a JSON file into a dataclass; errors as of `read_json` and `record_of`."""
    return record_of(kind, read_json(path), path, what, hint)


def record_of(
    kind: type[Record],
    value: Any,
    path: StrPath,
    what: str,
    hint: str = "",
    line: int | None = None,
) -> Record:
    """A JSON value as a dataclass; by `from_mapping` every key is known, with the right type.

    The other arguments are for errors: the file, the expected content, the remedy, and the number
    of the line, from 1.

    Raises:
        InputError: the value is not a table, or a key is unknown, missing or has the wrong type.
    """
    if not isinstance(value, dict):
        raise InputError(path, line, shown_value(value), what, hint)
    try:
        return from_mapping(kind, value, "")
    except WrongValueError as error:
        found = f"{error.found} in {error.where!r}"
        raise InputError(path, line, found, f"{error.expected}, in {what}", hint) from error
    except ConfigError as error:
        raise InputError(path, line, str(error), what, hint) from error


def open_record_of(
    kind: type[Record],
    value: Any,
    path: StrPath,
    what: str,
    hint: str = "",
    line: int | None = None,
) -> Record:
    """`record_of`, ignoring keys unknown to the dataclass: newer versions may write more."""
    if isinstance(value, dict):
        names = {field.name for field in dataclasses.fields(cast(Any, kind))}
        value = {key: each for key, each in value.items() if key in names}
    return record_of(kind, value, path, what, hint, line)


def check_plain_file(path: Path) -> None:
    """Refuse (InputError) a directory, a pipe, which may block forever, or a device, which may never end.

    A missing file passes.
    """
    if path.exists() and not path.is_file():
        raise InputError(path, None, "a directory, a pipe or a device", "a plain file")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON, whole or not at all; OSError if the file cannot be written; the error names it."""
    write_bytes(path, json.dumps(value, indent=1).encode() + b"\n")
