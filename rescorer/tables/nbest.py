"""Adding one or two named features to an n-best list: a value, and the value per word.

Moses's tuning takes a label with "_" for a sparse feature (mert/Data.cpp:227) and does not check
numbers for nan. So a name has only letters and digits, and a value is a plain finite decimal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from moses_bridge.base.blocks import map_in_order
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import LineProgress, print_note
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import open_write, read_lines
from moses_bridge.formats.nbest import (
    NBestEntry,
    check_feature_name,
    parse_entry,
    parse_features,
    with_feature,
)
from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.scorer import Scorer

SOME_LINKS = (
    "an NNJM reads the source words at the same relative places for the former, "
    "those of the nearest linked words for the latter"
)
LINKS = re.compile(rb"(\d+-\d+( \d+-\d+)*)?")
# Enough for whole batches of the network, few enough for each processor to have blocks of its own.
ENTRIES_AT_ONCE = 2_000


class _Key(NamedTuple):
    """The key of a hypothesis; hypotheses with equal keys have equal values."""

    sentence_id: int
    words: bytes
    links: bytes


@dataclass(frozen=True)
class _Hypothesis:
    line: bytes
    line_number: int
    key: _Key


def add_feature(
    nbest: str,
    source: Path,
    scorer: Scorer,
    feature: str,
    out: str,
    jobs: int = 1,
    per_word_feature: str = "",
    per_word: bool = False,
) -> int:
    """Append `NAME= value` to each entry's features, and return the number of entries.

    Every other byte stays. The value is the scorer's for the entry's words, given the source
    sentence of its id; a probabilistic model's is the natural log-probability, </s> included.
    Totals do not change, since the feature has no weight yet. Ids need not be contiguous.

    The arguments are those of `rescorer.rescore_nbest`; with per_word the value of the one feature
    is divided by the number of words + 1.

    Raises:
        ConfigError: a name is not letters and digits, both are the same, or the output is an input.
        InputError: an entry is malformed, has the feature already, has no source sentence, lacks
            word links needed by the scorer, or cannot be scored.
    """
    features = [feature, *filter(None, [per_word_feature])]
    by_words = (True,) if per_word else (False, True)
    _check_names(features)
    refuse_overwriting([out], [nbest, source])
    sentences, named = list(read_text_lines(source)), list(zip(features, by_words, strict=False))
    n_entries, counts = 0, Counter[str]()
    with open_write(out) as stream, LineProgress(feature, nbest, "hypotheses") as progress:
        links = counts if scorer.needs_links else None
        blocks = _blocks(nbest, source, len(sentences), features, links)
        for lines in map_in_order(
            lambda block: _with_scores(block, sentences, scorer, named, nbest), blocks, jobs
        ):
            stream.writelines(line + b"\n" for line in lines)
            n_entries += len(lines)
            progress.update(len(lines))
    if counts["unlinked"] or counts["unlinked words"]:
        print_note(
            f"note: {feature}: {counts['unlinked']} of {n_entries} hypotheses have no word links, and "
            f"{counts['unlinked words']} of the {counts['words']} words of the others: {SOME_LINKS}"
        )
    return n_entries


def _blocks(
    nbest: str,
    source: Path,
    n_sentences: int,
    features: Sequence[str],
    counts: Counter[str] | None,
) -> Iterator[list[_Hypothesis]]:
    """Blocks of whole sentences, large enough for efficient batches; links are read with counts alone."""
    block: list[_Hypothesis] = []
    for line_number, line in enumerate(read_lines(nbest), start=1):
        entry = parse_entry(line, nbest, line_number)
        _check(entry, nbest, source, n_sentences, features)
        full = len(block) >= ENTRIES_AT_ONCE
        if full and entry.sentence_id != block[-1].key.sentence_id:
            yield block
            block = []
        links = b""
        if counts is not None:
            links = _links(entry, nbest)
            counts.update(_unlinked(entry.words, links))
        key = _Key(entry.sentence_id, entry.words, links)
        block.append(_Hypothesis(line, line_number, key))
    if block:
        yield block


def _links(entry: NBestEntry, nbest: str) -> bytes:
    """The word links of an entry, the last of its fields."""
    links = entry.rest[-1].strip() if entry.rest else None
    if links is None or not LINKS.fullmatch(links):
        expected = "links such as 0-0 1-2 in the last field"
        hint = "Decode with --print-alignment-info-in-n-best"
        raise InputError(nbest, entry.line_number, "no word links", expected, hint)
    return links


def _unlinked(words: bytes, links: bytes) -> dict[str, int]:
    """Counts of an entry without links, or of the words and those without links of one with some."""
    n_words = len(split_words(words))
    if not links:
        return {"unlinked": int(n_words > 0)}
    linked = {link.rpartition(b"-")[2] for link in links.split()}
    return {"words": n_words, "unlinked words": n_words - len(linked)}


def _check_names(features: Sequence[str]) -> None:
    for name in features:
        check_feature_name(name)
    if len(set(features)) < len(features):
        raise ConfigError(f"two features of the name {features[0]}; give the second another name")


def _check(
    entry: NBestEntry, nbest: str, source: Path, n_sentences: int, features: Sequence[str]
) -> None:
    if entry.sentence_id >= n_sentences:
        found = f"the sentence id {entry.sentence_id}"
        expected = f"an id below {n_sentences}, the number of lines of {source}"
        hint = "Is this the text that was translated?"
        raise InputError(nbest, entry.line_number, found, expected, hint)
    given = parse_features(entry, nbest)
    for feature in (name for name in features if name in given):
        found = f"the feature {feature}"
        raise InputError(nbest, entry.line_number, found, "a list without it", "Use another name")


def _with_scores(
    block: Sequence[_Hypothesis],
    sentences: Sequence[bytes],
    scorer: Scorer,
    features: Sequence[tuple[str, bool]],
    nbest: str,
) -> list[bytes]:
    """The lines with the features, each the value, or the value per word."""
    lines = []
    for hypothesis, value in zip(block, _values(block, sentences, scorer, nbest), strict=True):
        line, n_words = hypothesis.line, len(split_words(hypothesis.key.words)) + 1
        for name, is_per_word in features:
            line = with_feature(line, name, value / n_words if is_per_word else value)
        lines.append(line)
    return lines


def _values(
    block: Sequence[_Hypothesis], sentences: Sequence[bytes], scorer: Scorer, nbest: str
) -> list[float]:
    """The value of each hypothesis; one repeated in a sentence is computed once."""
    different, which = distinct([hypothesis.key for hypothesis in block])
    batch = Batch(
        [sentences[key.sentence_id] for key in different],
        [key.words for key in different],
        [key.links for key in different] if scorer.needs_links else None,
    )
    try:
        values = scorer.values(batch)
    except UnscorablePair as error:
        line = _line_of(different[error.row], block)
        raise InputError(nbest, line, error.found, error.expected, error.hint) from error
    strange = np.flatnonzero(~np.isfinite(values))
    if len(strange):
        row = int(strange[0])
        hint = "train the model again, with a lower learning_rate"
        line = _line_of(different[row], block)
        raise InputError(nbest, line, f"the score {values[row]}", "a finite score", hint)
    found: list[float] = values[which].tolist()
    return found


def _line_of(key: _Key, block: Sequence[_Hypothesis]) -> int:
    """The first line of a block with that key."""
    return next(each.line_number for each in block if each.key == key)
