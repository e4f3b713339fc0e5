"""The origin of a result: command, source tree, day, machine and inputs."""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.machine import n_processors, processor_name

PROJECT = "rescorer"
PACKAGES = ("moses_bridge", "rescorer", "tuning")
GIT_SECONDS = 10
# A path from the root, also after a name in an argument: NAME=/a,/b or NAME:/a.
WHOLE_PATH = re.compile(r"(?<![^=,:\s])/[^=,:\s]+")


@dataclass(frozen=True)
class Provenance:
    """The origin of a result. It names no host, no user and no place outside the working directory.

    Attributes:
        commit: of the program's source tree, None without one.
        changed: whether that tree, or the program, differs from the commit; None without one.
        date: day, UTC, ISO 8601.
        n_processors: processors usable by the program.
        inputs: SHA-256 of the files read, by name.
    """

    command: str
    commit: str | None
    changed: bool | None
    version: str | None
    date: str
    processor: str
    n_processors: int
    inputs: dict[str, str]


def provenance(arguments: Sequence[str], inputs: Iterable[tuple[Path, str]]) -> Provenance:
    """The origin of a result made here and now, from sys.argv and the SHA-256 of each input."""
    commit, changed = _source()
    return Provenance(
        shown_command(arguments),
        commit,
        changed,
        package_version(),
        datetime.now(UTC).date().isoformat(),
        processor_name(),
        n_processors(),
        digests_by_name(inputs),
    )


def shown_command(arguments: Sequence[str]) -> str:
    """A command line quoted for a shell; paths from the root are shown as by `shown_path`."""
    program = Path(arguments[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    shown = [WHOLE_PATH.sub(lambda match: shown_path(Path(match[0])), arg) for arg in arguments[1:]]
    return shlex.join([name, *shown])


def shown_path(path: Path) -> str:
    """A path as given; one from the root as seen from the working directory, or its name alone."""
    if not path.is_absolute():
        return str(path)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; InputError if the file cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(path, None, error.strerror or str(error), "a readable file") from error


def digests_by_name(inputs: Iterable[tuple[Path, str]]) -> dict[str, str]:
    """Digests by the shown path; of two files with one name the second is "NAME (2)"."""
    digests: dict[str, str] = {}
    for path, digest in inputs:
        name, number = shown_path(path), 1
        while digests.get(name, digest) != digest:
            number += 1
            name = f"{shown_path(path)} ({number})"
        digests[name] = digest
    return digests


def package_version() -> str | None:
    """The version of this package, None if it is not installed."""
    with contextlib.suppress(PackageNotFoundError):
        return version(PROJECT)
    return None


def own_version() -> str:
    """The version of this package; "unknown" if not installed, as during a reinstallation."""
    return package_version() or "unknown"


def _source() -> tuple[str | None, bool | None]:
    """The commit of the source tree, and whether the running program differs from it."""
    program = Path(__file__).resolve().parents[2]
    tree = next((path for path in (program, *program.parents) if _is_source_tree(path)), None)
    commit = _git(tree, "rev-parse", "--short=12", "HEAD") if tree else None
    if tree is None or not commit:
        return None, None
    status = _git(tree, "status", "--porcelain", "--", *PACKAGES, "pyproject.toml")
    return commit, status != "" or not _is_copy(program, tree)


def _is_source_tree(path: Path) -> bool:
    """Whether a directory is this project's git tree, not one of another project with this one installed."""
    with contextlib.suppress(OSError, ValueError):
        project = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))
        return (path / ".git").exists() and project["project"]["name"] == PROJECT
    return False


def _git(tree: Path, *arguments: str) -> str | None:
    """The output of git; None if it cannot be asked."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            ["git", "-C", str(tree), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        )
        return result.stdout.strip()
    return None


def _is_copy(program: Path, tree: Path) -> bool:
    if program == tree:
        return True
    names = [
        str(path.relative_to(program))
        for package in PACKAGES
        for path in (program / package).rglob("*.py")
    ]
    _, different, missing = filecmp.cmpfiles(program, tree, names, shallow=False)
    return not (different or missing)
