"""The targets preferred or drawn by a network for source phrases, as text or JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import Progress, track_blocks
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import open_write
from moses_bridge.formats.phrase_table import read_blocks
from moses_bridge.formats.words import split_words
from rescorer.contract.choices import OutputFormat
from rescorer.contract.target_generation import Generated, GenerationConfig, TargetGenerator
from rescorer.models.model_directory import targets_of_lines

BLOCK_ROWS = 1000
IN_TABLE = {True: b"in table", False: b"not in table"}


# The targets of each source phrase in a table.
Known = Mapping[bytes, AbstractSet[bytes]]


def generate_phrases(
    generator: TargetGenerator,
    phrases: str,
    config: GenerationConfig,
    out: str,
    form: OutputFormat = "text",
    table: Path | None = None,
) -> int:
    """Write the targets of each line of a text, a source phrase, and return their number.

    A generator without a source continues the lines instead. The form is a line a target, or a line
    with a JSON object a phrase; with a table each target is marked by whether it is there.

    Raises:
        InputError: the table is malformed.
        ConfigError: a table is given for a model without a source, or the output is an input.
    """
    refuse_overwriting([out], [phrases] if table is None else [phrases, table])
    lines = [b" ".join(split_words(line)) for line in read_text_lines(phrases)]
    if table is not None and generator.shortlists.source is None:
        raise ConfigError("a model that sees no source has no pairs to look up: leave --table out")
    known = None if table is None else table_targets(table, frozenset(lines))
    written = _as_json if form == "json" else _as_text
    n_targets = 0
    with open_write(out) as stream, Progress("generate", len(lines), "phrases") as progress:
        generated = targets_of_lines(generator, lines, config)
        for source, targets in zip(lines, generated, strict=True):
            stream.write(written(source, targets, known))
            n_targets += len(targets)
            progress.update()
    return n_targets


def table_targets(table: Path, sources: AbstractSet[bytes]) -> dict[bytes, set[bytes]]:
    """A phrase table's targets of some sources, words separated by one blank.

    Raises:
        InputError: the table is malformed.
    """
    found = defaultdict[bytes, set[bytes]](set)
    for block in track_blocks(read_blocks(table, BLOCK_ROWS), f"read {table.name}", table):
        for source, target in zip(block.sources, block.targets, strict=True):
            if source in sources:
                found[source].add(b" ".join(split_words(target)))
    return found


def _as_text(source: bytes, targets: Sequence[Generated], known: Known | None) -> bytes:
    """Lines `source ||| target ||| log p ||| score`, and whether the target is in the table."""
    lines = []
    for target in targets:
        numbers = f"{target.log_prob:.6f} ||| {target.score:.6f}".encode()
        columns = [source, b" ".join(target.words), numbers]
        if known is not None:
            columns.append(IN_TABLE[columns[1] in known.get(source, ())])
        lines.append(b" ||| ".join(columns) + b"\n")
    return b"".join(lines)


def _as_json(source: bytes, targets: Sequence[Generated], known: Known | None) -> bytes:
    """One line; bytes outside UTF-8 become replacement characters, since JSON has no others."""
    found = []
    for target in targets:
        words = b" ".join(target.words)
        fields: dict[str, Any] = {
            "target": words.decode("utf-8", "replace"),
            "log_prob": round(target.log_prob, 6),
            "score": round(target.score, 6),
        }
        if known is not None:
            fields["in_table"] = words in known.get(source, ())
        found.append(fields)
    content = {"source": source.decode("utf-8", "replace"), "targets": found}
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"
