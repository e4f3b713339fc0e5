from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.alignment import format_links, parse_links


@pytest.mark.parametrize(
    ("line", "links"),
    [
        (b"", []),
        (b"0-0", [(0, 0)]),
        (b"0-0 2-1  10-12\r", [(0, 0), (2, 1), (10, 12)]),
        (b" 3-1 0-0 3-1 ", [(3, 1), (0, 0), (3, 1)]),
        (b"999999999-999999999", [(999999999, 999999999)]),
    ],
)
def test_links(line: bytes, links: list[tuple[int, int]]) -> None:
    assert parse_links(line) == links
    assert format_links(links) == b" ".join(line.split())


@pytest.mark.parametrize(
    "link", [b"0", b"0-", b"-0", b"0--1", b"0-1-2", b"a-b", b"1.0-2", b"\xb2-1"]
)
def test_what_is_no_link(link: bytes) -> None:
    with pytest.raises(InputError, match=r"corpus\.links:7: found the link") as error:
        parse_links(b"0-0 " + link, "corpus.links", 7)
    assert error.value.line == 7


def test_links_of_moses_come_back(golden: Path) -> None:
    for line in read_lines(golden / "extract" / "aligned.grow-diag-final-and.gz"):
        assert format_links(parse_links(line)) == line.strip()


@pytest.mark.parametrize("link", [b"9" * 20 + b"-0", b"1000000000-0", b"0-" + b"9" * 5000])
def test_places_that_no_sentence_has_are_refused(link: bytes) -> None:
    with pytest.raises(InputError, match=r"corpus\.links:7: .*expected SOURCE-TARGET"):
        parse_links(link, "corpus.links", 7)
