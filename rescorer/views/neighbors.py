"""The nearest words and the nearest phrases by a network's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import ConfigError, shown
from moses_bridge.base.progress import unless_full
from moses_bridge.base.textio import place_of
from moses_bridge.formats.words import as_text, readable, split_words
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.models.learned import Learned
from rescorer.tables.source_table import table_identity
from rescorer.views.phrase_vectors import (
    KeptVectors,
    Nearest,
    distinct_phrases,
    encoded_blocks,
    keep_vectors,
    kept_vectors,
    known_phrases,
    nearest,
    unit_rows,
    unknown_words,
)


@dataclass(frozen=True)
class Neighbors:
    """The nearest others of a word or phrase, the nearest first, with their cosines, from -1 to 1.

    They were chosen from n_candidates words or phrases.
    """

    query: bytes
    found: tuple[bytes, ...]
    cosines: tuple[float, ...]
    n_candidates: int

    @property
    def as_json(self) -> dict[str, Any]:
        """For a JSON file."""
        pairs = zip(self.found, self.cosines, strict=True)
        return {
            "asked": as_text(self.query),
            "n_candidates": self.n_candidates,
            "neighbors": [
                {"text": as_text(text), "cosine": round(cosine, 6)} for text, cosine in pairs
            ],
        }

    def __str__(self) -> str:
        pairs = zip(self.found, self.cosines, strict=True)
        lines = [f"  {cosine:6.3f}  {readable(text)}" for text, cosine in pairs]
        return "\n".join([f"{readable(self.query)} (among {self.n_candidates:,})", *lines])


def word_neighbors(
    learned: Learned, words: Sequence[bytes], side: Side, n_best: int
) -> list[Neighbors]:
    """The at most n_best nearest words of a side's shortlist, by the cosine of their embeddings.

    Raises:
        InputError: the network has no vectors of words of this side.
        ConfigError: a word is not in the shortlist.
    """
    known, vectors = learned.word_vectors(side)
    rows = {word: row for row, word in enumerate(known)}
    for word in words:
        if word not in rows:
            raise ConfigError(
                f"no {side} word {shown(word)} in the model's shortlist of {len(known):,}: "
                "the network sees it as <unk>"
            )
    queries = vectors[[rows[word] for word in words]]
    best = nearest(queries, [unit_rows(vectors)], n_best + 1)
    return _without_queries(words, best, known, n_best)


def phrase_neighbors(
    learned: Learned,
    phrases: Sequence[bytes],
    table: Path,
    side: Side,
    n_best: int,
    keep: Path | None = None,
    compute: Compute | None = None,
) -> list[Neighbors]:
    """The at most n_best nearest phrases of a table, by the cosine of their summaries.

    Candidates are the distinct phrases of a column with only words known to the network; the side
    is "target" for a network trained in the other direction. They are encoded block by block, and
    only one block and the best ones are in memory, besides the text of the phrases. The folder keep
    is for the encoded phrases, 4 bytes a unit, used again with the same model and table. The
    queries need not be in the table.

    Raises:
        InputError: the network makes no vector of a phrase, or the table is malformed.
        ConfigError: a phrase has no word, or one unknown to the network.
    """
    compute = compute or Compute()
    summaries = learned.summaries(compute)
    texts = [b" ".join(split_words(phrase)) for phrase in phrases]
    for phrase in texts:
        _check_known(phrase, learned)
    queries = summaries(texts)
    kept = None if keep is None else _kept(learned, table, side, keep, compute)
    if kept is not None:
        candidates, blocks = kept.phrases, kept.blocks()
    else:
        candidates = known_phrases(distinct_phrases(table, side), learned.reads, table)
        blocks = encoded_blocks(candidates, summaries)
    return _without_queries(texts, nearest(queries, blocks, n_best + 1), candidates, n_best)


def _check_known(phrase: bytes, learned: Learned) -> None:
    unknown = unknown_words(phrase, learned.reads)
    if not phrase or unknown:
        what = f"the words {', '.join(map(shown, unknown))}" if unknown else "no word"
        raise ConfigError(
            f"the phrase {shown(phrase)} has {what}, expected words of the model's shortlist"
        )


def _kept(
    learned: Learned, table: Path, side: Side, keep: Path, compute: Compute
) -> KeptVectors | None:
    identity = {
        "model": learned.fingerprint,
        "table": table_identity(place_of(table)),
        "side": side,
        "precision": compute.precision,
    }
    kept = kept_vectors(keep, identity)
    if kept is None:
        phrases = known_phrases(distinct_phrases(table, side), learned.reads, table)
        with unless_full(keep, "the vectors are not kept"):
            keep_vectors(keep, identity, phrases, learned.summaries(compute))
        kept = kept_vectors(keep, identity)
    return kept


def _without_queries(
    queries: Sequence[bytes], best: Sequence[Nearest], candidates: Sequence[bytes], n_best: int
) -> list[Neighbors]:
    """The neighbours by name; a query is not its own neighbour."""
    result = []
    for query, near in zip(queries, best, strict=True):
        others = [row for row, text in enumerate(near.rows) if candidates[text] != query][:n_best]
        texts = tuple(candidates[row] for row in near.rows[others])
        cosines = tuple(near.cosines[others].tolist())
        result.append(Neighbors(query, texts, cosines, len(candidates)))
    return result
