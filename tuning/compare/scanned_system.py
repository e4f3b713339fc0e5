"""The system of a scan: a moses.ini, or a tuning run with its search and its features."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from tuning.loop.fingerprints import (
    check_unchanged,
    fingerprint_commands,
    fingerprint_ini,
    refuse_commands,
)
from tuning.loop.ini_weights import start_weights, weights_by_column
from tuning.loop.list_features import NBestFeature
from tuning.loop.run_directory import Weights, load_run


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
