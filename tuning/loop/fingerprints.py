"""The inputs of a run: hashes of its files and texts, and the check that they have not changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.provenance import file_digest
from moses_bridge.formats.moses_ini import MosesIni, read_ini
from moses_bridge.formats.ngram_scorer import is_own_command
from moses_bridge.formats.weights import check_complete
from tuning.loop.run_directory import WEIGHTS_NAME, TuningRun

NAMES_SHOWN = 10
# Of a model's directory, what no command reads.
UNREAD = re.compile(r"/(model_card\.md|events\.out\.tfevents\.[^/]*)$")
MOST_ENTRIES = 1000  # in a directory whose files are hashed: that of a model has about ten


@dataclass(frozen=True)
class ParallelText:
    """A source text and its references, one file each, tokenised as the output is."""

    source: Path
    references: Sequence[Path]

    @property
    def files(self) -> list[Path]:
        """All of its files."""
        return [self.source, *self.references]

    def hashes(self) -> dict[str, str]:
        """SHA-256 of each file."""
        named = {f"reference{i}": path for i, path in enumerate(self.references)}
        return {name: file_digest(path) for name, path in ({"source": self.source} | named).items()}


def check_unchanged(runs: Mapping[Path, TuningRun]) -> None:
    """Check that the inis, tables and commands' files of runs, by directory, are those of the tuning.

    Cards and event files of models, which no command reads, may differ. A run without hashes passes if it has a
    weight for each feature of its ini.

    Raises:
        InputError: an ini is malformed or missing, a file named in it is missing, or a run has no weight for
            one of its features.
        ConfigError: a file has changed.
    """
    inis = dict.fromkeys(run.ini for run in runs.values() if run.hashes)
    of_inis = {ini: fingerprint_ini(read_ini(ini)) for ini in inis}
    of_command = cache(lambda name, command: fingerprint_commands({name: command}))
    for directory, run in runs.items():
        hashes = {key: value for key, value in run.hashes.items() if key == "ini" or "/" in key}
        now: dict[str, str] = {}
        if run.hashes:
            now |= of_inis[run.ini]
            for name, command in run.commands().items():
                now |= of_command(name, command)
        differ = (key for key in hashes | now if hashes.get(key) != now.get(key))
        changed = sorted(key for key in differ if not UNREAD.search(key))
        if changed:
            raise ConfigError(
                f"{directory}: {_first_of(changed)} changed since the tuning of its weights with {run.ini}; "
                "tune again or restore them"
            )
        if Path(run.ini).is_file():
            check_complete(run.weights, read_ini(run.ini).weights, directory / WEIGHTS_NAME)


def refuse_commands(runs: Mapping[Path, TuningRun]) -> None:
    """Refuse (ConfigError) runs with commands: they may come from anywhere, so running them needs permission.

    Commands that only read a model with this installation's `rescorer` (`is_own_command`) need none.
    """
    for directory, run in runs.items():
        for name, command in run.commands().items():
            if is_own_command(command):
                continue
            raise ConfigError(
                f"{directory}: the feature {name} of this run comes from the command {command!r}. "
                "Check the command, then allow it with --run-commands"
            )


def fingerprint_ini(ini: MosesIni) -> dict[str, str]:
    """Hashes of a moses.ini and of every file named in it, by feature and file name.

    Raises:
        InputError: a file named in it is missing.
        ConfigError: a directory has more than 1,000 files and directories.
    """
    hashes = {"ini": file_digest(ini.path)}
    for name, named in ini.named_files():
        for file in _model_files(ini.path, ini.resolve(named)):
            hashes[f"{name}/{file.name}"] = file_digest(file)
    return hashes


def fingerprint_commands(commands: Mapping[str, str]) -> dict[str, str]:
    """Hashes of the files named in commands, by feature and path; of a directory, those of all its files.

    A word, or its part after "=", names a file if that file exists.

    Raises:
        InputError: a file cannot be read.
        ConfigError: a directory has more than 1,000 files and directories.
    """
    hashes = {}
    for name, command in commands.items():
        words = [part for word in shlex.split(command) for part in (word, word.partition("=")[2])]
        for path in (Path(word) for word in words if word):
            files = _entries(path) if path.is_dir() else [path]
            for file in sorted(file for file in files if file.is_file()):
                hashes[f"{name}/{file}"] = file_digest(file)
    return hashes


def _first_of(names: Sequence[str]) -> str:
    """Some names for a line: of a directory, hundreds of files may have changed."""
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest:,} others" if rest > 0 else "")


def _model_files(ini: Path, named: Path) -> list[Path]:
    """The files of a path in the ini: the file, those in the directory, or those with the prefix."""
    if named.is_file():
        return [named]
    files = _entries(named) if named.is_dir() else named.parent.glob(f"{named.name}.*")
    found = sorted(file for file in files if file.is_file())
    if not found:
        raise InputError(ini, None, f"the path {named}", "a file, a directory or their prefix")
    return found


def _entries(directory: Path) -> list[Path]:
    """All entries of a directory and those below it, unless somebody named the root of a disk."""
    found = list(islice(directory.rglob("*"), MOST_ENTRIES + 1))
    if len(found) > MOST_ENTRIES:
        raise ConfigError(
            f"{directory}: found more than {MOST_ENTRIES:,} files and directories, expected those of a model: "
            "a run keeps the hashes of all files that its ini and its commands name. Name a smaller directory"
        )
    return found
