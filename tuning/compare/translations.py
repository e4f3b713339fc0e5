"""Translations of a test text with the weights of tuning runs; those that are there are not made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from moses_bridge.base.config import from_mapping
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.text_lines import say
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import Decoder, DecoderConfig
from tuning.loop.fingerprints import check_unchanged, refuse_commands
from tuning.loop.list_features import (
    ListFeatures,
    decode_text,
    is_decoded,
    record_path,
    write_record,
)
from tuning.loop.run_directory import TuningRun, load_run


def translate_runs(
    directories: Sequence[Path], source: Path, jobs: int = 1, run_commands: bool = False
) -> dict[Path, Path]:
    """The output of each run directory for a text, translated with its weights; `compare` uses them.

    Raises:
        InputError: a run directory or the text is malformed.
        ConfigError: a moses.ini, table or model is not the one tuned by a run, or a command would have to be
            run without permission.
    """
    runs = {path: load_run(path) for path in directories}
    if not run_commands:
        refuse_new_commands(runs, source)
    check_unchanged(runs)
    for path, run in runs.items():
        say(f"warning: {path}: {run.caution}" if run.caution else "")
    return translate_all(runs, source, jobs, run_commands)


def translate_all(
    runs: Mapping[Path, TuningRun], source: Path, jobs: int, run_commands: bool = False
) -> dict[Path, Path]:
    """The test output of each run, translated if missing; each system is loaded once.

    Raises:
        ConfigError: a run has commands, its text is not translated yet, and run_commands is False.
    """
    outputs = {directory: output_path(directory, source) for directory in runs}
    if not run_commands:
        refuse_new_commands(runs, source)

    def system_of(directory: Path) -> tuple[str, str]:
        return runs[directory].ini, json.dumps(runs[directory].decoder)

    for (ini, decoder_settings), members in groupby(sorted(runs, key=system_of), key=system_of):
        missing = [
            directory for directory in members if not _is_made(runs[directory], outputs[directory])
        ]
        if missing:
            config = from_mapping(DecoderConfig, json.loads(decoder_settings), ini)
            with open_decoder(Path(ini), config, jobs) as decoder:
                _translate_runs(decoder, {path: runs[path] for path in missing}, source, outputs)
    return outputs


def refuse_new_commands(runs: Mapping[Path, TuningRun], source: Path) -> None:
    """Refuse commands of runs that have not translated a text yet.

    It comes before the check that nothing has changed, which reads the files that commands name.
    """
    new = {path: run for path, run in runs.items() if not _is_made(run, output_path(path, source))}
    refuse_commands(new)


def _is_made(run: TuningRun, output: Path) -> bool:
    """Whether a translation is there and unchanged; one without a record is believed, and gets one."""
    if output.exists() and not record_path(output).exists():
        with suppress(OSError):  # a directory that must not be written
            write_record(run.weights, output)
        return True
    return is_decoded(run.weights, output)


def _translate_runs(
    decoder: Decoder, runs: Mapping[Path, TuningRun], source: Path, outputs: Mapping[Path, Path]
) -> None:
    """Translate with each run's weights; runs with the same features share their models."""

    def features_of(directory: Path) -> str:
        return json.dumps([asdict(feature) for feature in runs[directory].nbest_features])

    for _, members in groupby(sorted(runs, key=features_of), key=features_of):
        directories = list(members)
        with ListFeatures(runs[directories[0]].nbest_features) as lists:
            for directory in directories:
                run, output = runs[directory], outputs[directory]
                size, fixed = run.nbest_size, run.fixed_search
                decode_text(decoder, source, output, None, run.weights, lists, size, fixed)


def output_path(directory: Path, source: Path) -> Path:
    """Where a run's test output is: a file named by text and weights, or the given file of translations."""
    if directory.is_file():
        return directory
    state = file_digest(source) + file_digest(directory / "weights.json")
    return directory / f"test-{hashlib.sha256(state.encode()).hexdigest()[:12]}.out"
