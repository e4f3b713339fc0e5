"""A system of letters: its files, its targets of new sources, and how often they are right."""

from __future__ import annotations

import math
import shlex
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from moses_bridge.base.json_files import read_record
from moses_bridge.base.textio import temporary_directory, write_lines
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import MosesIni, read_ini
from moses_bridge.formats.moses_ini_edits import with_path, write_ini
from moses_bridge.formats.nbest import read_nbest
from tuning.experiments.letters_text import (
    Unit,
    joined_units,
    read_pairs,
    split_units,
    targets_by_source,
)
from tuning.loop.run_directory import INI_NAME, Weights
from tuning.metrics.edit_rates import WORD_ACCURACY, WordAccuracyReferences
from tuning.metrics.metric import Counts

# In the directory of a system, besides moses.ini and its files.
SYSTEM, PAIRS, NETWORK = "letters.json", "pairs.tsv.gz", "nnjm"
NETWORK_FEATURE = "NNJM0"
MODEL_FILES = {"TranslationModel0": "phrase-table.gz", "LM0": "lm.arpa.gz"}
LIST_SIZE = 100  # of the lists in which probabilities sum to 1


@dataclass(frozen=True)
class LettersSystem:
    """The contents of letters.json.

    Attributes:
        units: units of source and target.
        scale: factor of a hypothesis's total, of which exp is proportional to its probability in the list.
        weights: weights by feature, beside those of moses.ini.
        decoder: settings of the search.
    """

    units: tuple[Unit, Unit]
    scale: float
    weights: Weights
    decoder: DecoderConfig


def read_system(directory: Path) -> LettersSystem:
    """Read the letters.json of a directory.

    Raises:
        InputError: it is missing or something else.
    """
    return read_record(LettersSystem, directory / SYSTEM, "a system of `tuning letters train`")


class Prediction(NamedTuple):
    """A target with its probability: a share in the training pairs, or among 100 hypotheses."""

    target: str
    prob: float


def served(system: Path) -> str:
    """The NNJM of a system as a feature of the search."""
    program = Path(sysconfig.get_path("scripts"), "rescorer")
    return f"{NETWORK_FEATURE}={shlex.join(map(str, [program, 'serve', system / NETWORK]))}"


def with_files_in(directory: Path, ini: Path) -> MosesIni:
    """The moses.ini of a system with its files in a directory: Moses looks in the working one first."""
    changed = read_ini(ini)
    for feature, name in MODEL_FILES.items():
        changed = with_path(changed, feature, directory / name)
    return changed


def predict(
    system: Path, sources: Sequence[str], jobs: int = 1, lookup: bool = True
) -> dict[str, list[Prediction]]:
    """Targets of each different source, the most probable first.

    Args:
        system: directory of `train`.
        sources: short texts; an empty one has an empty target.
        jobs: processes of the decoder.
        lookup: whether a source of the training pairs has its targets there, with their shares.

    Raises:
        InputError: the directory is no system of letters, or a file in it is malformed.
    """
    record = read_system(system)
    found = {"": [Prediction("", 1.0)]}
    seen = targets_by_source(read_pairs(system / PAIRS)) if lookup else {}
    for source in seen.keys() & sources:
        counts = seen[source]
        ranked = counts.most_common()
        found[source] = [Prediction(target, n / counts.total()) for target, n in ranked]
    new = [source for source in dict.fromkeys(sources) if source not in found]
    return found | dict(zip(new, _searched(system, record, new, jobs), strict=True))


