"""`rescorer lines`: values of models for each line of a text, or of two that are parallel.

A value is the natural logarithm that an n-best list gets from the same model. One line is written for each line
read, with a column for each model; with tokens, a cell has the value and then TOKEN=value for each token.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from moses_bridge.base.blocks import blocks_of, map_in_order
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.overwriting import STANDARD_STREAM, refuse_overwriting
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.text_lines import read_parallel, say
from moses_bridge.base.textio import StrPath, place_of
from moses_bridge.formats.words import as_text, split_words
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import NamedScorer, ScoredTokens, Scorer
from rescorer.models.reading import predicts_tokens, token_values
from rescorer.tables.line_settings import LineSettings, LineTexts
from rescorer.tables.pair_values import scored_pairs, within
from rescorer.tables.partial_file import compress, open_blocks
from rescorer.tables.source_table import table_identity

LINES_AT_ONCE = 2_000
Numbered = tuple[int, Batch]  # the first line of a block, from 1, and its pairs
Value = float | None
Tokens = Iterable[tuple[bytes, float]]


class LineModel(NamedTuple):
    """The model of a column: its name, its scorer, and whether its values depend on a source."""

    name: str
    named: NamedScorer
    reads_source: bool


def score_lines(
    texts: LineTexts,
    out: StrPath,
    models: Sequence[LineModel],
    settings: LineSettings,
    resume: bool = False,
    jobs: int = 1,
) -> int:
    """Write the values of models for each line; arguments, result and errors are of `rescorer.score_lines`."""
    paths = [path for path in texts if path is not None]
    names = _checked_names(texts, models, settings)
    refuse_overwriting([out], paths)
    content = {
        "texts": [table_identity(place_of(path)) for path in paths],
        "models": [*zip(names, (model.named.fingerprint for model in models), strict=True)],
        "settings": asdict(replace(settings, skip_bad=0)),
    }
    with open_blocks(place_of(out), content, resume, paths) as sink:
        if settings.format == "tsv" and not sink.progress["headers"]:
            sink.append(compress(os.fsencode("\t".join(names)) + b"\n", Path(out)), {"headers": 1})
        blocks = _blocks(texts, sink.progress["lines"])
        score = partial(_scored, texts, models, names, settings)
        with LineProgress("lines", paths[0], "lines", sink.progress["lines"]) as progress:
            scored = map_in_order(score, blocks, jobs)
            for lines in within(settings.skip_bad, scored, sink.progress):
                data = b"".join(line + b"\n" for line in lines)
                sink.append(compress(data, Path(out)), {"lines": len(lines)})
                progress.update(len(lines))
        sink.publish()
    n_lines = sink.progress["lines"]
    if n_bad := sink.progress["bad"]:
        say(f"note: {os.fspath(out)}: {n_bad:,} of {n_lines:,} lines have no value")
    return n_lines


def _checked_names(
    texts: LineTexts, models: Sequence[LineModel], settings: LineSettings
) -> list[str]:
    """The names of the columns; what does not fit together is refused."""
    if [str(path) for path in texts].count(STANDARD_STREAM) > 1:
        raise ConfigError("standard input is one text: name files for the others")
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ConfigError(f"a model comes twice: {', '.join(names)}")
    for name, model in zip(names, models, strict=True):
        if texts.target is None and model.reads_source:
            raise ConfigError(f"{name} scores pairs: name a target text, too")
        if texts.links is None and model.named.scorer.needs_links:
            told = "name their file with --links, a pair a line, like 0-0 1-2"
            raise ConfigError(f"{name} needs word links: {told}")
        if (settings.tokens or not settings.end) and not predicts_tokens(model.named.scorer):
            raise ConfigError(
                f"{name} gives values of whole pairs: leave --tokens and --no-end out"
            )
    notes = ("" if settings.end else " no-end") + (" per-word" if settings.per_word else "")
    return [name + notes for name in names]


def _blocks(texts: LineTexts, n_done: int) -> Iterator[Numbered]:
    rows = read_parallel(*(path for path in texts if path is not None))
    for place, block in enumerate(blocks_of(islice(rows, n_done, None), LINES_AT_ONCE)):
        columns = [list(column) for column in zip(*block, strict=True)]
        links = None if texts.links is None else columns.pop()
        if texts.target is None:
            columns.insert(0, [b""] * len(block))
        yield n_done + 1 + place * LINES_AT_ONCE, Batch(columns[0], columns[1], links)


def _scored(
    texts: LineTexts,
    models: Sequence[LineModel],
    names: Sequence[str],
    settings: LineSettings,
    block: Numbered,
) -> tuple[list[bytes], list[InputError]]:
    first, batch = block
    bad, columns = dict[int, InputError](), []
    for model in models:
        score = partial(_tokens, model.named.scorer, settings)
        scored, faults = scored_pairs(score, batch, lambda found: float(found.log_probs.sum()))
        columns.append(scored)
        for row, error in faults.items():
            sides = {"source": texts.source, "target": texts.target, None: texts.links}
            path = sides[error.side] or texts.target or texts.source
            hint = f"{error.hint}; with --skip-bad N lines may be left without a value"
            bad.setdefault(row, InputError(path, first + row, error.found, error.expected, hint))
    form = _json_line if settings.format == "jsonl" else _cells
    lines = []
    for target, found in zip(batch.targets, zip(*columns, strict=True), strict=True):
        n_words = max(1, len(split_words(target)) + settings.end) if settings.per_word else 1
        values = [None if each is None else each.log_probs.sum() / n_words for each in found]
        tokens = [zip(*each, strict=True) if each and settings.tokens else () for each in found]
        lines.append(form(names, values, tokens))
    return lines, [error for _, error in sorted(bad.items())]


def _tokens(scorer: Scorer, settings: LineSettings, batch: Batch) -> list[ScoredTokens]:
    """The tokens that add up to the value of each pair; the value itself if they are not asked for."""
    given = batch if scorer.needs_links else Batch(batch.sources, batch.targets)
    if settings.end and not settings.tokens:
        return [ScoredTokens([], value) for value in scorer.values(given)[:, None]]
    return token_values(scorer, given, settings.end)


def _cells(names: Sequence[str], values: Sequence[Value], tokens: Sequence[Tokens]) -> bytes:
    """The values separated by tabs, each with its tokens behind it."""
    cells = [[] if value is None else [b"%.6f" % value] for value in values]
    for cell, own in zip(cells, tokens, strict=True):
        cell += [b"%b=%.6f" % pair for pair in own]
    return b"\t".join(map(b" ".join, cells))


def _json_line(names: Sequence[str], values: Sequence[Value], tokens: Sequence[Tokens]) -> bytes:
    """An object: the value by the name of its model, and by "NAME tokens" pairs of a token and its value."""
    line: dict[str, object] = {}
    for name, value, own in zip(names, values, tokens, strict=True):
        line[name] = None if value is None else round(value, 6)
        if pairs := [[as_text(token), round(log_prob, 6)] for token, log_prob in own]:
            line[f"{name} tokens"] = pairs
    return json.dumps(line, ensure_ascii=False).encode()
