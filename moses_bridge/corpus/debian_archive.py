"""Debian's or Ubuntu's archive through apt, without root, in a folder of our own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import DEVNULL, STDOUT

from moses_bridge.base.errors import InputError, ToolError, UserError, shown
from moses_bridge.base.programs import run_program, running
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import open_write, read_lines, temporary_directory, write_lines

APT_HELPER = "/usr/lib/apt/apt-helper"
N_LINES_QUOTED = 8  # of apt, whose faults come last
SANDBOX_USER = "_apt"  # the default of APT::Sandbox::User
NO_APT = (
    "there is no {} on this machine; text from the archive needs the apt of Debian or"
    " Ubuntu (give two files of your own instead)"
)
NO_INDEXES = "apt fetched no indexes: {}"
NO_SOURCES = "no package sources are set"
SOURCE_PACKAGES = "source-packages.gz"  # a package and its source a line
SETTINGS = """\
#clear Acquire::Languages;
Acquire::Languages {{ {languages} }};
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::Retries "3";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
Dir::State "{state}";
Dir::State::lists "{state}/lists";
Dir::State::status "{state}/status";
Dir::Cache "{cache}";
Dir::Cache::archives "{cache}/archives";
{targets}
"""
TARGET_NAME = re.compile(r"^Acquire::IndexTargets::(deb(?:-src)?::[^:\s]+) ")
FIELD = re.compile(rb"^(Package|Source):[ \t]*([^\s(]+)", re.MULTILINE)
OFFERED_LANGUAGE = re.compile(r"/i18n/Translation-([A-Za-z_@]+)(?:\.\w+)?$")


class DebianArchive:
    """The archive of the machine's own sources, fetched once into a folder: packages, indexes by language."""

    def __init__(self, folder: Path, languages: Sequence[str]) -> None:
        self.folder = folder.resolve()
        self.languages = tuple(languages)

    def descriptions(self, language: str) -> Path:
        """The file of all package descriptions in a language (gzip), fetched if missing.

        Raises:
            ToolError: apt failed.
            UserError: there is no apt, no network, no sources, or no such index in the archive.
        """
        if not self._merged(language).exists():
            tail = self._update("Translations")
            for wanted in self.languages:
                self._merge_indexes(wanted, tail)
        return self._merged(language)

    def source_packages(self) -> dict[str, str]:
        """The source package of each package; the index is fetched if missing.

        Raises:
            InputError: a line of the fetched file is no pair of names.
            ToolError: apt failed.
            UserError: there is no apt, no network or no sources.
        """
        path = self.folder / SOURCE_PACKAGES
        if not path.exists():
            self._write_source_packages(path, self._update("Packages"))
        return dict(_pair_of_names(path, *line) for line in enumerate(read_lines(path), 1))

    def packages(self, names: Sequence[str]) -> list[Path]:
        """The .deb files of packages, fetched if missing.

        Raises:
            ToolError: apt failed (no network, no such package).
            UserError: there is no apt.
        """
        missing = [name for name in names if not self._fetched(name)]
        if missing:
            self._update("Packages")
            with temporary_directory("packages", self.folder) as arriving:
                _open_to_sandbox(arriving)
                with Progress("fetching packages", len(missing), "packages") as progress:
                    for line in self._run("apt-get", "download", *missing, folder=arriving):
                        progress.update(line.startswith("Get:"))
                for deb in arriving.glob("*.deb"):
                    deb.replace(self.folder / deb.name)
        return [self._fetched(name)[-1] for name in names]

    def _merged(self, language: str) -> Path:
        return self.folder / f"Translation-{language}.gz"

    def _fetched(self, name: str) -> list[Path]:
        return sorted(self.folder.glob(f"{name}_*.deb"))

    def _update(self, target: str) -> str:
        """Fetch all indexes of one kind; return the text to quote if one turns out to be missing."""
        self._configure(target)
        quoted: deque[str] = deque(maxlen=N_LINES_QUOTED)
        with Progress(f"fetching Debian's {target}", unit="files") as progress:
            for line in self._run("apt-get", "update"):
                if line.startswith(("Err:", "W:", "E:")):
                    quoted.append(line)
                elif line.startswith(("Get:", "Hit:")):
                    progress.update()
        return "\n".join(quoted)

    def _configure(self, target: str) -> None:
        state, cache = self.folder / "apt/state", self.folder / "apt/cache"
        for path in (state / "lists/partial", cache / "archives/partial"):
            path.mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        unwanted = [name for name in _index_targets() if name != f"deb::{target}"]
        settings = SETTINGS.format(
            languages=" ".join(f'"{language}";' for language in self.languages),
            state=state,
            cache=cache,
            targets="\n".join(
                f'Acquire::IndexTargets::{name}::DefaultEnabled "false";' for name in unwanted
            ),
        )
        write_lines(self._settings, [settings.encode()])

    @property
    def _settings(self) -> Path:
        return self.folder / "apt/apt.conf"

    def _run(self, program: str, *arguments: str, folder: Path | None = None) -> Iterator[str]:
        command = [find_apt(program), "-c", str(self._settings), *arguments]
        return _output_lines(command, folder or self.folder)

    def _indexes(self, target: str, language: str | None = None) -> list[Path]:
        rows = self._run(
            "apt-get", "indextargets", "--format", "$(CREATED_BY)|$(LANGUAGE)|$(FILENAME)"
        )
        found = [row.split("|", 2) for row in rows if row.count("|") >= 2]
        return sorted(
            Path(path)
            for kind, its_language, path in found
            if kind == target and language in (None, its_language) and Path(path).exists()
        )

    def _merge_indexes(self, language: str, tail: str) -> None:
        indexes = self._indexes("Translations", language)
        if not indexes:
            raise self._missing_index(language, tail)
        with open_write(self._merged(language)) as merged:
            for index in indexes:
                merged.write(_decompress(index))
                merged.write(b"\n")

    def _write_source_packages(self, path: Path, tail: str) -> None:
        """Keep two fields, a hundredth of the indexes; the first version of a package counts."""
        indexes = self._indexes("Packages")
        if not indexes:
            raise UserError(NO_INDEXES.format(tail or NO_SOURCES))
        found: dict[bytes, bytes] = {}
        for index in indexes:
            for package, source in _packages_and_sources(_decompress(index)):
                found.setdefault(package, source)
        write_lines(path, (b"%s\t%s" % pair for pair in sorted(found.items())))

    def _missing_index(self, language: str, tail: str) -> UserError:
        offered = self._offered_languages()
        if not offered or (language in offered and tail):
            return UserError(NO_INDEXES.format(tail or NO_SOURCES))
        return UserError(
            f"the archive of this machine has no package descriptions in {language!r};"
            f" it has {', '.join(sorted(offered))}"
        )

    def _offered_languages(self) -> set[str]:
        offered = set()
        for release in (self.folder / "apt/state/lists").glob("*Release"):
            for line in release.read_text(errors="replace").split("\n"):
                if match := OFFERED_LANGUAGE.search(line):
                    offered.add(match[1])
        return offered


