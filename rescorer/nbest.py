"""An n-best list with one more named feature.

Moses's tuning reads a label that holds "_" as a sparse feature (mert/Data.cpp:227), and its numbers
without care for nan, so a name has letters and digits only and a value is a plain finite decimal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from moses_bridge.errors import InputError
from moses_bridge.formats.nbest import (
    BAR,
    NBestEntry,
    check_feature_name,
    parse_entry,
    parse_features,
)
from moses_bridge.line_progress import LineProgress
from moses_bridge.textio import open_write, read_lines
from rescorer.contract import Batch, Scorer
from rescorer.parallel import map_in_order

LINKS = re.compile(rb"(\d+-\d+( \d+-\d+)*)?")
FEATURES_FIELD = 2
# Enough for whole batches of the network, few enough for each processor to have blocks of its own.
ENTRIES_AT_ONCE = 2_000


@dataclass(frozen=True)
class _Hypothesis:
    line: bytes
    entry: NBestEntry
    links: bytes


class _Key(NamedTuple):
    """What a hypothesis is scored by."""

    sentence_id: int
    words: bytes
    links: bytes


def add_feature(
    nbest: str, source: Path, scorer: Scorer, feature: str, out: str, jobs: int = 1
) -> int:
    """Append `NAME= value` to the features of each entry; every other byte stays.

    The value is that of the entry's words given the source sentence of its id: the natural
    log-probability, </s> included, where the scorer knows one. Totals are not changed, since the
    feature has no weight yet.

    Args:
        nbest: n-best list in Moses's format; ids need not be contiguous.
        source: the source sentences, id 0 first.
        scorer: scores pairs of sentences.
        feature: the name.
        out: n-best list to write, compressed by suffix.
        jobs: blocks that are scored at a time, each on one processor.

    Returns:
        How many entries were written.

    Raises:
        ConfigError: the name is not letters and digits.
        InputError: an entry is malformed, has the feature already, or an id has no source sentence.
    """
    check_feature_name(feature)
    sentences = list(read_lines(source))
    n_entries = 0
    with open_write(out) as stream, LineProgress(feature, nbest, "hypotheses") as progress:
        blocks = _blocks(nbest, source, len(sentences), feature, scorer.needs_links)
        for lines in map_in_order(
            lambda block: _with_scores(block, sentences, scorer, feature), blocks, jobs
        ):
            stream.writelines(line + b"\n" for line in lines)
            n_entries += len(lines)
            progress.update(len(lines))
    return n_entries


def with_feature(line: bytes, feature: str, value: float) -> bytes:
    """The line of an n-best list with one more feature behind those it has.

    Args:
        line: without its "\\n".
        feature: letters and digits.
        value: natural log-probability.

    Raises:
        ValueError: the value is not finite.
    """
    if not math.isfinite(value):
        raise ValueError(f"a feature of an n-best list must be finite, not {value}")
    fields = line.split(BAR)
    body = fields[FEATURES_FIELD].rstrip(b" ")
    blanks = fields[FEATURES_FIELD][len(body) :]
    fields[FEATURES_FIELD] = body + f" {feature}= {value:.6f}".encode() + blanks
    return BAR.join(fields)


def _blocks(
    nbest: str, source: Path, n_sentences: int, feature: str, needs_links: bool
) -> Iterator[list[_Hypothesis]]:
    """Runs of whole sentences, large enough to be a good batch."""
    block: list[_Hypothesis] = []
    for line_number, line in enumerate(read_lines(nbest), start=1):
        entry = parse_entry(line, nbest, line_number)
        _check(entry, nbest, source, n_sentences, feature)
        full = len(block) >= ENTRIES_AT_ONCE
        if full and entry.sentence_id != block[-1].entry.sentence_id:
            yield block
            block = []
        links = _links(entry, nbest) if needs_links else b""
        block.append(_Hypothesis(line, entry, links))
    if block:
        yield block


def _links(entry: NBestEntry, nbest: str) -> bytes:
    """The word links of an entry, the last of its fields."""
    links = entry.rest[-1].strip() if entry.rest else None
    if links is None or not LINKS.fullmatch(links):
        raise InputError(
            nbest,
            entry.line_number,
            "no word links",
            "links such as 0-0 1-2 in the last field",
            "Decode with --print-alignment-info-in-n-best",
        )
    return links


def _check(entry: NBestEntry, nbest: str, source: Path, n_sentences: int, feature: str) -> None:
    if entry.sentence_id >= n_sentences:
        raise InputError(
            nbest,
            entry.line_number,
            f"the sentence id {entry.sentence_id}",
            f"an id below {n_sentences}, the number of lines of {source}",
            "Is this the text that was translated?",
        )
    if feature in parse_features(entry, nbest):
        raise InputError(
            nbest,
            entry.line_number,
            f"the feature {feature}",
            "a list without it",
            "Use another name",
        )


def _with_scores(
    block: Sequence[_Hypothesis], sentences: Sequence[bytes], scorer: Scorer, feature: str
) -> list[bytes]:
    return [
        with_feature(hypothesis.line, feature, value)
        for hypothesis, value in zip(block, _values(block, sentences, scorer), strict=True)
    ]


def _values(
    block: Sequence[_Hypothesis], sentences: Sequence[bytes], scorer: Scorer
) -> list[float]:
    """The value of each hypothesis; equal ones of a sentence are computed once."""
    keys = [
        _Key(hypothesis.entry.sentence_id, hypothesis.entry.words, hypothesis.links)
        for hypothesis in block
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    asked = Batch(
        [sentences[key.sentence_id] for key in numbers],
        [key.words for key in numbers],
        [key.links for key in numbers] if scorer.needs_links else None,
    )
    values = scorer.values(asked)
    return [float(values[numbers[key]]) for key in keys]
