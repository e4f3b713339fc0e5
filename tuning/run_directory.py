"""What a tuning run leaves on disk, and the check that a directory belongs to the same run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moses_bridge.errors import ConfigError, InputError
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.json_files import read_json, write_json
from tuning.rerank import NBestFeature

WEIGHTS_NAME = "weights.json"
RUN_NAME = "run.json"
INI_NAME = "moses.ini"

Weights = dict[str, list[float]]


@dataclass
class Iteration:
    """One decoding of the dev text and what was learned from it.

    Attributes:
        weights: that it was decoded with.
        bleu: of the output, 0 to 100.
        length_ratio: output words for one reference word.
        oracle_bleu: of the hypotheses of its n-best list with the best sentence BLEU, 0 to 100.
        pool_bleu: that the optimiser reached on the pool afterwards; None for the last decoding.
        restarts: the BLEU on the pool that each of its starts led to.
        frozen: columns that it left alone.
    """

    weights: Weights
    bleu: float
    length_ratio: float
    oracle_bleu: float
    pool_bleu: float | None = None
    restarts: list[float] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)


@dataclass
class TuningRun:
    """The result of a tuning run.

    Attributes:
        ini: the moses.ini that was tuned, with its tables.
        weights: of the iteration with the best decoded dev BLEU.
        dev_bleu: that BLEU, 0 to 100.
        seed: of the optimiser.
        nbest_size: hypotheses for a sentence.
        decoder: settings of the decoder.
        nbest_features: features that external commands add.
        iterations: in their order.
        hashes: SHA-256 of the ini, its tables and the texts.
    """

    ini: str
    weights: Weights
    dev_bleu: float
    seed: int
    nbest_size: int
    decoder: dict[str, Any]
    nbest_features: list[NBestFeature] = field(default_factory=list)
    iterations: list[Iteration] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)


def save_run(run: TuningRun, directory: Path) -> None:
    """Write RUN/weights.json."""
    write_json(directory / WEIGHTS_NAME, asdict(run))


def load_run(directory: Path) -> TuningRun:
    """Read RUN/weights.json.

    Raises:
        InputError: it is missing or not one.
    """
    path = directory / WEIGHTS_NAME
    value = read_json(path)
    try:
        value["nbest_features"] = [NBestFeature(**entry) for entry in value["nbest_features"]]
        value["iterations"] = [Iteration(**entry) for entry in value["iterations"]]
        return TuningRun(**value)
    except (KeyError, TypeError) as error:
        raise InputError(path, None, f"{error}", "the weights.json of a tuning run") from error


def claim(directory: Path, fingerprint: Mapping[str, Any], resume: bool) -> None:
    """Make a directory the one of a run, or make sure that it is.

    Raises:
        ConfigError: it is that of another run, or of this one but resume is not wanted.
    """
    path = directory / RUN_NAME
    wanted = json.loads(json.dumps(dict(fingerprint)))
    if path.exists():
        found = read_json(path)
        changed = sorted(key for key in wanted | found if wanted.get(key) != found.get(key))
        if changed:
            raise ConfigError(
                f"{directory}: a run with other {', '.join(changed)}; remove it or choose another"
            )
        if not resume:
            raise ConfigError(f"{directory}: there is a run already; continue it with --resume")
    write_json(path, wanted)


def check_unchanged(runs: Mapping[Path, TuningRun]) -> None:
    """Make sure that the ini and the tables of runs, by directory, are still those that were tuned.

    Runs that keep no hashes pass.

    Raises:
        InputError: an ini is malformed or missing, or there is no file that it names.
        ConfigError: a file has changed.
    """
    found = {run.ini: fingerprint_ini(Path(run.ini)) for run in runs.values() if run.hashes}
    for directory, run in runs.items():
        hashes = {key: value for key, value in run.hashes.items() if key == "ini" or "/" in key}
        now = found.get(run.ini, {})
        changed = sorted(key for key in hashes | now if hashes.get(key) != now.get(key))
        if changed:
            raise ConfigError(
                f"{directory}: its weights were tuned with other files than {run.ini} names now: "
                f"{', '.join(changed)} changed; tune again or put them back"
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
