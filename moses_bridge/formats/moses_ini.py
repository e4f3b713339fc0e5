"""moses.ini: read, version 1 as version 2, and changed in place with every other byte kept."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines, write_lines
from moses_bridge.formats.moses_ini_v1 import V1_SECTIONS, as_version_2, finite_weight, is_version_1

SECTION = re.compile(rb"^\s*\[([^\]]+)\]\s*$")
WHOLE_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
LARGEST_INT = 2**31 - 1
# The smallest value of each limit; a distortion limit of -1 is none (moses/parameters/ReorderingOptions.cpp).
TABLE_LIMIT = "table-limit"
GROUP_KIND, MIXTURE_KIND = "PhraseDictionaryGroup", "PhraseDictionaryMultiModel"
OF_TABLES = (GROUP_KIND, MIXTURE_KIND)
# Features with sparse values alone, each with a weight of its own by name; all others have scores.
PHRASE_LENGTH, WORD_TRANSLATION = "PhraseLengthFeature", "WordTranslationFeature"
WORD_DELETION, WORD_INSERTION = "SourceWordDeletionFeature", "TargetWordInsertionFeature"
SPARSE_KINDS = (PHRASE_LENGTH, WORD_DELETION, WORD_INSERTION, WORD_TRANSLATION)
WEIGHT_FILE = "weight-file"
# Arguments of features that name files: these, and those that begin so.
PATHS = ("path", "source-path", "target-path", "sparse-weights")
PATHS_BEGIN = ("sparse-words-", "sparse-clusters-")
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
        name: its name: the argument `name`, else type and counter.
        arguments: the other arguments, unchanged.
    """

    kind: str
    name: str
    arguments: dict[str, str]

    @property
    def n_scores(self) -> int:
        """Number of values of the feature that are not sparse (num-features; 1 where it is not given)."""
        default = "0" if self.kind in SPARSE_KINDS else "1"
        return int(self.arguments.get("num-features", default))

    @property
    def file_arguments(self) -> tuple[str, ...]:
        """The arguments that name files."""
        return tuple(key for key in self.arguments if key in PATHS or key.startswith(PATHS_BEGIN))


@dataclass(frozen=True)
class MosesIni:
    """A moses.ini.

    Attributes:
        path: where it was read from.
        lines: all its lines, without "\\n"; those of version 1 as version 2.
        features: the lines of [feature], in their order.
        weights: the lines of [weight].
        settings: the lines of each other section, by its name.
    """

    path: Path
    lines: tuple[bytes, ...]
    features: tuple[Feature, ...]
    weights: dict[str, tuple[float, ...]]
    settings: dict[str, tuple[str, ...]]

    def resolve(self, path_argument: str) -> Path:
        """A file named in the ini: from the working directory as Moses does, else beside the ini."""
        path = Path(path_argument)
        if path.is_absolute() or path.exists():
            return path
        return self.path.parent / path

    def file(self, path_argument: str) -> Path:
        """The same, with ".gz" appended where only that file exists, as Moses does."""
        path, compressed = self.resolve(path_argument), self.resolve(f"{path_argument}.gz")
        return compressed if compressed.exists() and not path.exists() else path

    def files(self) -> list[Path]:
        """The files of the model that are there: those named in the ini, and the ini itself."""
        named = (self.file(path) for _, path in self.named_files())
        return [self.path, *(file for path in named for file in _files_at(path))]

    def named_files(self) -> list[tuple[str, str]]:
        """What names a file, a feature or the section of weights, and the path as it stands there."""
        of_features = [
            (each.name, each.arguments[key])
            for each in self.features
            for key in each.file_arguments
        ]
        return of_features + [(WEIGHT_FILE, path) for path in self.settings.get(WEIGHT_FILE, ())]

    def feature(self, name: str) -> Feature:
        """The feature of a name.

        Raises:
            InputError: there is none.
        """
        for feature in self.features:
            if feature.name == name:
                return feature
        names = ", ".join(feature.name for feature in self.features)
        raise InputError(self.path, None, f"no feature {name}", f"one of {names}")

    def of_kind(self, kind: str) -> tuple[Feature, ...]:
        """The features of a type."""
        return tuple(feature for feature in self.features if feature.kind == kind)


def _files_at(named: Path) -> Iterable[Path]:
    """What a path in an ini names: a file, the files of a directory, or those that begin with a prefix."""
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
    """`parse_ini` of a converted ini, of whose lines the file has the first ones alone."""
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
            raise InputError(
                path,
                line_number,
                f"the section [{section}] of a version 1 ini beside [feature] or [weight]",
                "one version",
            )
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
    """The limit that a section has, None where it has no line.

    Raises:
        InputError: its first line is no whole number, or too small a one.
    """
    for line_number, (found, text) in enumerate(with_sections(ini.lines), start=1):
        if found == section and text:
            return parse_limit(section, text, ini.path, line_number)
    return None


