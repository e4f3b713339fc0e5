"""The distinct phrases of one column of a phrase table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import print_note, track_blocks
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.phrase_table import read_blocks
from moses_bridge.formats.words import split_words
from rescorer.contract.choices import Side
from rescorer.contract.vocabulary import Vocabulary

ROWS_AT_ONCE = 50_000


def distinct_phrases(table: StrPath, side: Side) -> list[bytes]:
    """The distinct phrases of a column in the order of their bytes, words separated by one blank.

    In that order phrases with the same beginning are adjacent, as the encoder needs them. Empty
    targets are left out.

    Raises:
        InputError: a row is malformed, or there is no phrase.
    """
    found: set[bytes] = set()
    for block in track_blocks(read_blocks(table, ROWS_AT_ONCE), "read phrases", table):
        found.update(block.sources if side == "source" else block.targets)
    phrases = {b" ".join(split_words(phrase)) for phrase in found} - {b""}
    if not phrases:
        raise InputError(table, None, f"no {side} phrase", "rows with one")
    return sorted(phrases)


def known_phrases(phrases: Sequence[bytes], vocabulary: Vocabulary, table: StrPath) -> list[bytes]:
    """The phrases all of whose words are in a shortlist; prints their number on standard error.

    To a network all other words are one, so phrases with them would be equal where they are not.

    Raises:
        InputError: there is none: the table is of other languages, say.
    """
    known = [phrase for run in _runs(phrases) for phrase in _known(run, vocabulary)]
    if not known:
        raise InputError(
            table,
            None,
            "no phrase whose words the model knows",
            "phrases of the language that the model reads",
            "Name the other column with --side, or the table that the model was trained on",
        )
    print_note(f"{len(known):,} of {len(phrases):,} phrases have only words that the model knows")
    return known


def _known(phrases: Sequence[bytes], vocabulary: Vocabulary) -> list[bytes]:
    known = vocabulary.n_unknown(phrases) == 0
    return [phrases[row] for row in np.flatnonzero(known).tolist()]


def _runs(phrases: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for first in range(0, len(phrases), ROWS_AT_ONCE):
        yield phrases[first : first + ROWS_AT_ONCE]


def unknown_words(phrase: bytes, vocabulary: Vocabulary) -> list[bytes]:
    """The words of a phrase outside a shortlist."""
    words = split_words(phrase)
    ids = vocabulary.encode_words(words)
    return [
        word for word, number in zip(words, ids, strict=True) if number == vocabulary.unknown_id
    ]
