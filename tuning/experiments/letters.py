"""`tuning letters train`: a system whose words are letters, made of pairs of short texts."""

from __future__ import annotations

import random
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from moses_bridge.base.config import from_mapping, load_config, with_options
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.experiment import split_experiment
from moses_bridge.base.json_files import write_json
from moses_bridge.base.lock import held_file
from moses_bridge.base.steps import LOG_NAME, recorded_step
from moses_bridge.base.textio import open_directory, temporary_directory, write_lines
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini_edits import write_ini
from moses_bridge.formats.nbest import read_nbest
from tuning.experiments.improve import own_step
from tuning.experiments.improve_settings import LINKS_NAMES
from tuning.experiments.letters_settings import LettersSettings
from tuning.experiments.letters_system import (
    MODEL_FILES,
    NETWORK,
    NETWORK_FEATURE,
    PAIRS,
    SYSTEM,
    LettersSystem,
    served,
    with_files_in,
)
from tuning.experiments.letters_text import Pair, Unit, read_pairs, split_units, targets_by_source
from tuning.loop.fingerprints import ParallelText
from tuning.loop.run_directory import INI_NAME, TuningRun
from tuning.loop.settings import TuningConfig
from tuning.loop.tuning_loop import TunedSystem, Workers, tune

EXPERIMENT = Path(__file__).with_name("letters.toml")
SIDES = ("source", "target")
HELD_OUT_SHARE, MOST_HELD_OUT, LEAST_HELD_OUT = 0.1, 1000, 2
STEEPEST = 1000.0  # scale of totals with which the first hypothesis has all of the probability


def train(settings: LettersSettings) -> str:
    """Write a system of letters; the directory appears when it is complete. Return a line on its quality.

    Raises:
        InputError: a file of pairs is malformed, or too short to hold out a part.
        ConfigError: the directory has something in it, or a setting is unknown.
        UserError: a step failed, or another command writes the directory.
    """
    out = settings.out.absolute()
    with held_file(out):
        given = read_pairs(settings.pairs)
        with open_directory(out) as system, temporary_directory(out.name, out.parent) as work:
            result = _train(settings, given, system, work)
    return f"{settings.out}: {result}"


def _train(settings: LettersSettings, given: Sequence[Pair], system: Path, work: Path) -> str:
    """Fill the directory of a system; return the quality of its dev output, in words."""
    text, dev = _parts(settings, given)
    configs = split_experiment([EXPERIMENT, *filter(None, [settings.config])], work / "config")
    if unknown := {path.stem for path in configs} - {"build", "nnjm", "tune"}:
        raise ConfigError(f"{settings.config}: found {sorted(unknown)}, expected build, nnjm, tune")
    references = _write_texts(settings.units, text, dev, work)
    _run_steps(settings, system, work)
    run = _tuned(settings, system, work, len(max(references, key=len)))
    for name in MODEL_FILES.values():
        (work / "model" / name).replace(system / name)
    write_ini(with_files_in(Path(), work / "tuned" / INI_NAME), system / INI_NAME)
    write_lines(system / PAIRS, ["\t".join(pair).encode() for pair in given])
    totals, is_right = _dev_lists(work / "tuned" / f"iter{run.kept:02}.nbest.gz", references)
    decoder = replace(from_mapping(DecoderConfig, run.decoder, "decoder"), neural_lm=())
    weights = {name: run.weights[name] for name in (NETWORK_FEATURE,) if settings.nnjm}
    # Half a line more on each side: never 0 nor 1.
    accuracy = (sum(is_right) + 0.5) / (len(is_right) + 1)
    record = LettersSystem(settings.units, scale_of(totals, accuracy), weights, decoder)
    write_json(system / SYSTEM, asdict(record))
    caution = f"; warning: {run.caution}" if run.caution else ""
    return f"{100 * np.mean(is_right):.2f}% of {len(is_right):,} unseen dev sources right{caution}"


