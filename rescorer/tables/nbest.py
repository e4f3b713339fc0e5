"""Adding one or two named features to an n-best list: a value, and the value per word.

Moses's tuning takes a label with "_" for a sparse feature (mert/Data.cpp:227) and does not check
numbers for nan. So a name has only letters and digits, and a value is a plain finite decimal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from moses_bridge.base.blocks import map_in_order
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.text_lines import read_text_lines, say
from moses_bridge.base.textio import place_of
from moses_bridge.formats.nbest import NBestEntry, check_feature_name, parse_features
from moses_bridge.formats.nbest_lists import read_list, with_features
from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.scorer import Scorer
from rescorer.tables.line_settings import ListSettings
from rescorer.tables.pair_values import scored_pairs, within
from rescorer.tables.partial_file import compress, open_blocks
from rescorer.tables.source_table import table_identity

SOME_LINKS = (
    "an NNJM reads the source words at the same relative places for the former, "
    "those of the nearest linked words for the latter"
)
LINKS = re.compile(rb"(\d+-\d+( \d+-\d+)*)?")
# Enough for whole batches of the network, few enough for each processor to have blocks of its own.
ENTRIES_AT_ONCE = 2_000
OF_MOSES = ListSettings()


class _Key(NamedTuple):
    """The key of a hypothesis; hypotheses with equal keys have equal values."""

    sentence_id: int
    words: bytes
    links: bytes


def add_feature(
    nbest: str,
    source: Path,
    scorer: Scorer,
    feature: str,
    out: str,
    jobs: int = 1,
    per_word_feature: str = "",
    per_word: bool = False,
    settings: ListSettings = OF_MOSES,
    fingerprint: str = "",
    resume: bool = False,
) -> int:
    """Add a feature to each entry, in the format of the list, and return the number of entries.

    Every other byte stays. The value is the scorer's for the entry's words, given the source
    sentence of its id; a probabilistic model's is the natural log-probability, </s> included.
    Totals do not change, since the feature has no weight yet. Ids need not be contiguous.

    The arguments are those of `rescorer.rescore_nbest`; with per_word the value of the one feature
    is divided by the number of words + 1. The fingerprint of the scorer guards `resume`.

    Raises:
        ConfigError: a name is not letters and digits, both are the same, or the output is an input.
        InputError: an entry is malformed, has the feature already, has no source sentence, lacks
            word links needed by the scorer, or cannot be scored.
    """
    named = [(feature, per_word), *([(per_word_feature, True)] if per_word_feature else [])]
    for name, _ in named:
        check_feature_name(name)
    if per_word_feature == feature:
        raise ConfigError(f"two features of the name {feature}; give the second another name")
    refuse_overwriting([out], [nbest, source])
    sentences, form = list(read_text_lines(source)), settings.list_format
    files = [table_identity(place_of(path)) for path in (nbest, source)]
    given = asdict(replace(settings, skip_bad=0))
    content = {"files": files, "settings": given, "features": named, "scorer": fingerprint}
    counts = Counter[str]()
    with open_blocks(place_of(out), content, resume, [nbest]) as sink:
        n_done, links = sink.progress["items"], counts if scorer.needs_links else None
        entries = islice(read_list(nbest, form, settings.list_size), n_done, None)
        names = [name for name, _ in named]
        blocks = _blocks(entries, nbest, source, len(sentences), names, links)
        fills = settings.bad_hypotheses == "least"
        score = partial(_with_scores, sentences, scorer, named, nbest, fills)
        scored = map_in_order(score, blocks, jobs)
        with LineProgress(feature, nbest, "hypotheses", n_done) as progress:
            for block in within(settings.skip_bad, scored, sink.progress):
                lines = with_features(form, block, nbest)
                data = b"".join(line + b"\n" for line in lines)
                sink.append(compress(data, Path(out)), {"items": len(block)})
                progress.update(len(block))
        sink.publish()
    n_entries = sink.progress["items"]
    if n_bad := sink.progress["bad"]:
        become = "have" if fills else "are left out, or, where their sentence has no others, have"
        told = f"{n_bad:,} of {n_entries:,} hypotheses {become} the least value of their sentence"
        say(f"note: {feature}: {told}")
    if counts["unlinked"] or counts["unlinked words"]:
        say(
            f"note: {feature}: {counts['unlinked']} of {n_entries - n_done} hypotheses have no word links, and "
            f"{counts['unlinked words']} of the {counts['words']} words of the others: {SOME_LINKS}"
        )
    return n_entries


def _blocks(
    entries: Iterable[NBestEntry],
    nbest: str,
    source: Path,
    n_sentences: int,
    features: Sequence[str],
    counts: Counter[str] | None,
) -> Iterator[list[tuple[NBestEntry, _Key]]]:
    """Blocks of whole sentences, large enough for efficient batches; links are read with counts alone."""
    block: list[tuple[NBestEntry, _Key]] = []
    for entry in entries:
        _check(entry, nbest, source, n_sentences, features)
        full = len(block) >= ENTRIES_AT_ONCE
        if full and entry.sentence_id != block[-1][0].sentence_id:
            yield block
            block = []
        links = b""
        if counts is not None:
            links = _links(entry, nbest)
            counts.update(_unlinked(entry.words, links))
        block.append((entry, _Key(entry.sentence_id, entry.words, links)))
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
    sentences: Sequence[bytes],
    scorer: Scorer,
    features: Sequence[tuple[str, bool]],
    nbest: str,
    fills: bool,
    block: Sequence[tuple[NBestEntry, _Key]],
) -> tuple[list[tuple[NBestEntry, dict[str, float] | None]], list[InputError]]:
    """The entries with their features, each the value, or the value per word; errors of those without one.

    A hypothesis repeated in a sentence is computed once. Instead of missing features there are the least ones
    of its sentence, or None if it does not fill them; of a sentence without any, the least ones of the block.
    """
    different, which = distinct([key for _, key in block])
    batch = Batch(
        [sentences[key.sentence_id] for key in different],
        [key.words for key in different],
        [key.links for key in different] if scorer.needs_links else None,
    )
    values, faults = scored_pairs(lambda part: scorer.values(part).tolist(), batch, float)
    rows = list[list[float] | None]()
    least = dict[int, list[float]]()
    for key, value in zip(different, values, strict=True):
        n_words = len(split_words(key.words)) + 1
        row = None if value is None else [value / n_words if by else value for _, by in features]
        if row is not None:
            least[key.sentence_id] = [*map(min, row, least.get(key.sentence_id, row))]
        rows.append(row)
    least_of_all = [*map(min, zip(*least.values(), strict=True))] or [0.0] * len(features)
    lines, bad = list[tuple[NBestEntry, dict[str, float] | None]](), []
    for (entry, key), number in zip(block, which.tolist(), strict=True):
        if (row := rows[number]) is None:
            error = faults[number]
            place = (nbest, entry.line_number)
            hint = f"{error.hint}; with --skip-bad N hypotheses may lack a value of their own"
            bad.append(InputError(*place, error.found, error.expected, hint))
            if not fills and key.sentence_id in least:
                lines.append((entry, None))
                continue
            row = least.get(key.sentence_id, least_of_all)
        lines.append((entry, {name: each for (name, _), each in zip(features, row, strict=True)}))
    return lines, bad
