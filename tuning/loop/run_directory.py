"""The files of a tuning run and of its iterations, and the check that a directory belongs to the same run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from moses_bridge.base.config import AtLeast, check_limits, shown_value
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import open_record_of, read_json, read_record, write_json
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.ngram_scorer import as_texts
from tuning.loop.list_features import NBestFeature
from tuning.metrics.by_name import metric_weights

WEIGHTS_NAME = "weights.json"
RUN_NAME = "run.json"
INI_NAME = "moses.ini"
SPARSE_NAME = "sparse-weights"
LIMIT = "the limit of iterations"  # an end of a run
POINT = 1.0  # of a metric: more than tunings differ by chance
WEIGHTS_FILE = "the weights.json of a tuning run"
REMOVE = "Remove the file to repeat the optimisation"

Weights = dict[str, list[float]]


@dataclass
class Iteration:
    """One decoding of the dev text and the optimisation after it.

    Attributes:
        bleu: BLEU of the output, 0 to 100.
        length_ratio: output words per reference word.
        oracle_bleu: BLEU of the hypotheses of the n-best list with the best sentence BLEU, 0 to 100.
        pool_bleu: BLEU on the pool reached by the optimiser afterwards; None for the last decoding.
        restarts: BLEU on the pool reached from each start of the optimiser.
        frozen: columns keeping their weight in the optimisation.
        constant: columns with one value in the whole pool, whose weights have no effect.
        score: the metric tuned for, of the output; None for BLEU. If it is another one, oracle_bleu, pool_bleu
            and restarts are its values.
    """

    weights: Weights
    bleu: float
    length_ratio: float
    oracle_bleu: float
    pool_bleu: float | None = None
    restarts: list[float] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)
    score: float | None = None

    @property
    def value(self) -> float:
        """The metric tuned for, of the output."""
        return self.bleu if self.score is None else self.score


@dataclass
class TuningRun:
    """The result of a tuning run.

    Attributes:
        ini: the tuned moses.ini, with its tables.
        dev_bleu: BLEU of the kept iteration, 0 to 100.
        seed: seed of the optimiser and of the scattered start.
        hashes: SHA-256 of the ini, its tables, the texts, and the files named in commands.
        end: why there was no further iteration.
        caution: why the kept weights may be no good; "" if nothing speaks against them.
        fixed_search: weights of the search, if the run's weights only rerank its n-best lists; {} if the
            search uses the run's weights.
    """

    ini: str
    weights: Weights
    dev_bleu: float
    seed: int
    nbest_size: Annotated[int, AtLeast(1)]
    decoder: dict[str, Any]
    nbest_features: list[NBestFeature] = field(default_factory=list)
    iterations: list[Iteration] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    end: str = ""
    fixed_search: Weights = field(default_factory=dict)
    metric: str = "bleu"
    caution: str = ""

    def __post_init__(self) -> None:
        check_limits(self)
        metric_weights(self.metric)

    @property
    def kept(self) -> int:
        """The number, from 1, of the first iteration with the run's weights; 0 if there is none."""
        same = (
            number for number, each in enumerate(self.iterations, 1) if each.weights == self.weights
        )
        return next(same, 0)

    @property
    def left_start(self) -> bool:
        """Whether the weights differ from those of the first decoding."""
        return any(iteration.weights != self.weights for iteration in self.iterations[:1])

    @property
    def constant(self) -> list[str]:
        """Columns with one value in the last optimised pool."""
        optimised = [each for each in self.iterations if each.pool_bleu is not None]
        return optimised[-1].constant if optimised else []

    @property
    def network(self) -> tuple[tuple[str, str], ...]:
        """The hashes of tables and models: equal for runs differing only in the tuning."""
        return tuple(sorted(item for item in self.hashes.items() if "/" in item[0]))

    def commands(self) -> dict[str, str]:
        """The command of each feature computed by an external program, by feature."""
        found = {feature.name: feature.command for feature in self.nbest_features}
        for neural_lm in as_texts(self.decoder.get("neural_lm")):
            name, _, command = neural_lm.partition("=")
            found[name] = command
        return found


def best_iteration(iterations: Sequence[Iteration], sign: int = 1) -> int:
    """The index, from 0, of the first iteration with the best decoded dev BLEU, or metric tuned for.

    The sign is -1 where less of the metric is better.
    """
    return max(range(len(iterations)), key=lambda place: sign * iterations[place].value)


def caution_of(kept: float, others: Mapping[str, float], sign: int, hint: str = "") -> str:
    """Why a value of the metric tuned for may be no good; "" if nothing speaks against it.

    The others are told by their names. The sign is -1 where less of the metric is better; the hint says what to
    do if one of them is better by more than a point.
    """
    best = max(others, key=lambda name: sign * others[name])
    loss = sign * (others[best] - kept)
    if loss > POINT:
        return f"{best} had {others[best]:.2f}, {loss:.2f} better{hint}"
    is_zero = sign > 0 and kept == 0
    return "it is 0: are the references of this text, and tokenised like it?" if is_zero else ""