def _searched(
    system: Path, record: LettersSystem, sources: Sequence[str], jobs: int
) -> Iterator[list[Prediction]]:
    """Targets of each source by the decoder."""
    if not sources:
        return
    neural = (served(system),) if record.weights else ()
    config = replace(record.decoder, neural_lm=neural)
    with temporary_directory("letters") as folder:
        ini, text, out, nbest = (folder / name for name in (INI_NAME, "letters", "out", "nbest"))
        write_ini(with_files_in(system.absolute(), system / INI_NAME), ini)
        write_lines(text, [split_units(source, record.units[0]) for source in sources])
        with open_decoder(ini, config, jobs) as decoder:
            decoder.decode(text, out, record.weights, nbest, LIST_SIZE)
        for _, entries in groupby(read_nbest(nbest), lambda entry: entry.sentence_id):
            ranked = sorted(entries, key=lambda entry: -entry.total)
            totals = record.scale * np.array([entry.total for entry in ranked])
            probs = np.exp(totals - totals[0])
            texts = (joined_units(entry.words, record.units[1]) for entry in ranked)
            yield [*map(Prediction, texts, (probs / probs.sum()).tolist())]


@dataclass(frozen=True)
class LettersScores:
    """How good the targets of some lines are.

    Attributes:
        name: which lines: all, or those whose source is in the training pairs, or is not.
        n_lines: their number.
        accuracy: percentage of lines that are right as a whole.
        error_rate: edits for 100 units of the right targets.
    """

    name: str
    n_lines: int
    accuracy: float
    error_rate: float

    @classmethod
    def of(cls, name: str, statistics: Counts) -> LettersScores:
        """The scores of lines with these edits and units, *Shape:* (n_lines, 2); NaN without lines."""
        n_lines = len(statistics)
        accuracy = 100 * float((statistics[:, 0] == 0).mean()) if n_lines else math.nan
        rate = 100 - float(WORD_ACCURACY.value(statistics.sum(axis=0))) if n_lines else math.nan
        return cls(name, n_lines, accuracy, rate)


def evaluate(
    system: Path, test: Path, jobs: int = 1, lookup: bool = True, dictionary: bool = False
) -> dict[str, list[LettersScores]]:
    """Scores of a system, and of a look-up alone, which copies sources that are not in the training pairs.

    Args:
        system: directory of `train`.
        test: lines `source <tab> target`.
        jobs: processes of the decoder.
        lookup: whether the system looks up seen sources; see `predict`.
        dictionary: count a source once, and any of its targets as right, instead of each line with its own.

    Returns:
        For "system" and "look-up" three rows: all, seen, unseen.

    Raises:
        InputError: the directory is no system of letters, or a file is malformed.
    """
    unit, pairs = read_system(system).units[1], read_pairs(test)
    several = targets_by_source(pairs)
    lines = [*several.items()] if dictionary else [(source, [target]) for source, target in pairs]
    sources = [source for source, _ in lines]
    training = targets_by_source(read_pairs(system / PAIRS))
    is_seen = np.array([source in training for source in sources])
    references = WordAccuracyReferences(
        [[split_units(target, unit) for target in targets] for _, targets in lines]
    )
    predictions = predict(system, sources, jobs, lookup)
    chosen = {
        "system": [predictions[source][0].target for source in sources],
        "look-up": [max(t, key=t.__getitem__) if (t := training.get(s)) else s for s in sources],
    }
    scores = {}
    for name, targets in chosen.items():
        edits = references.statistics(enumerate(split_units(each, unit) for each in targets))
        rows = {"all": edits, "seen": edits[is_seen], "unseen": edits[~is_seen]}
        scores[name] = [LettersScores.of(which, row) for which, row in rows.items()]
    return scores


def score_lines(scores: Mapping[str, Sequence[LettersScores]]) -> Iterator[str]:
    """Scores of several systems side by side, as text."""
    yield f"{'':8}{'lines':>9}" + "".join(f"{f'{name}: right':>18}{'edits':>9}" for name in scores)
    for rows in zip(*scores.values(), strict=True):
        numbers = (f"{row.accuracy:>17.2f}%{row.error_rate:>8.2f}%" for row in rows)
        found = "".join(numbers) if rows[0].n_lines else ""
        yield f"{rows[0].name:8}{rows[0].n_lines:>9,}{found}"