def _open_to_sandbox(folder: Path) -> None:
    """Give a folder to the user of apt's downloads; otherwise apt, run as root, warns and downloads as root."""
    if os.geteuid() == 0:
        with contextlib.suppress(LookupError):
            shutil.chown(folder, SANDBOX_USER)


def find_apt(program: str) -> str:
    """The path of a program of apt or dpkg; UserError if it is not installed."""
    path = shutil.which(program)
    if path is None:
        raise UserError(NO_APT.format(program))
    return path


def _index_targets() -> list[str]:
    lines = _output_lines([find_apt("apt-config"), "dump", "Acquire::IndexTargets"], Path("/"))
    return list(dict.fromkeys(match[1] for line in lines if (match := TARGET_NAME.match(line))))


def _output_lines(command: list[str], folder: Path) -> Iterator[str]:
    """Yield the lines written by a program, including standard error."""
    tail: deque[str] = deque(maxlen=N_LINES_QUOTED)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    with running(command, DEVNULL, STDOUT, folder, environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail.append(line.decode(errors="replace").rstrip("\n"))
            yield tail[-1]
    if process.returncode:
        raise ToolError(command, process.returncode, "\n".join(tail))


def _packages_and_sources(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The names of packages and of their sources, by default the same (Debian's policy, 5.6.1 and 5.6.7)."""
    for stanza in index.split(b"\n\n"):
        fields: dict[bytes, bytes] = dict(FIELD.findall(stanza))
        if package := fields.get(b"Package", b""):
            yield package, fields.get(b"Source", package)


def _pair_of_names(path: Path, number: int, line: bytes) -> tuple[str, str]:
    package, tab, source = line.decode("utf-8", "replace").partition("\t")
    if not (package and tab and source):
        expected, hint = "a package and its source", "Remove the file to fetch it again"
        raise InputError(path, number, shown(line), expected, hint)
    return package, source


def _decompress(index: Path) -> bytes:
    return run_program([APT_HELPER, "cat-file", str(index)])
