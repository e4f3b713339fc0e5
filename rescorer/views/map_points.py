"""The content of a map: words or phrases with their vectors, lengths and frequencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import track_blocks
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.phrase_table import (
    Block,
    alignment_column,
    direct_prob,
    has_counts,
    inverse_prob,
    read_blocks,
    source_count,
    target_count,
)
from moses_bridge.formats.words import split_words
from rescorer.contract.choices import MapKind, Side
from rescorer.contract.compute import Compute
from rescorer.models.learned import Learned
from rescorer.views.phrase_vectors import (
    ROWS_AT_ONCE,
    distinct_phrases,
    encoded_blocks,
    known_phrases,
)


@dataclass(frozen=True)
class MapPoints:
    """Words or phrases to be laid out.

    Attributes:
        kind: which of both.
        texts: the words or phrases.
        vectors: the network's, *Shape:* (n, d).
        lengths: words of each.
        frequencies: of a word the number of distinct phrases with it; of a phrase how often it was
            extracted, None if the table has no counts.
        counterparts: of a phrase its best translation, b"" of a word.
        linked: the words of that translation linked to a word of the phrase, in their order.
    """

    kind: MapKind
    texts: list[bytes]
    vectors: NDArray[np.float32]
    lengths: list[int]
    frequencies: list[float] | None
    counterparts: list[bytes]
    linked: list[list[bytes]]

    def __len__(self) -> int:
        return len(self.texts)


def word_points(learned: Learned, table: Path, side: Side, n_words: int) -> MapPoints:
    """The at most n_words words of a side's shortlist found in most phrases of a table.

    Raises:
        InputError: the network has no vectors of words of this side, or the table is malformed.
    """
    known, vectors = learned.word_vectors(side)
    n_phrases = Counter(
        word for phrase in distinct_phrases(table, side) for word in set(split_words(phrase))
    )
    ranked = sorted(range(len(known)), key=lambda row: -n_phrases[known[row]])
    chosen = [row for row in ranked[:n_words] if n_phrases[known[row]]]
    texts = [known[row] for row in chosen]
    return MapPoints(
        "words",
        texts,
        vectors[chosen],
        [1] * len(texts),
        [float(n_phrases[word]) for word in texts],
        [b""] * len(texts),
        [[] for _ in texts],
    )


def phrase_points(
    learned: Learned, table: Path, side: Side, n_phrases: int, seed: int, compute: Compute
) -> MapPoints:
    """Phrases of a table drawn at random, as in Cho et al. (2014), section 4.4 and figure 5.

    At most n_phrases distinct phrases of a column are drawn, those with only words known to the
    network. The table is read twice.

    Raises:
        InputError: the network makes no vector of a phrase, or the table is malformed.
    """
    summaries = learned.summaries(compute)
    known = known_phrases(distinct_phrases(table, side), learned.reads, table)
    drawn = np.random.default_rng(seed).permutation(len(known))[:n_phrases]
    texts = [known[row] for row in np.sort(drawn)]
    best = _best_translations(texts, table, side)
    counts = [best[text].count for text in texts]
    return MapPoints(
        "phrases",
        texts,
        np.concatenate(list(encoded_blocks(texts, summaries))),
        [len(split_words(text)) for text in texts],
        None if None in counts else [count or 0.0 for count in counts],
        [best[text].words for text in texts],
        [best[text].linked for text in texts],
    )


@dataclass(frozen=True)
class _Translation:
    """The best translation of a phrase so far, its linked words, and how often the phrase was extracted."""

    prob: float
    words: bytes
    linked: list[bytes]
    count: float | None


def _best_translations(
    phrases: Sequence[bytes], table: Path, side: Side
) -> dict[bytes, _Translation]:
    """The translation of highest probability of each phrase; of equal ones the first in the table."""
    best: dict[bytes, _Translation] = {}
    wanted = set(phrases)
    for block in track_blocks(read_blocks(table, ROWS_AT_ONCE), "read translations", table):
        for phrase, found in _translations(block, wanted, table, side):
            if phrase not in best or found.prob > best[phrase].prob:
                best[phrase] = found
    return best


def _translations(
    block: Block, wanted: set[bytes], table: Path, side: Side
) -> Iterator[tuple[bytes, _Translation]]:
    """The rows of wanted phrases."""
    columns = (block.sources, block.targets)
    own, other = columns if side == "source" else columns[::-1]
    prob_of = direct_prob if side == "source" else inverse_prob
    count_of = source_count if side == "source" else target_count
    for row, line in enumerate(block.lines):
        phrase = b" ".join(split_words(own[row]))
        if phrase not in wanted:
            continue
        place = (line, table, block.first_line + row)
        linked = _linked_words(other[row], alignment_column(line), side, table, place[2])
        count = count_of(*place) if has_counts(line) else None
        yield phrase, _Translation(prob_of(*place), other[row], linked, count)


def _linked_words(
    words: bytes, links: bytes, side: Side, table: Path, line_number: int
) -> list[bytes]:
    """The words of the other side touched by a link, in their order."""
    split, place = split_words(words), 1 if side == "source" else 0
    touched = sorted({link[place] for link in parse_links(links, table, line_number)})
    if touched and touched[-1] >= len(split):
        found = f"a link to word {touched[-1]} of {len(split)}"
        raise InputError(table, line_number, found, "links inside the pair")
    return [split[number] for number in touched]
