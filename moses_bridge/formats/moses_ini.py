"""Reading moses.ini, with version 1 converted to version 2; `moses_ini_edits` changes it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.moses_ini_v1 import V1_SECTIONS, as_version_2, finite_weight, is_version_1

SECTION = re.compile(rb"^\s*\[([^\]]+)\]\s*$")
WHOLE_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
LARGEST_INT = 2**31 - 1
TABLE_KIND, REORDERING_KIND, LM_KIND = "PhraseDictionaryMemory", "LexicalReordering", "KENLM"
GROUP_KIND, MIXTURE_KIND = "PhraseDictionaryGroup", "PhraseDictionaryMultiModel"
OF_TABLES = (GROUP_KIND, MIXTURE_KIND)
# Features with sparse values alone, each value weighted by name; all other features have scores.
PHRASE_LENGTH, WORD_TRANSLATION = "PhraseLengthFeature", "WordTranslationFeature"
WORD_DELETION, WORD_INSERTION = "SourceWordDeletionFeature", "TargetWordInsertionFeature"
SPARSE_KINDS = (PHRASE_LENGTH, WORD_DELETION, WORD_INSERTION, WORD_TRANSLATION)
WEIGHT_FILE = "weight-file"
# Arguments of features naming files: these, and those beginning with a prefix.
PATHS = ("path", "source-path", "target-path", "sparse-weights")
PATHS_BEGIN = ("sparse-words-", "sparse-clusters-")
TABLE_LIMIT = "table-limit"
# The smallest value of each limit; a distortion limit of -1 is none (moses/parameters/ReorderingOptions.cpp).
LIMITS = {
    "distortion-limit": -1,
    "max-phrase-length": 1,
    "stack": 0,
    "cube-pruning-pop-limit": 1,
    TABLE_LIMIT: 0,
}


@dataclass(frozen=True)
class Feature:
    """One line of [feature].

    Attributes:
        kind: its type, say PhraseDictionaryMemory.
        name: the argument `name`, else type and counter.
        arguments: the other arguments, unchanged.
    """

    kind: str
    name: str
    arguments: dict[str, str]

    @property
    def n_scores(self) -> int:
        """Number of values of the feature that are not sparse (num-features, 1 by default)."""
        default = "0" if self.kind in SPARSE_KINDS else "1"
        return int(self.arguments.get("num-features", default))

    @property
    def file_arguments(self) -> tuple[str, ...]:
        """The arguments naming files."""
        return tuple(key for key in self.arguments if key in PATHS or key.startswith(PATHS_BEGIN))


@dataclass(frozen=True)
class MosesIni:
    """A moses.ini.

    Attributes:
        lines: all its lines, without "\\n"; those of version 1 as version 2.
        settings: the lines of each other section, by its name.
    """

    path: Path
    lines: tuple[bytes, ...]
    features: tuple[Feature, ...]
    weights: dict[str, tuple[float, ...]]
    settings: dict[str, tuple[str, ...]]

    def resolve(self, path_argument: str) -> Path:
        """Resolve a path in the ini: from the working directory as Moses does, else next to the ini."""
        path = Path(path_argument)
        if path.is_absolute() or path.exists():
            return path
        return self.path.parent / path

    def file(self, path_argument: str) -> Path:
        """Resolve a path, with ".gz" appended where only that file exists, as Moses does."""
        path, compressed = self.resolve(path_argument), self.resolve(f"{path_argument}.gz")
        return compressed if compressed.exists() and not path.exists() else path

    def files(self) -> list[Path]:
        """The existing files of the model: those named in the ini, and the ini itself."""
        named = (self.file(path) for _, path in self.named_files())
        return [self.path, *(file for path in named for file in files_at(path))]

    def named_files(self) -> list[tuple[str, str]]:
        """The name of each feature, or of the section of weights, with a file, and the path as written."""
        of_features = [
            (each.name, each.arguments[key])
            for each in self.features
            for key in each.file_arguments
        ]
        return of_features + [(WEIGHT_FILE, path) for path in self.settings.get(WEIGHT_FILE, ())]

    def feature(self, name: str) -> Feature:
        """The feature of this name; InputError if there is none."""
        for feature in self.features:
            if feature.name == name:
                return feature
        names = ", ".join(feature.name for feature in self.features)
        raise InputError(self.path, None, f"no feature {name}", f"one of {names}")

    def of_kind(self, kind: str) -> tuple[Feature, ...]:
        """The features of a type."""
        return tuple(feature for feature in self.features if feature.kind == kind)


def files_at(named: Path) -> Iterable[Path]:
    """The files meant by a path in an ini: a file, those of a directory, or those beginning with a prefix."""
    if named.is_file():
        return [named]
    return named.iterdir() if named.is_dir() else named.parent.glob(f"{named.name}.*")


def read_ini(path: StrPath) -> MosesIni:
    """Read a moses.ini.

    Raises:
        InputError: it mixes versions 1 and 2, a weight is not a finite number, or a feature has another
            number of weights than scores.
    """
    return parse_ini(tuple(read_lines(path)), Path(path))


def _parse_converted(lines: tuple[bytes, ...], n_lines: int, path: Path) -> MosesIni:
    """Parse a converted ini, only the first n_lines of which are lines of the file."""
    try:
        return parse_ini(lines, path)
    except InputError as fault:
        if fault.line is None or fault.line <= n_lines:
            raise
        raise InputError(path, None, fault.found, fault.expected, fault.hint) from None


def parse_ini(lines: tuple[bytes, ...], path: Path) -> MosesIni:
    """Make a MosesIni of its lines; see `read_ini`."""
    sections = with_sections(lines)
    if is_version_1(sections):
        return _parse_converted(as_version_2(lines, sections, path), len(lines), path)
    features: list[Feature] = []
    unnamed: Counter[str] = Counter()
    weights: dict[str, tuple[float, ...]] = {}
    settings: dict[str, list[str]] = {}
    for line_number, (section, text) in enumerate(sections, start=1):
        if section in V1_SECTIONS:
            found = f"the section [{section}] of a version 1 ini beside [feature] or [weight]"
            raise InputError(path, line_number, found, "one version")
        if not text:
            continue
        if section == "feature":
            features.append(_parse_feature(text, features, unnamed, path, line_number))
        elif section == "weight":
            name, values = _parse_weight(text, path, line_number)
            if name in weights:
                raise InputError(path, line_number, f"the weights of {name} again", "them once")
            weights[name] = values
        else:
            settings.setdefault(section, []).append(text)
    ini = MosesIni(
        path,
        lines,
        tuple(features),
        weights,
        {key: tuple(value) for key, value in settings.items()},
    )
    _check_weights(ini)
    return ini


def limit_of(ini: MosesIni, section: str) -> int | None:
    """The limit in a section, None if it has no line; errors as of `parse_limit`."""
    found = first_line(ini, section)
    return None if found is None else parse_limit(section, found[1], ini.path, found[0])


def first_line(ini: MosesIni, section: str) -> tuple[int, str] | None:
    """The number, from 1, and the text of a section's first line with a text; None without one."""
    for line_number, (found, text) in enumerate(with_sections(ini.lines), start=1):
        if found == section and text:
            return line_number, text
    return None