def with_caution(line: str, caution: str) -> str:
    """A line with a result, and in it why the result may be no good."""
    return f"{line}; warning: {caution}" if caution else line


def save_run(run: TuningRun, directory: Path) -> None:
    """Write RUN/weights.json."""
    record = asdict(run)
    if run.metric == "bleu":
        for table in (record, *record["iterations"]):
            table.pop("metric", None)
            table.pop("score", None)
    if not run.caution:
        del record["caution"]
    write_json(directory / WEIGHTS_NAME, record)


def load_run(directory: Path) -> TuningRun:
    """Read RUN/weights.json; InputError if it is missing or something else, or a value has the wrong type."""
    path = directory / WEIGHTS_NAME
    run = read_record(TuningRun, path, WEIGHTS_FILE)
    settings = dict(run.decoder)
    if settings.get("neural_lm", "") is None:
        del settings["neural_lm"]
    decoder = open_record_of(DecoderConfig, settings, path, WEIGHTS_FILE)
    try:
        _ = decoder.neural_lms
    except ConfigError as error:
        raise InputError(path, None, str(error), WEIGHTS_FILE) from error
    if "\0" in run.ini:
        raise InputError(path, None, f"{shown_value(run.ini)} in 'ini'", "the name of a file")
    check_finite(asdict(run), path)
    run.decoder["neural_lm"] = as_texts(run.decoder.get("neural_lm"))
    return run


def claim(
    directory: Path, fingerprint: Mapping[str, Any], resume: bool, overwrite: bool | None = None
) -> None:
    """Claim a directory for a run, or check that it belongs to the run.

    The fingerprint is everything that distinguishes the run, as JSON values; with `resume` it may continue an
    earlier one, with `overwrite` it replaces one. That is None where it is not offered.

    Raises:
        ConfigError: the directory belongs to another run, or to this one and `resume` is false.
        InputError: its run.json is damaged.
    """
    if resume and overwrite:
        raise ConfigError("--resume continues a run, --overwrite replaces it: give one of them")
    path = directory / RUN_NAME
    for name in (RUN_NAME, WEIGHTS_NAME, INI_NAME, SPARSE_NAME, "iter[0-9]*") if overwrite else ():
        for old in directory.glob(name):
            old.unlink()
    anew = "" if overwrite is None else ", or replace it with --overwrite"
    inputs = json.loads(json.dumps(dict(fingerprint)))
    if path.exists():
        found = read_json(path)
        if not isinstance(found, dict):
            hint = "Remove the directory or choose another"
            raise InputError(path, None, shown_value(found), "the inputs of a run", hint)
        changed = sorted(key for key in inputs | found if inputs.get(key) != found.get(key))
        if changed:
            names = ", ".join(key if key.isprintable() else shown_value(key) for key in changed)
            raise ConfigError(
                f"{directory}: a run with other {names}; remove it or choose another{anew}"
            )
        if not resume:
            raise ConfigError(
                f"{directory}: there is a run already; continue it with --resume{anew}"
            )
    write_json(path, inputs)


def refuse_written(out: Path, read: Iterable[Path]) -> None:
    """Refuse (ConfigError) a run directory with own files, those of fixed names, among the inputs."""
    names = (INI_NAME, SPARSE_NAME, WEIGHTS_NAME, RUN_NAME)
    refuse_overwriting([out / name for name in names], read)


@dataclass(frozen=True)
class Optimised:
    """The result of the optimiser in an iteration.

    Attributes:
        weights: weights of all features, for the next decoding.
        bleu: BLEU on the pool, 0 to 100; the metric tuned for if that is another one, as in the next.
        restarts: BLEU on the pool reached from each start.
    """

    weights: Weights
    bleu: float
    restarts: list[float] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)
    digest: str = ""  # of an earlier version


def optimised_digest(record: Mapping[str, Any], weights: Weights) -> str:
    """A digest of what the optimiser found from the weights of a decoding, for `read_optimised`."""
    content = {key: value for key, value in record.items() if key != "digest"}
    text = json.dumps([weights, content], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_optimised(path: Path, weights: Weights) -> Optimised:
    """Read iterNN.optimised.json, with the features and numbers of scores of the decoding's weights.

    InputError if the file is missing, damaged or something else, or has other features.
    """
    what = "what the optimiser found"
    record = read_json(path)
    found = open_record_of(Optimised, record, path, what, REMOVE)
    if found.digest and found.digest != optimised_digest(record, weights):
        raise InputError(path, None, "other numbers than were written", what, REMOVE)
    check_finite(asdict(found), path)
    if {name: len(row) for name, row in found.weights.items()} != {
        name: len(row) for name, row in weights.items()
    }:
        raise InputError(path, None, "weights of other features", "those of the run", REMOVE)
    return found


def check_finite(value: object, path: Path, key: str = "") -> None:
    """Refuse (InputError) NaN and infinity anywhere in a value read from JSON; `key` is its place."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            check_finite(each, path, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            check_finite(each, path, f"{key}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(path, None, f"{value} in {key!r}", "a finite number")
