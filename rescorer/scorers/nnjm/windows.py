"""The windows of an NNJM: previous target words, then the source words around the affiliated one.

Numbers of input words: the target shortlist, <s> of the target, the source shortlist, <s> of the source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.alignment import parse_links
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.nnjm.affiliation import PairLinks, affiliations
from rescorer.scorers.nnjm.network import NnjmConfig
from rescorer.windows.ngrams import places_of_runs, sentence_ngrams, starts_of_runs
from rescorer.windows.scoring import FilledWindows

# Places of words have nine digits at most: more would not fit the numbers of compiled code.
WELL_FORMED = re.compile(rb"\s*(\d{1,9}-\d{1,9}(\s+\d{1,9}-\d{1,9})*\s*)?")
OTHER_TEXT = "Are these the links of this text?"


def n_input_words(shortlists: Shortlists) -> int:
    """How many numbers of input words there are."""
    source, target = shortlists
    return len(target) + 1 + len(source or ()) + 1


def fill_windows(batch: Batch, shortlists: Shortlists, config: NnjmConfig) -> FilledWindows:
    """The windows of all target words of some pairs, </s> included.

    Args:
        batch: with word links.
        shortlists: of both sides.
        config: sizes of the window.

    Raises:
        UnscorablePair: a link is malformed or leaves its pair.
    """
    source, target = shortlists
    if source is None or batch.links is None:
        raise ValueError("an NNJM needs a source shortlist and word links")
    around, source_lens = place_windows(batch.sources, shortlists, config)
    target_ids, target_lens = target.encode_text(batch.targets)
    history, pairs = sentence_ngrams(
        target_ids, target_lens, config.history_words, len(target), target.end_id
    )
    try:
        links = read_links(batch.links)
    except InputError as error:
        row = (error.line or 1) - 1
        raise UnscorablePair(row, batch, None, error.found, error.expected, OTHER_TEXT) from error
    _check_inside(links, source_lens, target_lens, batch)
    places = starts_of_runs(source_lens + 1)[pairs] + affiliations(links, source_lens, target_lens)
    rows = np.concatenate([history[:, :-1], around[places], history[:, -1:]], axis=1)
    return FilledWindows(np.ascontiguousarray(rows, np.int32), pairs)


def place_windows(
    sources: Sequence[bytes], shortlists: Shortlists, config: NnjmConfig
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The words around each place of some sources; the places are their words and, behind them, their ends.

    Args:
        sources: words separated by blanks.
        shortlists: of both sides.
        config: sizes of the window.

    Returns:
        Numbers of input words, *Shape:* (n_places, source_words), and the words in each source,
        *Shape:* (n_sources,).
    """
    source, target = shortlists
    assert source is not None
    ids, lens = source.encode_text(sources)
    windows = _source_windows(ids, lens, len(source), config.source_words)
    return windows + np.int32(len(target) + 1), lens


def _source_windows(
    ids: NDArray[np.int32], lens: NDArray[np.int64], start_id: int, width: int
) -> NDArray[np.int32]:
    """The words around each source word and around each </s>, *Shape:* (n_words + n_sentences, width).

    <s> fills the places before the first word, </s> those behind the last one.
    """
    reach = width // 2
    padded = lens + 2 * reach + 1
    firsts = starts_of_runs(padded)
    text = np.full(int(padded.sum()) + width, Vocabulary.end_id, np.int32)
    text[places_of_runs(firsts, np.full_like(lens, reach))] = start_id
    text[places_of_runs(firsts + reach, lens)] = ids
    windows = np.lib.stride_tricks.sliding_window_view(text, width)
    return windows[places_of_runs(firsts, lens + 1)]


def read_links(lines: Sequence[bytes], path: StrPath = "links") -> PairLinks:
    """The word links of some pairs.

    Raises:
        InputError: a link is malformed; it names the line among these.
    """
    for number, line in enumerate(lines, start=1):
        if not WELL_FORMED.fullmatch(line):
            parse_links(line, path, number)
    counts = np.fromiter((line.count(b"-") for line in lines), np.int64, len(lines))
    numbers = b" ".join(lines).replace(b"-", b" ").split()
    flat = np.fromiter(map(int, numbers), np.int64, len(numbers)).reshape(-1, 2)
    return PairLinks(np.repeat(np.arange(len(lines)), counts), flat[:, 0], flat[:, 1])


def _check_inside(
    links: PairLinks,
    source_lens: NDArray[np.int64],
    target_lens: NDArray[np.int64],
    batch: Batch,
) -> None:
    """Refuse links that leave their pair."""
    outside = (links.sources >= source_lens[links.pairs]) | (
        links.targets >= target_lens[links.pairs]
    )
    if not outside.any():
        return
    first = int(np.flatnonzero(outside)[0])
    pair = int(links.pairs[first])
    raise UnscorablePair(
        pair,
        batch,
        None,
        f"the link {links.sources[first]}-{links.targets[first]}",
        f"links within {source_lens[pair]} source and {target_lens[pair]} target words",
        OTHER_TEXT,
    )