def table_limit_of(ini: MosesIni, feature: Feature) -> int | None:
    """The `table-limit` of a feature, None where it has none.

    Raises:
        InputError: it is no whole number, or negative.
    """
    if TABLE_LIMIT not in feature.arguments:
        return None
    limit = feature.arguments[TABLE_LIMIT]
    return parse_limit(TABLE_LIMIT, limit, ini.path, line_of(ini, feature))


def line_of(ini: MosesIni, feature: Feature) -> int:
    """The number of the line of a feature, from 1."""
    lines = enumerate(with_sections(ini.lines), start=1)
    of_features = [number for number, (section, text) in lines if section == "feature" and text]
    return of_features[ini.features.index(feature)]


def parse_limit(name: str, text: str, path: Path, line_number: int) -> int:
    """A limit out of `LIMITS`, in ASCII digits: Moses reads 1_0 as 1, and other digits as 0.

    Raises:
        InputError: the text is no whole number, or one that the limit cannot have.
    """
    smallest = LIMITS[name]
    is_number = WHOLE_NUMBER.fullmatch(text) and len(text) <= len(str(LARGEST_INT))
    if not is_number or not smallest <= int(text) <= LARGEST_INT:
        raise InputError(
            path, line_number, f"{name}: {text!r}", f"a whole number from {smallest} on"
        )
    return int(text)


def with_weights(ini: MosesIni, weights: Mapping[str, Sequence[float]]) -> MosesIni:
    """The ini with other weights for the features named; every other byte is kept.

    Raises:
        InputError: a name has no weight line in the ini, or another number of weights.
    """
    for name, values in weights.items():
        n_weights = len(_weights_in_ini(ini, name))
        if len(values) != n_weights:
            raise InputError(ini.path, None, f"{n_weights} weights of {name}", f"{len(values)}")
    lines = list(ini.lines)
    for index, (section, text) in enumerate(with_sections(ini.lines)):
        if section == "weight" and text and _weight_name(text) in weights:
            lines[index] = _set_weights(lines[index], weights[_weight_name(text)])
    return parse_ini(tuple(lines), ini.path)


def with_added_scores(
    ini: MosesIni,
    feature_name: str,
    table_path: Path,
    initial_weights: Sequence[float],
    n_replaced: int = 0,
) -> MosesIni:
    """The ini for a table with added scores: num-features, path and weights changed in one edit.

    A group of tables has the scores of its members, so it changes as well.

    Args:
        ini: the ini of the old table.
        feature_name: the phrase table's feature.
        table_path: the new table.
        initial_weights: one weight for each added score.
        n_replaced: number of the old table's last scores removed.

    Raises:
        InputError: the ini has no such feature or no weights for it, or the path holds a blank or
            "#", which Moses cuts.
    """
    n_scores = ini.feature(feature_name).n_scores - n_replaced + len(initial_weights)
    _weights_in_ini(ini, feature_name)
    added = b"".join(b" " + format_weight(weight) for weight in initial_weights)
    changes = {"num-features": str(n_scores), "path": _whole_path(ini.path, table_path)}
    lines = list(_with_arguments(ini, feature_name, changes))
    for index, (section, text) in enumerate(with_sections(lines)):
        if section == "weight" and text and _weight_name(text) == feature_name:
            lines[index] = _behind_content(_without_last(lines[index], n_replaced), added)
    changed = parse_ini(tuple(lines), ini.path)
    for group in ini.of_kind(GROUP_KIND):
        if feature_name in member_names(group):
            names = member_names(group)
            end = sum(ini.feature(name).n_scores for name in names[: names.index(feature_name) + 1])
            replaced = slice(end - n_replaced, end)
            changed = _with_scores_of_group(changed, group, replaced, initial_weights)
    return changed


def sparse_beginnings(features: Iterable[Feature]) -> tuple[str, ...]:
    """How the names of the features' sparse values begin, as `str.startswith` takes it."""
    return tuple(f"{feature.name}_" for feature in features)


def member_names(group: Feature) -> list[str]:
    """The names of the tables of a group or mixture."""
    key = "components" if group.kind == MIXTURE_KIND else "members"
    return [name for name in group.arguments.get(key, "").split(",") if name]


