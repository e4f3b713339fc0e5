"""What a tuning run writes, and the check that a directory belongs to the same run."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from moses_bridge.base.config import AtLeast, check_limits, shown_value
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import (
    check_plain_file,
    open_record_of,
    read_json,
    read_record,
    write_json,
)
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.decoding.decoder import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.ngram_scorer import as_texts
from moses_bridge.formats.weights import check_complete
from tuning.loop.iteration_files import Weights, check_finite
from tuning.loop.nbest_choice import NBestFeature

WEIGHTS_NAME = "weights.json"
RUN_NAME = "run.json"
INI_NAME = "moses.ini"
WEIGHTS_FILE = "the weights.json of a tuning run"


@dataclass
class Iteration:
    """One decoding of the dev text and what was learned from it.

    Attributes:
        weights: used to decode.
        bleu: of the output, 0 to 100.
        length_ratio: output words for one reference word.
        oracle_bleu: of the hypotheses of its n-best list with the best sentence BLEU, 0 to 100.
        pool_bleu: reached by the optimiser on the pool afterwards; None for the last decoding.
        restarts: BLEU on the pool reached from each of its starts.
        frozen: columns whose weight it kept.
        constant: columns with one value in the whole pool, whose weights have no effect.
    """

    weights: Weights
    bleu: float
    length_ratio: float
    oracle_bleu: float
    pool_bleu: float | None = None
    restarts: list[float] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)


@dataclass
class TuningRun:
    """The result of a tuning run.

    Attributes:
        ini: the moses.ini that was tuned, with its tables.
        weights: of the iteration that was kept.
        dev_bleu: of that iteration, 0 to 100.
        seed: of the optimiser.
        nbest_size: hypotheses for a sentence.
        decoder: settings of the decoder.
        nbest_features: features that external commands add.
        iterations: in their order.
        hashes: SHA-256 of the ini, its tables, the texts, and the files that commands name.
        end: why there was no further iteration.
        fixed_search: weights of the search, where the run's weights rerank its n-best lists; without them
            ({}) the search uses the run's.
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

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def kept(self) -> int:
        """The number, from 1, of the first iteration with the run's weights; 0 if there is none."""
        same = (
            number for number, each in enumerate(self.iterations, 1) if each.weights == self.weights
        )
        return next(same, 0)

    @property
    def left_start(self) -> bool:
        """Whether the weights are others than those of the first decoding."""
        return any(iteration.weights != self.weights for iteration in self.iterations[:1])

    @property
    def constant(self) -> list[str]:
        """Columns with one value in the last pool that was optimised."""
        optimised = [each for each in self.iterations if each.pool_bleu is not None]
        return optimised[-1].constant if optimised else []

    @property
    def network(self) -> tuple[tuple[str, str], ...]:
        """The hashes of tables and models: equal for runs that differ in the tuning alone."""
        return tuple(sorted(self._model_hashes().items()))

    def commands(self) -> dict[str, str]:
        """The command behind each feature that an external program computes."""
        found = {feature.name: feature.command for feature in self.nbest_features}
        for neural_lm in as_texts(self.decoder.get("neural_lm")):
            name, _, command = neural_lm.partition("=")
            found[name] = command
        return found

    def _model_hashes(self) -> dict[str, str]:
        return {key: value for key, value in self.hashes.items() if "/" in key}


def best_iteration(iterations: Sequence[Iteration]) -> int:
    """The place of the iteration with the best decoded dev BLEU; of equal ones the first."""
    return max(range(len(iterations)), key=lambda place: iterations[place].bleu)


def save_run(run: TuningRun, directory: Path) -> None:
    """Write RUN/weights.json."""
    write_json(directory / WEIGHTS_NAME, asdict(run))


def load_run(directory: Path) -> TuningRun:
    """Read RUN/weights.json.

    Raises:
        InputError: it is missing or not one, or a value has the wrong type.
    """
    path = directory / WEIGHTS_NAME
    run = read_record(TuningRun, path, WEIGHTS_FILE)
    decoder = open_record_of(DecoderConfig, _of_search(run.decoder), path, WEIGHTS_FILE)
    try:
        _ = decoder.neural_lms
    except ConfigError as error:
        raise InputError(path, None, str(error), WEIGHTS_FILE) from error
    if "\0" in run.ini:
        raise InputError(path, None, f"{shown_value(run.ini)} in 'ini'", "the name of a file")
    for weights in (run.weights, run.fixed_search, *(each.weights for each in run.iterations)):
        check_finite(weights, path)
    run.decoder["neural_lm"] = as_texts(run.decoder.get("neural_lm"))
    return run


def _of_search(decoder: dict[str, Any]) -> dict[str, Any]:
    """Settings of the search without a key that stands for nothing."""
    return {key: value for key, value in decoder.items() if key != "neural_lm" or value is not None}


