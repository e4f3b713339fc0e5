"""Short texts as sentences whose words are letters, or symbols between blanks, such as phones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.text_lines import read_text_lines

Unit = Literal["letters", "symbols"]
Pair = tuple[str, str]
# With a meaning for Moses, or invisible; "&" begins an escape. A blank is a letter, too.
SPECIAL = re.compile(r"[&|<>\[\]\s\x00-\x1f\x7f]")
ESCAPE = re.compile(r"&#(\d+);")


def read_pairs(path: Path) -> list[Pair]:
    """Read lines `source <tab> target`; blanks around both are left out.

    Raises:
        InputError: a line is not UTF-8, has no or several tabs or an empty side; or there is no line.
    """
    pairs: list[Pair] = []
    for number, line in enumerate(read_text_lines(path), start=1):
        try:
            fields = [field.strip() for field in line.decode().split("\t")]
        except UnicodeDecodeError as error:
            raise InputError(path, number, shown(line), "a line of UTF-8") from error
        if len(fields) != 2 or not all(fields):
            hint = "`paste SOURCE TARGET` makes such lines of two files"
            raise InputError(path, number, shown(line), "source <tab> target", hint)
        pairs.append((fields[0], fields[1]))
    if not pairs:
        raise InputError(path, None, "no lines", "source <tab> target on each")
    return pairs


def targets_by_source(pairs: Iterable[Pair]) -> dict[str, Counter[str]]:
    """How often each target of a source is in the pairs."""
    found: dict[str, Counter[str]] = {}
    for source, target in pairs:
        found.setdefault(source, Counter())[target] += 1
    return found


def split_units(text: str, unit: Unit) -> bytes:
    """The units of a text with blanks between them; what would mislead Moses is escaped."""
    units: Sequence[str] = text if unit == "letters" else text.split()
    return " ".join(
        SPECIAL.sub(lambda found: f"&#{ord(found[0])};", each) for each in units
    ).encode()


def joined_units(line: bytes, unit: Unit) -> str:
    """The text of units; undoes `split_units`."""
    units = line.decode("utf-8", "replace").split(" ")
    text = ("" if unit == "letters" else " ").join(units)
    return ESCAPE.sub(lambda found: chr(int(found[1])), text)