def _with_scores_of_group(
    ini: MosesIni, group: Feature, replaced: slice, weights: Sequence[float]
) -> MosesIni:
    """The ini with other scores in a part of a group's; missing translations have Moses's default, 0."""
    n_scores = group.n_scores + len(weights) - (replaced.stop - replaced.start)
    changes = {"num-features": str(n_scores)}
    if "default-scores" in group.arguments:
        defaults = group.arguments["default-scores"].split(",")
        defaults[replaced] = ["0"] * len(weights)
        changes["default-scores"] = ",".join(defaults)
    lines = list(_with_arguments(ini, group.name, changes))
    for index, (section, text) in enumerate(with_sections(lines)):
        if section == "weight" and text and _weight_name(text) == group.name:
            name, *numbers = _content(lines[index]).split()
            numbers[replaced] = map(format_weight, weights)
            behind = lines[index][len(_content(lines[index])) :]
            lines[index] = b" ".join([name, *numbers]) + behind
    return parse_ini(tuple(lines), ini.path)


def with_path(ini: MosesIni, feature_name: str, path: Path) -> MosesIni:
    """The ini with another file for one feature.

    Raises:
        InputError: the ini has no such feature, or the path holds a blank or "#", which Moses cuts.
    """
    ini.feature(feature_name)
    return parse_ini(
        _with_arguments(ini, feature_name, {"path": _whole_path(ini.path, path)}), ini.path
    )


def with_weight_file(ini: MosesIni, path: Path) -> MosesIni:
    """The ini with another file in the place of its [weight-file].

    Raises:
        InputError: the path holds a blank or "#", which Moses cuts.
    """
    new = _whole_path(ini.path, path).encode("utf-8", "surrogateescape")
    sections = with_sections(ini.lines)
    lines = [
        new if section == WEIGHT_FILE and text else line
        for line, (section, text) in zip(ini.lines, sections, strict=True)
    ]
    return parse_ini(tuple(lines), ini.path)


def with_absolute_paths(ini: MosesIni) -> MosesIni:
    """The ini with all relative paths made absolute, for use from anywhere."""
    return _with_other_paths(ini, lambda path: ini.file(path).resolve())


def _with_other_paths(ini: MosesIni, changed: Callable[[str], Path]) -> MosesIni:
    """The ini with other paths in the place of all relative ones."""
    new = {
        path: place
        for _, path in ini.named_files()
        if not Path(path).is_absolute() and (place := changed(path)) != Path(path)
    }
    for feature in ini.features:
        moved = {
            key: _whole_path(ini.path, new[feature.arguments[key]])
            for key in feature.file_arguments
            if feature.arguments[key] in new
        }
        if moved:
            ini = parse_ini(_with_arguments(ini, feature.name, moved), ini.path)
    for path in ini.settings.get(WEIGHT_FILE, ()):
        ini = with_weight_file(ini, new[path]) if path in new else ini
    return ini


def moved_to(ini: MosesIni, directory: Path) -> MosesIni:
    """The ini for another directory: relative paths stay relative and name the same files.

    A relative path naming nothing beside the ini but something in the working directory, where Moses itself
    looks, stays as it is.

    Args:
        ini: the ini to move.
        directory: the directory of the new ini.
    """
    if directory.resolve() == ini.path.resolve().parent:
        return ini
    old = ini.path.resolve().parent

    def moved(path: str) -> Path:
        is_beside = not _is_of_working_directory(ini, path)
        return Path(os.path.relpath(old / path, directory.resolve()) if is_beside else path)

    return _with_other_paths(ini, moved)


def path_like(ini: MosesIni, feature: Feature, new: Path, directory: Path) -> Path:
    """How an ini in a directory names a new file in place of a feature's: relative if the old path was.

    Args:
        ini: the ini with the old path.
        feature: the feature with the old path.
        new: the new file.
        directory: the directory of the new ini.
    """
    old = feature.arguments["path"]
    if Path(old).is_absolute():
        return new.resolve()
    base = Path.cwd() if _is_of_working_directory(ini, old) else directory.resolve()
    return Path(os.path.relpath(new.resolve(), base))


def _is_of_working_directory(ini: MosesIni, path: str) -> bool:
    """Whether a relative path names files in the working directory, and none beside the ini."""
    return not any(_files_at(ini.path.parent / path)) and any(_files_at(Path(path)))


def write_ini(ini: MosesIni, path: StrPath) -> None:
    """Write the lines of the ini."""
    write_lines(path, list(ini.lines))


def format_weight(weight: float) -> bytes:
    """Seven significant digits, without an exponent, which Moses's scripts could not read."""
    text = f"{weight:.7g}"
    return (f"{weight:.12f}" if "e" in text else text).encode()