def claim(directory: Path, fingerprint: Mapping[str, Any], resume: bool) -> None:
    """Make a directory the one of a run, or make sure that it is.

    Raises:
        ConfigError: it is that of another run, or of this one but resume is not wanted.
        InputError: what says which run it is has been damaged.
    """
    path = directory / RUN_NAME
    wanted = json.loads(json.dumps(dict(fingerprint)))
    if path.exists():
        check_plain_file(path)
        found = read_json(path)
        if not isinstance(found, dict):
            hint = "Remove the directory or choose another"
            raise InputError(path, None, shown_value(found), "what a run is made of", hint)
        changed = sorted(key for key in wanted | found if wanted.get(key) != found.get(key))
        if changed:
            names = ", ".join(key if key.isprintable() else shown_value(key) for key in changed)
            raise ConfigError(f"{directory}: a run with other {names}; remove it or choose another")
        if not resume:
            raise ConfigError(f"{directory}: there is a run already; continue it with --resume")
    write_json(path, wanted)


def refuse_written(out: Path, read: Iterable[Path]) -> None:
    """Refuse a run directory whose files of known names are among the files that are read.

    Raises:
        ConfigError: one is.
    """
    refuse_overwriting([out / name for name in (INI_NAME, WEIGHTS_NAME, RUN_NAME)], read)


def check_unchanged(runs: Mapping[Path, TuningRun]) -> None:
    """Make sure that the ini and the tables of runs, by directory, are still those that were tuned.

    Runs that keep no hashes pass.

    Raises:
        InputError: an ini is malformed or missing, there is no file that it names, or a feature of it has no
            weight in a run.
        ConfigError: a file has changed.
    """
    found = {run.ini: fingerprint_ini(Path(run.ini)) for run in runs.values() if run.hashes}
    for directory, run in runs.items():
        hashes = {key: value for key, value in run.hashes.items() if key == "ini" or "/" in key}
        now = found.get(run.ini, {})
        if run.hashes:
            now = now | fingerprint_commands(run.commands())
        changed = sorted(key for key in hashes | now if hashes.get(key) != now.get(key))
        if changed:
            raise ConfigError(
                f"{directory}: its weights were tuned with other files than {run.ini} and its commands "
                f"name now: {', '.join(changed)} changed; tune again or put them back"
            )
        if Path(run.ini).is_file():
            check_complete(run.weights, read_ini(run.ini).weights, directory / WEIGHTS_NAME)


def refuse_commands(runs: Mapping[Path, TuningRun]) -> None:
    """Refuse runs with commands: a run directory may come from anywhere, so none is run unasked.

    Raises:
        ConfigError: a run, by directory, has commands.
    """
    for directory, run in runs.items():
        for name, command in run.commands().items():
            raise ConfigError(
                f"{directory}: the feature {name} of this run comes from the command {command!r}. "
                "Look at it, then let such commands be run by --run-commands"
            )


def fingerprint_ini(path: Path) -> dict[str, str]:
    """Hashes of a moses.ini and of every file it names, by feature and file name.

    Raises:
        InputError: the ini is malformed, or there is no file that it names.
    """
    ini = read_ini(path)
    hashes = {"ini": file_hash(path)}
    for feature in ini.features:
        if "path" in feature.arguments:
            for file in _model_files(path, ini.resolve(feature.arguments["path"])):
                hashes[f"{feature.name}/{file.name}"] = file_hash(file)
    return hashes


def fingerprint_texts(source: Path, references: Sequence[Path]) -> dict[str, str]:
    """Hashes of a text and its references."""
    hashes = {"source": file_hash(source)}
    return hashes | {f"reference{i}": file_hash(path) for i, path in enumerate(references)}


def fingerprint_commands(commands: Mapping[str, str]) -> dict[str, str]:
    """Hashes of the files that command lines name, by feature and path; of a directory those in it.

    A word, or its part behind "=", is taken for a file if there is one.
    """
    hashes = {}
    for name, command in commands.items():
        words = [part for word in shlex.split(command) for part in (word, word.partition("=")[2])]
        for path in (Path(word) for word in words if word):
            files = path.rglob("*") if path.is_dir() else [path]
            for file in sorted(file for file in files if file.is_file()):
                hashes[f"{name}/{file}"] = file_hash(file)
    return hashes


def _model_files(ini: Path, named: Path) -> list[Path]:
    """The files behind a path in the ini: itself, those in it, or, of a prefix, those that begin so."""
    if named.is_file():
        return [named]
    files = named.rglob("*") if named.is_dir() else named.parent.glob(f"{named.name}.*")
    found = sorted(file for file in files if file.is_file())
    if not found:
        raise InputError(ini, None, f"the path {named}", "a file, a directory or their prefix")
    return found


def file_hash(path: Path) -> str:
    """SHA-256 of a file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(path, None, str(error), "a readable file") from error
