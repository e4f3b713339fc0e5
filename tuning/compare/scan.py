"""One weight of a system against another one, over full decodings: the gain of a feature, and its cost.

A tuning ending with a weight of 0 does not show why. Here the weight takes the values of a grid, all others
stay, and the text is decoded with each. A shorter output has higher n-gram precisions, so each value is
measured twice: as decoded, and with the word penalty changed until the output is as long as without the
feature, which takes a few more decodings.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, check_limits, from_mapping
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import Decoder, DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from tuning.compare.significance import jackknife_error
from tuning.loop.fingerprints import (
    ParallelText,
    check_unchanged,
    fingerprint_commands,
    fingerprint_ini,
    refuse_commands,
)
from tuning.loop.ini_weights import start_weights, weights_by_column
from tuning.loop.list_features import ListFeatures, NBestFeature, decode_text, is_decoded
from tuning.loop.run_directory import Weights, claim, load_run, refuse_written
from tuning.metrics.bleu import References, bleu, length_ratio, mean_precision

OUTPUTS_NAME = "decodings"
ROUNDING = 1e-9  # of a length that was interpolated


@dataclass(frozen=True)
class ScanConfig:
    """Settings of `scan`.

    Attributes:
        grid: values of the weight. 0, to which the others are compared, is always added.
        against: column whose weight restores the length, like "WordPenalty0" or "TranslationModel0_2".
        step: first change of that weight, as a share of its size (of 1 where it is 0).
        length_tolerance: largest difference at which lengths count as equal, in output words for one
            reference word.
        max_adaptations: largest number of decodings, for each value of the grid, to find the length.
        neural_weight: weight of each neural model in the search without a weight in --weights.
        run_commands: whether to run the commands of n-best features and neural models named in the file of
            a run.
        decoder: settings of the decoder when an ini is scanned; a run has its own.
    """

    grid: tuple[float, ...] = (-0.01, 0.005, 0.01, 0.02, 0.04)
    against: str = "WordPenalty0"
    step: Annotated[float, AtLeast(0.001)] = 0.1
    length_tolerance: Annotated[float, AtLeast(0)] = 0.001
    max_adaptations: Annotated[int, AtLeast(0)] = 3
    neural_weight: float = 0.0
    run_commands: bool = False
    decoder: DecoderConfig = field(default_factory=DecoderConfig)

    def __post_init__(self) -> None:
        check_limits(self)
        if not all(map(math.isfinite, self.grid)):
            raise ConfigError(f"grid: found {self.grid}, expected finite numbers")


@dataclass(frozen=True)
class Measures:
    """The scores of an output.

    Attributes:
        against: the other weight used in decoding; the interpolated one for an output at equal length.
        precision: geometric mean of the 1- to 4-gram precisions, 0 to 100: BLEU without brevity penalty.
        length_ratio: output words for one reference word.
        delta: its BLEU minus that of weight 0.
        error: standard error of delta over texts (jackknife).
    """

    against: float
    bleu: float
    precision: float
    length_ratio: float
    delta: float
    error: float


@dataclass(frozen=True)
class ScanPoint:
    """One value of the weight.

    Attributes:
        plain: the output with all other weights unchanged.
        equal: the output at the length of weight 0.
        has_length: whether that length was reached; if not, `equal` is the output nearest to it.
    """

    weight: float
    plain: Measures
    equal: Measures
    has_length: bool


@dataclass(frozen=True)
class Scan:
    """A scan.

    Attributes:
        feature: the column whose weight takes other values.
        against: the column whose weight compensates for the length.
        own_weight: the weight of the feature in the system; all points replace it.
        points: in the order of their weights, 0 among them.
        without: outputs at weight 0 with other values of `against`: the effect of that weight alone.
    """

    system: str
    feature: str
    against: str
    own_weight: float
    n_sentences: int
    points: list[ScanPoint]
    without: list[Measures]


def scan(
    system: Path,
    feature: str,
    text: ParallelText,
    out: Path,
    config: ScanConfig,
    jobs: int = 1,
    resume: bool = False,
    init_weights: Path | None = None,
) -> Scan:
    """Decode a text with several values of one weight, and at equal length.

    The system is a moses.ini, with the weights of `init_weights` instead of its own (weights missing there are
    0), or the directory of a tuning run, with its weights, search and features. The feature is a column, as
    "TranslationModel0_4", "CSLM0" or "LM0". Decodings in `out` are not made again; with `resume` the scan there
    continues, with the same or another grid.

    Raises:
        InputError: an input file is malformed.
        ConfigError: there is no such column, out holds another scan, settings do not fit together, or the scan
            would overwrite what it reads.
        UserError: another command writes into out.
    """
    refuse_overwriting([out], [system])
    scanned = _system(system, config, init_weights)
    ini = read_ini(scanned.ini)
    read = [*text.files, *([] if init_weights is None else [init_weights])]
    refuse_written(out, [*read, *ini.files()])
    names = scanned.column(feature), scanned.column(config.against)
    if names[0] == names[1]:
        raise ConfigError(f"the weight of {feature} cannot be scanned against itself")
    reference = References.read(text.references, text.source)
    if len(reference) < 2:
        raise ConfigError(f"{text.source}: one sentence; a scan needs two or more")
    texts = text.hashes()
    own = scanned.columns()
    with ExitStack() as stack:
        stack.enter_context(held_directory(out))
        claim(out, scanned.fingerprint() | {"text": texts, "columns": names}, resume)
        decoder = stack.enter_context(open_decoder(scanned.ini, scanned.decoder, jobs))
        lists = stack.enter_context(ListFeatures(scanned.nbest_features))
        folder = out / OUTPUTS_NAME
        outputs = _Outputs(scanned, decoder, lists, text.source, reference, folder, names)
        points, without = _points(outputs, round(own[names[1]], DIGITS), config)
    return Scan(str(system), *names, own[names[0]], len(reference), points, without)


def _system(path: Path, config: ScanConfig, init_weights: Path | None) -> ScannedSystem:
    if not path.is_dir():
        return system_of_ini(path, config.decoder, config.neural_weight, init_weights)
    if init_weights is not None:
        raise ConfigError(f"{path} is a run and has its weights; --weights goes with an ini")
    if config.decoder != DecoderConfig():
        raise ConfigError(f"{path} is a run and has its search; decoder settings go with an ini")
    return system_of_run(path, config.run_commands)


@dataclass(frozen=True)
class _Outputs:
    system: ScannedSystem
    decoder: Decoder
    lists: ListFeatures
    source: Path
    references: References
    folder: Path
    names: tuple[str, str]

    def decoding(self, weight: float, against: float) -> Decoding:
        output = self.folder / f"{weight:+.{DIGITS}f}{against:+.{DIGITS}f}.out"
        weights, size = self._weights(weight, against), self.system.nbest_size
        if not is_decoded(weights, output):
            self.folder.mkdir(exist_ok=True)
            decode_text(self.decoder, self.source, output, None, weights, self.lists, size)
        statistics = self.references.output_statistics(output)
        return Decoding(against, statistics.astype(np.float64))

    def _weights(self, weight: float, against: float) -> Weights:
        weights = {name: list(values) for name, values in self.system.weights.items()}
        for column, value in zip(self.names, (weight, against), strict=True):
            feature, _, number = column.rpartition("_")
            weights[feature][int(number)] = value
        return weights


def _points(
    outputs: _Outputs, against: float, config: ScanConfig
) -> tuple[list[ScanPoint], list[Measures]]:
    base = outputs.decoding(0.0, against)
    step = round(config.step * (abs(against) or 1.0), DIGITS)
    moved = [outputs.decoding(0.0, round(against + sign * step, DIGITS)) for sign in (-1, 1)]
    slope = (moved[1].length - moved[0].length) / (2 * step)
    points = []
    for weight in sorted({0.0, *(round(weight, DIGITS) for weight in config.grid)}):
        points.append(_point(outputs, weight, base, slope, config))
        _report(outputs.names[0], points[-1])
    return points, [_measures(each, base) for each in moved]


def _point(
    outputs: _Outputs, weight: float, base: Decoding, slope: float, config: ScanConfig
) -> ScanPoint:
    tried = [outputs.decoding(weight, base.against)]
    following = next_weights(tried, base.length, slope, config.length_tolerance)
    for against in islice(following, config.max_adaptations):
        tried.append(outputs.decoding(weight, against))
    found = at_length(tried, base.length)
    has_length = abs(found.length - base.length) <= max(config.length_tolerance, ROUNDING)
    plain, equal = _measures(tried[0], base), _measures(found, base)
    return ScanPoint(weight, plain, equal, has_length)


def _measures(decoding: Decoding, base: Decoding) -> Measures:
    sums = decoding.statistics.sum(axis=0)
    score = float(bleu(sums))
    return Measures(
        against=decoding.against,
        bleu=score,
        precision=float(mean_precision(sums)),
        length_ratio=decoding.length,
        delta=score - float(bleu(base.statistics.sum(axis=0))),
        error=jackknife_error(base.statistics, decoding.statistics),
    )


def _report(feature: str, point: ScanPoint) -> None:
    plain, equal = point.plain, point.equal
    print(
        f"scan: {feature} {point.weight:g}: BLEU {plain.bleu:.2f}, length {plain.length_ratio:.3f}; "
        f"at equal length {equal.bleu:.2f} ({equal.delta:+.2f})",
        file=sys.stderr,
        flush=True,
    )


# A slope between two near decodings is mostly chance: one unlike the first in size is not followed.
SLOPE_RANGE = (0.25, 4.0)
DIGITS = 6  # of the weights decoded with


@dataclass(frozen=True)
class Decoding:
    """One decoding of the text.

    Attributes:
        against: the weight compensating for the length.
        statistics: BLEU statistics of each sentence, whole numbers or not, *Shape:* (n_sentences, 9).
    """

    against: float
    statistics: NDArray[np.float64]

    @property
    def length(self) -> float:
        """Output words for one reference word."""
        return length_ratio(self.statistics.sum(axis=0))


def next_weights(
    tried: Sequence[Decoding], length: float, slope: float, tolerance: float
) -> Iterator[float]:
    """Values of the weight that come nearer and nearer to a length, by the secant method.

    To `tried`, at least one decoding, the caller adds the one made with each value. The slope, length by
    weight, is for the first step. The search ends when the last length is within the tolerance, or a value
    repeats.
    """
    while abs(tried[-1].length - length) > tolerance and slope:
        last = tried[-1]
        local = slope
        if len(tried) > 1:
            before = tried[-2]
            local = (last.length - before.length) / (last.against - before.against)
        if SLOPE_RANGE[0] <= local / slope <= SLOPE_RANGE[1]:
            slope = local
        following = round(last.against + (length - last.length) / slope, DIGITS)
        if any(following == each.against for each in tried):
            return
        yield following


def at_length(tried: Sequence[Decoding], length: float) -> Decoding:
    """The output of a length, interpolated between the two nearest to it on either side.

    Statistics of BLEU are counts; between two decodings they are assumed to change in proportion to the
    length. Where all decodings are on one side, the nearest one is returned.
    """
    nearest = sorted(tried, key=lambda each: abs(each.length - length))
    first = nearest[0]
    side = first.length - length
    beyond = [each for each in nearest if (each.length - length) * side < 0]
    if not beyond:
        return first
    share = side / (first.length - beyond[0].length)
    return Decoding(
        (1 - share) * first.against + share * beyond[0].against,
        (1 - share) * first.statistics + share * beyond[0].statistics,
    )


@dataclass(frozen=True)
class ScannedSystem:
    """The system decoding a text.

    Attributes:
        weights: weights of all features, including those added by commands.
        nbest_features: features added to n-best lists by external commands.
        nbest_size: number of hypotheses for a sentence, where there are such features.
        commands: the command of each feature computed by an external program.
    """

    ini: Path
    weights: Weights
    decoder: DecoderConfig
    nbest_features: list[NBestFeature]
    nbest_size: int
    commands: dict[str, str]

    def fingerprint(self) -> dict[str, object]:
        """Everything the outputs depend on."""
        return {
            "files": fingerprint_ini(read_ini(self.ini)) | fingerprint_commands(self.commands),
            "weights": self.weights,
            "decoder": asdict(self.decoder),
            "features": [asdict(feature) for feature in self.nbest_features],
        }

    def columns(self) -> dict[str, float]:
        """All weights by the names of their columns, as "TranslationModel0_2"."""
        return weights_by_column(self.weights)

    def column(self, name: str) -> str:
        """The column of a name; that of a feature with one value needs no number.

        Raises:
            ConfigError: there is none.
        """
        columns = self.columns()
        if name in columns:
            return name
        if len(self.weights.get(name, ())) == 1:
            return f"{name}_0"
        raise ConfigError(f"no column {name}; there are {', '.join(columns)}")


def system_of_ini(
    ini: Path, decoder: DecoderConfig, neural_weight: float, init_weights: Path | None
) -> ScannedSystem:
    """A moses.ini and neural models of the search.

    The weights of init_weights, a weights.json, override those of the ini; weights it lacks are 0, and for
    neural models `neural_weight`.

    Raises:
        InputError: a file is malformed.
        ConfigError: the ini has a feature with the name of a neural model.
    """
    search = replace(decoder, kind=decoder.chosen_kind)
    added = {lm.name: neural_weight for lm in search.neural_lms}
    commands = {lm.name: shlex.join(lm.command) for lm in search.neural_lms}
    return ScannedSystem(
        ini, start_weights(read_ini(ini), added, init_weights), search, [], 1, commands
    )


def system_of_run(directory: Path, run_commands: bool) -> ScannedSystem:
    """A tuning run: its tables, weights, search and features.

    `run_commands` permits running the commands named in it.

    Raises:
        InputError: it is no run.
        ConfigError: its files have changed, it has commands and they may not be run, or it is a reranking.
    """
    run = load_run(directory)
    commands = run.commands()
    if not run_commands:  # before the files that the commands name are read
        refuse_commands({directory: run})
    check_unchanged({directory: run})
    if run.fixed_search:
        raise ConfigError(
            f"{directory}: its weights rerank lists that the search makes with others; scan the run whose "
            "lists these are"
        )
    decoder = from_mapping(DecoderConfig, json.loads(json.dumps(run.decoder)), str(directory))
    ini, features = Path(run.ini), run.nbest_features
    return ScannedSystem(ini, run.weights, decoder, features, run.nbest_size, commands)