def new_ini(
    phrase_table: Path,
    reordering_table: Path,
    language_model: Path,
    language_model_order: int,
    n_table_scores: int = 4,
    distortion_limit: int = 6,
) -> MosesIni:
    """The ini that train-model.perl writes, with its default weights (train-model.perl:2150-2230).

    Raises:
        InputError: a path holds a blank or "#", which Moses cuts.
    """
    for path in (phrase_table, reordering_table, language_model):
        _whole_path("moses.ini", path)
    factors = "input-factor=0 output-factor=0"
    reordering = f"num-features=6 type=wbe-msd-bidirectional-fe-allff {factors}"
    text = f"""\
[input-factors]
0

[mapping]
0 T 0

[distortion-limit]
{distortion_limit}

[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features={n_table_scores} path={phrase_table} {factors}
LexicalReordering name=LexicalReordering0 {reordering} path={reordering_table}
Distortion
KENLM name=LM0 factor=0 path={language_model} order={language_model_order}

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0={" 0.2" * n_table_scores}
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5"""
    return parse_ini(tuple(text.encode().split(b"\n")), Path("moses.ini"))


def with_sections(lines: Sequence[bytes]) -> list[tuple[str, str]]:
    """The section of each line, and its text without comment, empty where it has none."""
    section, result = "", []
    for line in lines:
        header = SECTION.match(line.split(b"#")[0])
        if header:
            section = header.group(1).decode("utf-8", "surrogateescape")
        text = "" if header else line.split(b"#")[0].strip().decode("utf-8", "surrogateescape")
        result.append((section, text))
    return result


def tokens(text: str) -> list[str]:
    """The text between blanks and tabs: other Unicode blanks may be part of a path."""
    return [token for token in re.split("[ \t]+", text) if token]


def _parse_feature(
    text: str, earlier: Sequence[Feature], unnamed: Counter[str], path: Path, line_number: int
) -> Feature:
    """A line of [feature]; a missing name is numbered by the earlier lines without one."""
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
    if arguments.get("path") == "":  # it would name the working directory, and all files below it
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


def _weights_in_ini(ini: MosesIni, name: str) -> tuple[float, ...]:
    if name not in ini.weights:
        raise InputError(
            ini.path,
            None,
            f"no weight line for {name}",
            "one in [weight]",
            f"Add the line {name}= with a weight for each of its scores",
        )
    return ini.weights[name]


def _weight_name(text: str) -> str:
    return tokens(text)[0].removesuffix("=")


def _set_weights(line: bytes, weights: Sequence[float]) -> bytes:
    content = _content(line)
    name = content[: content.index(b"=") + 1]
    return name + b"".join(b" " + format_weight(value) for value in weights) + line[len(content) :]


def _with_arguments(
    ini: MosesIni, feature_name: str, arguments: Mapping[str, str]
) -> tuple[bytes, ...]:
    """The lines of the ini with other arguments of one feature."""
    lines = list(ini.lines)
    features = iter(ini.features)
    for index, (section, text) in enumerate(with_sections(ini.lines)):
        if section == "feature" and text and next(features).name == feature_name:
            for key, value in arguments.items():
                lines[index] = _set_argument(lines[index], key.encode(), value.encode())
    return tuple(lines)


def _set_argument(line: bytes, key: bytes, value: bytes) -> bytes:
    argument = key + b"=" + value
    content = _content(line)
    changed, n_changes = re.subn(rb"(?<=[ \t])" + key + rb"=[^ \t]*", lambda _: argument, content)
    if n_changes:
        return changed + line[len(content) :]
    return _behind_content(line, b" " + argument)


def _without_last(line: bytes, n_weights: int) -> bytes:
    content = _content(line)
    return content.rsplit(None, n_weights)[0] + line[len(content) :] if n_weights else line


def _behind_content(line: bytes, added: bytes) -> bytes:
    """The line with text inserted between its content and the blanks, comment or CR behind it."""
    content = _content(line)
    return content + added + line[len(content) :]


def _content(line: bytes) -> bytes:
    return line.split(b"#")[0].rstrip()


def _whole_path(ini_path: StrPath, path: Path) -> str:
    """The path as text, if Moses reads it whole."""
    if re.search(r"[\s#]", str(path)):
        raise InputError(
            ini_path,
            None,
            f"the path {str(path)!r}",
            "one without blanks and '#', which Moses cuts",
        )
    return str(path)


def _check_weights(ini: MosesIni) -> None:
    for feature in ini.features:
        weights = ini.weights.get(feature.name)
        if weights is None or "num-features" not in feature.arguments:
            continue
        if len(weights) != feature.n_scores:
            raise InputError(
                ini.path,
                None,
                f"{len(weights)} weights of {feature.name}",
                f"{feature.n_scores}, its num-features",
            )
