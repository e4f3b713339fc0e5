"""Features of n-best lists computed outside the decoder, and reranking the lists with them.

They are added by commands, or by scorer processes that are kept running.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.json_files import read_json, write_json
from moses_bridge.base.programs import run_program
from moses_bridge.base.progress import LineProgress, track_lines
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.textio import (
    StrPath,
    count_lines,
    open_write,
    read_lines,
    temporary_directory,
    write_lines,
)
from moses_bridge.decoding.interface import Decoder
from moses_bridge.decoding.text_values import TextValues
from moses_bridge.formats.nbest import (
    BAR,
    NBestEntry,
    check_feature_name,
    parse_entry,
    parse_features,
    read_nbest,
    with_feature,
)
from moses_bridge.formats.ngram_scorer import ScorerProcesses

Weights = Mapping[str, Sequence[float]]

# Hypotheses per call of a scorer: few, compared with those whose n-grams are remembered.
HYPOTHESES_AT_ONCE = 1_000


class ListFeatures(AbstractContextManager["ListFeatures", None]):
    """Adds features to n-best lists, in their order, inside a `with` block.

    Scorer processes start with the first list. They and their values are kept until the end of the block.
    """

    def __init__(self, features: Sequence[NBestFeature]) -> None:
        self.features = features
        self._processes = ScorerProcesses()
        self._values: dict[str, TextValues] = {}

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        self._processes.end()

    def add(self, nbest: Path, source: Path, out: Path) -> None:
        """Write a list with the features added, compressed by suffix; without any, it is moved to `out`.

        Raises:
            ToolError: a command failed.
            InputError: a command wrote no n-best list, or one with other sentence ids or lines.
            ConfigError: a command did not add its feature.
            UserError: a scorer fails, or sees the source.
        """
        with temporary_directory("features", out.parent) as directory:
            current = nbest
            for number, feature in enumerate(self.features):
                following = directory / f"{number}.nbest.gz"
                if feature.is_scorer:
                    self._ask(feature, current, following)
                else:
                    _run(feature, current, source, following)
                current = following
            current.replace(out)

    def _ask(self, feature: NBestFeature, nbest: Path, out: Path) -> None:
        if feature.name not in self._values:
            process = self._processes.of(tuple(shlex.split(feature.command)))
            self._values[feature.name] = TextValues(process)
        values = self._values[feature.name]
        with open_write(out) as stream, LineProgress(feature.name, nbest, "hypotheses") as progress:
            for lines in blocks_of(enumerate(read_lines(nbest), start=1), HYPOTHESES_AT_ONCE):
                texts = [parse_entry(line, nbest, number).words for number, line in lines]
                for (_, line), value in zip(lines, values(texts).tolist(), strict=True):
                    stream.write(with_feature(line, feature.name, value) + b"\n")
                progress.update(len(lines))


def _run(feature: NBestFeature, nbest: Path, source: Path, out: Path) -> None:
    run_program(feature.words(str(nbest), str(source), str(out)))
    first = next(read_nbest(out), None)
    if first is not None and feature.name not in parse_features(first, out):
        raise ConfigError(
            f"the command of {feature.name} wrote a list without {feature.name}=: {feature.command}"
        )
    _check_same_entries(feature, nbest, out)


def _check_same_entries(feature: NBestFeature, nbest: Path, out: Path) -> None:
    """Refuse a list with entries missing, added or in another order: sentences would become empty."""
    what = f"the list written by the command of {feature.name}"
    for number, (old, new) in enumerate(zip_longest(read_lines(nbest), read_lines(out)), start=1):
        if new is None or old is None:
            found, expected = ("the end", "a line") if new is None else ("a line", "the end")
            hint = f"The command of {feature.name} must write one line for each line it reads"
            raise InputError(what, number, found, f"{expected}, as in the list it read", hint)
        expected_id, found_id = old.partition(BAR)[0].strip(), new.partition(BAR)[0].strip()
        if found_id != expected_id:
            hint = f"The command of {feature.name} must keep the order of the lines"
            found = f"the sentence id {shown(found_id)}"
            raise InputError(what, number, found, shown(expected_id), hint)


PLACEHOLDERS = ("{nbest}", "{source}", "{out}")
NEEDED = ("{nbest}", "{out}")


@dataclass(frozen=True)
class NBestFeature:
    """A feature of n-best lists.

    Attributes:
        name: name in the list, without "="; see `check_feature_name`.
        command: command for adding the feature to a list, with {nbest}, {source} and {out} in the place of
            paths. A command without any of them is a process scoring n-grams
            (`moses_bridge.formats.ngram_scorer`).
        initial_weight: weight at the start of tuning.
        stand_in: a feature of the decoder replacing this one during search, with the sum of both weights.
            Without one ("") the search lacks this feature's weight, so its lists differ from those of the
            tuned system.

    Raises:
        ConfigError: the name or the command is malformed.
    """

    name: str
    command: str
    initial_weight: float = 0.0
    stand_in: str = ""

    def __post_init__(self) -> None:
        check_feature_name(self.name)
        for placeholder in () if self.is_scorer else NEEDED:
            if placeholder not in self.command:
                raise ConfigError(
                    f"the command of {self.name} has no {placeholder}: {self.command}"
                )
        try:
            self.words("", "", "")
        except (LookupError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"the command of {self.name}: found {self.command!r} ({error}), expected closed quotes "
                "and {nbest}, {source}, {out} in braces; double any other braces"
            ) from error

    @property
    def is_scorer(self) -> bool:
        """Whether the command is a process scoring n-grams, instead of a command writing a list."""
        return not any(placeholder in self.command for placeholder in PLACEHOLDERS)

    def words(self, nbest: str, source: str, out: str) -> list[str]:
        """The command and its arguments for these paths."""
        places = {"nbest": nbest, "source": source, "out": out}
        return [word.format(**places) for word in shlex.split(self.command)]

    @classmethod
    def parse(cls, text: str) -> NBestFeature:
        """Parse NAME=COMMAND or NAME:STAND_IN=COMMAND; ConfigError if a part is missing or malformed."""
        names, equals, command = text.partition("=")
        name, colon, stand_in = names.partition(":")
        if not equals or bool(colon) != bool(stand_in):
            raise ConfigError(f"found {text!r}, expected NAME=COMMAND or NAME:STAND_IN=COMMAND")
        return cls(name, command, stand_in=stand_in)


def feature_of_model(text: str, skip_bad: int = 0) -> NBestFeature:
    """The feature of a model directory, NAME=DIRECTORY, whose values `rescorer nbest` computes.

    Up to skip_bad hypotheses of a list that cannot be scored have the least value of their sentence.

    Raises:
        ConfigError: the name or the directory is missing, or the name is malformed.
    """
    name, _, directory = text.partition("=")
    if not (name and directory):
        raise ConfigError(f"found {text!r}, expected NAME=DIRECTORY")
    model = shlex.quote(directory).replace("{", "{{").replace("}", "}}")
    command = f"rescorer nbest {{nbest}} --source {{source}} --model {model} --feature {name}"
    command += f" --skip-bad {skip_bad}" if skip_bad else ""
    return NBestFeature(name, f"{command} --out {{out}}")


def search_weights(
    weights: Mapping[str, Sequence[float]], features: Sequence[NBestFeature]
) -> dict[str, list[float]]:
    """Weights for a decoder without the features: a stand-in has the sum of both weights.

    ConfigError if a stand-in is not a feature of the decoder with one value.
    """
    added = {feature.name for feature in features}
    known = {name: [*values] for name, values in weights.items() if name not in added}
    for feature in features:
        if feature.stand_in:
            if len(known.get(feature.stand_in, ())) != 1:
                raise ConfigError(
                    f"{feature.name}: the stand-in {feature.stand_in} is no feature of one value; "
                    f"there are {', '.join(known)}"
                )
            known[feature.stand_in][0] += weights[feature.name][0]
    return known


def choose_best(
    nbest: StrPath, weights: Mapping[str, Sequence[float]], source: StrPath, out: StrPath
) -> None:
    """Write the best hypothesis of each source line; an empty line where the list has none.

    A feature without a weight is ignored; the source is read for its number of lines.
    """
    (chosen,) = best_of_each(nbest, [weights], count_lines(source))
    write_lines(out, chosen)


def best_of_each(
    nbest: StrPath, rows: Sequence[Mapping[str, Sequence[float]]], n_sentences: int
) -> list[list[bytes]]:
    """The words of the best hypothesis of each sentence, for several weights; empty where there is none.

    A feature without a weight is ignored, so {} takes the first hypotheses.
    """
    found = best_entries(read_nbest(nbest), nbest, rows)
    return [
        [best[number].words if number in best else b"" for number in range(n_sentences)]
        for best in found
    ]


def best_entries(
    entries: Iterable[NBestEntry], path: StrPath, rows: Sequence[Mapping[str, Sequence[float]]]
) -> list[dict[int, NBestEntry]]:
    """`best_of_each` as entries by sentence, their scores as totals; the path is for errors."""
    best: list[dict[int, NBestEntry]] = [{} for _ in rows]
    for entry in track_lines(entries, "rerank", path, "hypotheses"):
        features = parse_features(entry, path)
        for weights, found in zip(rows, best, strict=True):
            score = weighted_sum(features, weights)
            if entry.sentence_id not in found or score > found[entry.sentence_id].total:
                found[entry.sentence_id] = replace(entry, total=score)
    return best


def weighted_sum(features: Mapping[str, Sequence[float]], weights: Weights) -> float:
    """The score of a hypothesis; a feature without a weight is ignored."""
    return sum(
        weight * value
        for name, values in features.items()
        for weight, value in zip(weights.get(name, ()), values, strict=False)
    )


def decode_text(
    decoder: Decoder,
    source: Path,
    output: Path,
    nbest: Path | None,
    weights: Weights,
    lists: ListFeatures,
    nbest_size: int,
    fixed_search: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Decode a text; with n-best features or a fixed search the output is chosen from the n-best list.

    `nbest` keeps the list, with its added features. Weights unknown to the decoder are used only for choosing
    from the list or, with a stand-in, during search too; `fixed_search` has those of the search where they
    differ. A record of weights and digests beside the output tells `is_decoded` what was made.
    """
    known = fixed_search or search_weights(weights, lists.features)
    if not lists.features and not fixed_search:
        decoder.decode(source, output, known, nbest, nbest_size)
    else:
        with temporary_directory("nbest", output.parent) as directory:
            plain, full = directory / "plain.gz", directory / "full.gz"
            first = directory / "first"  # not `output`: that is chosen from the list
            decoder.decode(source, first, known, plain, nbest_size)
            lists.add(plain, source, full)
            choose_best(full, weights, source, output)
            if nbest is not None:
                full.replace(nbest)
    write_record(weights, output, nbest)


def write_record(weights: Weights, output: Path, nbest: Path | None = None) -> None:
    """Record weights and digests beside an output, for `is_decoded`."""
    write_json(record_path(output), _record(weights, output, nbest))


def is_decoded(weights: Weights, output: Path, nbest: Path | None = None) -> bool:
    """Whether output and list are what `decode_text` made of these weights."""
    record = record_path(output)
    return record.exists() and read_json(record) == _record(weights, output, nbest)


def record_path(output: Path) -> Path:
    """The record of a decoding."""
    return output.with_suffix(".decoded.json")


def _record(weights: Weights, *files: Path | None) -> dict[str, Any]:
    digests = {path.name: file_digest(path) if path.is_file() else "" for path in files if path}
    return {"weights": weights, "files": digests}