def table_limit_of(ini: MosesIni, feature: Feature) -> int | None:
    """The `table-limit` of a feature, None if it has none; errors as of `parse_limit`."""
    if TABLE_LIMIT not in feature.arguments:
        return None
    limit = feature.arguments[TABLE_LIMIT]
    return parse_limit(TABLE_LIMIT, limit, ini.path, line_of(ini, feature))


def line_of(ini: MosesIni, feature: Feature) -> int:
    """The line number of a feature, from 1."""
    lines = enumerate(with_sections(ini.lines), start=1)
    of_features = [number for number, (section, text) in lines if section == "feature" and text]
    return of_features[ini.features.index(feature)]


def parse_limit(name: str, text: str, path: Path, line_number: int) -> int:
    """Parse one of the `LIMITS`, in ASCII digits: Moses reads 1_0 as 1, and other digits as 0.

    Raises:
        InputError: the text is not a whole number allowed for the limit.
    """
    smallest = LIMITS[name]
    is_number = WHOLE_NUMBER.fullmatch(text) and len(text) <= len(str(LARGEST_INT))
    if not is_number or not smallest <= int(text) <= LARGEST_INT:
        raise InputError(
            path, line_number, f"{name}: {text!r}", f"a whole number from {smallest} on"
        )
    return int(text)


def sparse_beginnings(features: Iterable[Feature]) -> tuple[str, ...]:
    """The beginnings of the names of the features' sparse values, as `str.startswith` takes them."""
    return tuple(f"{feature.name}_" for feature in features)


def member_names(group: Feature) -> list[str]:
    """The names of the tables of a group or mixture."""
    key = "components" if group.kind == MIXTURE_KIND else "members"
    return [name for name in group.arguments.get(key, "").split(",") if name]


def with_sections(lines: Sequence[bytes]) -> list[tuple[str, str]]:
    """The section of each line, and its text without comment, "" if it has none."""
    section, result = "", []
    for line in lines:
        header = SECTION.match(line.split(b"#")[0])
        if header:
            section = header.group(1).decode("utf-8", "surrogateescape")
        text = "" if header else line.split(b"#")[0].strip().decode("utf-8", "surrogateescape")
        result.append((section, text))
    return result


def tokens(text: str) -> list[str]:
    """Split a text at blanks and tabs: other Unicode blanks may be part of a path."""
    return [token for token in re.split("[ \t]+", text) if token]


def _parse_feature(
    text: str, earlier: Sequence[Feature], unnamed: Counter[str], path: Path, line_number: int
) -> Feature:
    """Parse a line of [feature]; a missing name is numbered by the earlier lines without one."""
    kind, *pairs = tokens(text)
    for pair in pairs:
        if "=" not in pair:
            raise InputError(
                path, line_number, f"{pair!r}", "key=value", "A path must not hold a blank"
            )
    arguments = dict(pair.split("=", 1) for pair in pairs)
    n_scores = arguments.get("num-features", "1")
    if not (n_scores.isascii() and n_scores.isdigit()):
        raise InputError(path, line_number, f"num-features={n_scores}", "a whole number")
    if arguments.get("path") == "":  # this would name the working directory, and all files in it
        raise InputError(path, line_number, "path= without a path", "path=FILE")
    name = arguments.pop("name", "")
    if not name:
        name = f"{kind}{unnamed[kind]}"
        unnamed[kind] += 1
    if any(feature.name == name for feature in earlier):
        raise InputError(path, line_number, f"a second feature {name}", "a name of its own")
    return Feature(kind, name, arguments)


def _parse_weight(text: str, path: Path, line_number: int) -> tuple[str, tuple[float, ...]]:
    name, *numbers = tokens(text)
    if not name.endswith("="):
        raise InputError(path, line_number, f"{name!r}", "Name= and its weights")
    return name[:-1], tuple(finite_weight(number, path, line_number) for number in numbers)


def _check_weights(ini: MosesIni) -> None:
    for feature in ini.features:
        weights = ini.weights.get(feature.name)
        if weights is None or "num-features" not in feature.arguments:
            continue
        if len(weights) != feature.n_scores:
            found = f"{len(weights)} weights of {feature.name}"
            raise InputError(ini.path, None, found, f"{feature.n_scores}, its num-features")
