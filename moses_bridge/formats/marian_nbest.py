"""Marian's n-best lists: `id ||| words [||| links] [||| WordScores= v ...] ||| F0= v F1= v ||| total`.

The features are those of Moses's lists, but other fields are in front of them instead of behind the total
(Marian, src/translator/output_printer.h). A model without a breakdown of its score writes "F0=v" in one word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.nbest import BAR, NBestEntry, parse_entry

GLUED = re.compile(rb"\b(F\d+=)(?=[^\s])")


def read_marian_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the entries of a list that `marian-decoder --n-best` wrote.

    Raises:
        InputError: a line has fewer than four fields, or its id or total is not a number.
    """
    for line_number, line in enumerate(read_lines(path), start=1):
        fields = line.split(BAR)
        if len(fields) < 4:
            found = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
            expected = "at least 4: id ||| words ||| F0= v ||| total"
            raise InputError(path, line_number, found, expected)
        features = GLUED.sub(rb"\1 ", fields[-2])
        known = (fields[0], fields[1], features, fields[-1])
        yield parse_entry(BAR.join(known), path, line_number)
