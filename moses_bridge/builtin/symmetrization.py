"""Symmetrisation of the word links of both directions: grow-diag-final-and."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from moses_bridge.base.text_lines import read_parallel
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.alignment import format_links, parse_links

Link = tuple[int, int]
# (source, target), in the order of Moses's symal, on which the result depends.
NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def grow_diag_final_and(forward: Iterable[Link], reverse: Iterable[Link]) -> list[Link]:
    """Links of one sentence pair from its two alignments, ascending; all are (source word, target word) from 0.

    Koehn, Axelrod, Birch Mayne, Callison-Burch, Osborne and Talbot, "Edinburgh System Description for the 2005
    IWSLT Speech Translation Evaluation", section 2: start with the intersection, add neighbours (diagonal ones
    too) of the union where one of both words has no link, and finally add the links of either direction where
    both words have none. Links are visited by target word, then by source word, as in symal.
    """
    one, other = set(forward), set(reverse)
    links = one & other
    sources = {source for source, _ in links}
    targets = {target for _, target in links}
    _grow(links, one | other, sources, targets)
    for direction in (one, other):
        for source, target in sorted(direction, key=_by_target):
            if source not in sources and target not in targets:
                links.add((source, target))
                sources.add(source)
                targets.add(target)
    return sorted(links)


def _by_target(link: Link) -> Link:
    source, target = link
    return target, source


def _grow(links: set[Link], union: set[Link], sources: set[int], targets: set[int]) -> None:
    """Add neighbours until a whole round adds none; a link added ahead is visited in the same round."""
    n_before = -1
    while len(links) > n_before:
        n_before = len(links)
        ahead = [_by_target(link) for link in links]
        heapq.heapify(ahead)
        while ahead:
            target, source = heapq.heappop(ahead)
            for step, jump in NEIGHBOURS:
                near = (source + step, target + jump)
                if near in links or near not in union:
                    continue
                if near[0] not in sources or near[1] not in targets:
                    links.add(near)
                    sources.add(near[0])
                    targets.add(near[1])
                    if _by_target(near) > (target, source):
                        heapq.heappush(ahead, _by_target(near))


def symmetrize(forward: StrPath, reverse: StrPath) -> Iterator[bytes]:
    """Lines of symmetrised links from two files of links, both SOURCE-TARGET.

    Raises:
        InputError: a link is malformed, or one file is shorter.
    """
    for number, (one, other) in enumerate(read_parallel(forward, reverse), start=1):
        yield format_links(
            grow_diag_final_and(
                parse_links(one, forward, number), parse_links(other, reverse, number)
            )
        )