def _parts(settings: LettersSettings, pairs: Sequence[Pair]) -> tuple[Sequence[Pair], list[Pair]]:
    """The pairs to build the model of, and those to tune on, whose sources are not among the first."""
    sources = {source for source, _ in pairs}
    if settings.dev is not None:
        dev = [pair for pair in read_pairs(settings.dev) if pair[0] not in sources]
        if not dev:
            found = f"no source that is not in {settings.pairs}"
            raise InputError(settings.dev, None, found, "some: sources in both are looked up")
        return pairs, dev
    n_held_out = min(int(HELD_OUT_SHARE * len(sources)), MOST_HELD_OUT)
    if n_held_out < LEAST_HELD_OUT:
        least = round(LEAST_HELD_OUT / HELD_OUT_SHARE)
        found, expected = f"{len(sources)} different sources", f"{least} at least"
        raise InputError(settings.pairs, None, found, expected, "A tenth is held out to tune on")
    held_out = {*random.Random(settings.seed).sample(sorted(sources), n_held_out)}
    dev = [pair for pair in pairs if pair[0] in held_out]
    return [pair for pair in pairs if pair[0] not in held_out], dev


def _write_texts(
    units: tuple[Unit, Unit], text: Sequence[Pair], dev: Sequence[Pair], work: Path
) -> list[list[bytes]]:
    """Write training and dev texts as units; return the references of each dev source."""
    for suffix, unit, side in zip(SIDES, units, zip(*text, strict=True), strict=True):
        write_lines(work / f"train.{suffix}", [split_units(each, unit) for each in side])
    of_dev = targets_by_source(dev)
    write_lines(work / f"dev.{SIDES[0]}", [split_units(source, units[0]) for source in of_dev])
    references = [[split_units(each, units[1]) for each in found] for found in of_dev.values()]
    for number in range(max(map(len, references))):
        # A source with fewer targets has its last one again.
        lines = [each[min(number, len(each) - 1)] for each in references]
        write_lines(work / f"dev.{SIDES[1]}{number}", lines)
    return references


def _run_steps(settings: LettersSettings, system: Path, work: Path) -> None:
    """Build the model and train the network, each by its command."""
    source, target = (work / f"train.{side}" for side in SIDES)
    config, model = work / "config", work / "model"
    build: list[object] = ["moses-bridge", "build", "--corpus", work / "train", "--out", model]
    build += ["--source-language", SIDES[0], "--target-language", SIDES[1]]
    build += ["--config", config / "build.toml", "--jobs", settings.jobs]
    own_step(system, "build", [*map(str, build)])
    if settings.nnjm:
        network: list[object] = ["rescorer", "train", target, "--source", source, "--arch", "nnjm"]
        network += ["--links", model / LINKS_NAMES[0], "--config", config / "nnjm.toml"]
        network += ["--seed", settings.seed, "--out", system / NETWORK]
        own_step(system, "nnjm", [*map(str, network)])


def _tuned(settings: LettersSettings, system: Path, work: Path, n_references: int) -> TuningRun:
    """Tune weights on the dev text."""
    search = served(system) if settings.nnjm else None
    options = {"metric": settings.metric, "decoder.neural_lm": search}
    config = with_options(load_config(TuningConfig, work / "config" / "tune.toml"), options)
    references = [work / f"dev.{SIDES[1]}{number}" for number in range(n_references)]
    text = ParallelText(work / f"dev.{SIDES[0]}", references)
    tuned = TunedSystem(work / "model" / INI_NAME)
    with recorded_step(system / LOG_NAME, "tune", shlex.join(sys.argv)):
        return tune(tuned, text, work / "tuned", config, settings.seed, Workers(settings.jobs))


def _dev_lists(
    path: Path, references: Sequence[Sequence[bytes]]
) -> tuple[list[NDArray[np.float64]], list[bool]]:
    """The totals of each dev list, the highest first, and whether its first hypothesis is right."""
    totals, is_right = [], []
    for number, entries in groupby(read_nbest(path), lambda entry: entry.sentence_id):
        ranked = sorted(entries, key=lambda entry: -entry.total)
        totals.append(np.array([entry.total for entry in ranked]))
        is_right.append(ranked[0].words in references[number])
    return totals, is_right


def scale_of(totals: Sequence[NDArray[np.float64]], accuracy: float) -> float:
    """The factor of totals with which first hypotheses have a mean probability of `accuracy`.

    Args:
        totals: of each list, the highest first.
        accuracy: share of the lists whose first hypothesis is right, 0 to 1.

    Returns:
        From 0, with which all hypotheses are equally probable, to 1000.
    """

    def excess(scale: float) -> float:
        return (
            float(np.mean([1 / np.exp(scale * (row - row[0])).sum() for row in totals])) - accuracy
        )

    if excess(0.0) >= 0 or excess(STEEPEST) <= 0:
        return 0.0 if excess(0.0) >= 0 else STEEPEST
    return float(brentq(excess, 0.0, STEEPEST))
