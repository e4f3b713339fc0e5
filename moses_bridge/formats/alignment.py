"""Word links in Pharaoh format: `0-0 1-2`, source word, dash, target word, counted from 0."""

from __future__ import annotations

from collections.abc import Iterable

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath

MAX_DIGITS = 9  # of the place of a word: more would not fit the numbers of compiled code


def parse_links(
    line: bytes, path: StrPath = "links", line_number: int | None = None
) -> list[tuple[int, int]]:
    """Read the links of one sentence pair.

    Raises:
        InputError: a link is not two whole numbers of at most nine digits separated by a dash.
    """
    links = []
    for token in line.split():
        source, dash, target = token.partition(b"-")
        are_numbers = dash and source.isdigit() and target.isdigit()
        if not are_numbers or (
            len(token) > MAX_DIGITS and max(map(len, (source, target))) > MAX_DIGITS
        ):
            raise InputError(
                path, line_number, f"the link {shown(token)}", "SOURCE-TARGET, as in 0-1"
            )
        links.append((int(source), int(target)))
    return links


def format_links(links: Iterable[tuple[int, int]]) -> bytes:
    """Write links as one line, without its "\\n"."""
    return b" ".join(b"%d-%d" % link for link in links)
