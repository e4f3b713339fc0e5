"""Changing moses.ini: other weights, files and places, keeping every other byte; and making a new one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, write_lines
from moses_bridge.formats.moses_ini import (
    GROUP_KIND,
    WEIGHT_FILE,
    Feature,
    MosesIni,
    files_at,
    member_names,
    parse_ini,
    tokens,
    with_sections,
)

Edit = Callable[[str, bytes], bytes]  # maps the text and the bytes of a line to its new bytes


def with_weights(ini: MosesIni, weights: Mapping[str, Sequence[float]]) -> MosesIni:
    """Change the weights of the named features, keeping every other byte.

    Raises:
        InputError: a name has no weight line in the ini, or another number of weights.
    """
    for name, values in weights.items():
        n_weights = len(_weights_in_ini(ini, name))
        if len(values) != n_weights:
            raise InputError(ini.path, None, f"{n_weights} weights of {name}", f"{len(values)}")

    def changed(text: str, line: bytes) -> bytes:
        values = weights.get(_weight_name(text))
        return line if values is None else _set_weights(line, values)

    return parse_ini(_edited(ini.lines, "weight", changed), ini.path)


def with_added_scores(
    ini: MosesIni, feature_name: str, table_path: Path, initial_weights: Sequence[float],
    n_replaced: int = 0,
) -> MosesIni:  # fmt: skip
    """Change num-features, path and weights for a table with added scores, in one edit.

    The last `n_replaced` scores of the old table are removed. A group of tables has the scores of its members,
    so it changes as well.

    Raises:
        InputError: the ini has no such feature or no weights for it, or the path contains a blank or
            "#", where Moses cuts it.
    """
    n_scores = ini.feature(feature_name).n_scores - n_replaced + len(initial_weights)
    _weights_in_ini(ini, feature_name)
    added = b"".join(b" " + format_weight(weight) for weight in initial_weights)
    changes = {"num-features": str(n_scores), "path": _whole_path(ini.path, table_path)}

    def extended(text: str, line: bytes) -> bytes:
        if _weight_name(text) != feature_name:
            return line
        return _append_to_content(_without_last(line, n_replaced), added)

    lines = _edited(_with_arguments(ini, feature_name, changes), "weight", extended)
    changed = parse_ini(lines, ini.path)
    for group in ini.of_kind(GROUP_KIND):
        if feature_name in member_names(group):
            names = member_names(group)
            end = sum(ini.feature(name).n_scores for name in names[: names.index(feature_name) + 1])
            replaced = slice(end - n_replaced, end)
            changed = _with_scores_of_group(changed, group, replaced, initial_weights)
    return changed


def _with_scores_of_group(
    ini: MosesIni, group: Feature, replaced: slice, weights: Sequence[float]
) -> MosesIni:
    """Replace a part of a group's scores; missing translations have Moses's default, 0."""
    n_scores = group.n_scores + len(weights) - (replaced.stop - replaced.start)
    changes = {"num-features": str(n_scores)}
    if "default-scores" in group.arguments:
        defaults = group.arguments["default-scores"].split(",")
        defaults[replaced] = ["0"] * len(weights)
        changes["default-scores"] = ",".join(defaults)

    def changed(text: str, line: bytes) -> bytes:
        if _weight_name(text) != group.name:
            return line
        name, *numbers = _content(line).split()
        numbers[replaced] = map(format_weight, weights)
        return b" ".join([name, *numbers]) + line[len(_content(line)) :]

    return parse_ini(
        _edited(_with_arguments(ini, group.name, changes), "weight", changed), ini.path
    )


def with_path(ini: MosesIni, feature_name: str, path: Path) -> MosesIni:
    """Change the file of one feature.

    Raises:
        InputError: the ini has no such feature, or the path contains a blank or "#", where Moses cuts it.
    """
    ini.feature(feature_name)
    changes = {"path": _whole_path(ini.path, path)}
    return parse_ini(_with_arguments(ini, feature_name, changes), ini.path)


def with_weight_file(ini: MosesIni, path: Path) -> MosesIni:
    """Change the file in [weight-file]; InputError if the path contains a blank or "#", where Moses cuts it."""
    new = _whole_path(ini.path, path).encode("utf-8", "surrogateescape")
    return parse_ini(_edited(ini.lines, WEIGHT_FILE, lambda text, line: new), ini.path)


def with_absolute_paths(ini: MosesIni) -> MosesIni:
    """Make all relative paths absolute, for use from anywhere."""
    return _with_other_paths(ini, lambda path: ini.file(path).resolve())


def _with_other_paths(ini: MosesIni, changed: Callable[[str], Path]) -> MosesIni:
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
    """Adapt an ini to another directory: relative paths stay relative and name the same files.

    A relative path naming nothing next to the ini but something in the working directory, where Moses looks,
    stays as it is.
    """
    if directory.resolve() == ini.path.resolve().parent:
        return ini
    old = ini.path.resolve().parent

    def moved(path: str) -> Path:
        is_next_to_ini = not _is_of_working_directory(ini, path)
        return Path(os.path.relpath(old / path, directory.resolve()) if is_next_to_ini else path)

    return _with_other_paths(ini, moved)


def path_like(ini: MosesIni, feature: Feature, new: Path, directory: Path) -> Path:
    """The path of a new file replacing a feature's, for an ini in `directory`: relative if the old path was."""
    old = feature.arguments["path"]
    if Path(old).is_absolute():
        return new.resolve()
    base = Path.cwd() if _is_of_working_directory(ini, old) else directory.resolve()
    return Path(os.path.relpath(new.resolve(), base))


def _is_of_working_directory(ini: MosesIni, path: str) -> bool:
    """Whether a relative path names files in the working directory, and none next to the ini."""
    return not any(files_at(ini.path.parent / path)) and any(files_at(Path(path)))


def write_ini(ini: MosesIni, path: StrPath) -> None:
    """Write the lines of the ini."""
    write_lines(path, list(ini.lines))


def format_weight(weight: float) -> bytes:
    """Format with seven significant digits, without an exponent, which Moses's scripts could not read."""
    text = f"{weight:.7g}"
    return (f"{weight:.12f}" if "e" in text else text).encode()


def new_ini(
    phrase_table: Path, reordering_table: Path | None, language_model: Path,
    language_model_order: int, n_table_scores: int = 4, distortion_limit: int = 6,
) -> MosesIni:  # fmt: skip
    """Make an ini as train-model.perl does, with its default weights (train-model.perl:2150-2230).

    Without a reordering table, phrases are translated in their order: the distortion limit is 0, and no feature
    is of reordering.

    Raises:
        InputError: a path contains a blank or "#", where Moses cuts it.
    """
    for path in (phrase_table, reordering_table, language_model):
        if path is not None:
            _whole_path("moses.ini", path)
    factors = "input-factor=0 output-factor=0"
    features, weights = "", ""
    if reordering_table is None:
        distortion_limit = 0
    else:
        kind = f"num-features=6 type=wbe-msd-bidirectional-fe-allff {factors}"
        features = f"""\
LexicalReordering name=LexicalReordering0 {kind} path={reordering_table}
Distortion
"""
        weights = "LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3\nDistortion0= 0.3\n"
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
{features}KENLM name=LM0 factor=0 path={language_model} order={language_model_order}

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0={" 0.2" * n_table_scores}
{weights}LM0= 0.5"""
    return parse_ini(tuple(os.fsencode(text).split(b"\n")), Path("moses.ini"))


def _weights_in_ini(ini: MosesIni, name: str) -> tuple[float, ...]:
    if name not in ini.weights:
        found = f"no weight line for {name}"
        expected = "one in [weight]"
        hint = f"Add the line {name}= with a weight for each of its scores"
        raise InputError(ini.path, None, found, expected, hint)
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
    features = iter(ini.features)

    def changed(text: str, line: bytes) -> bytes:
        if next(features).name == feature_name:
            for key, value in arguments.items():
                line = _set_argument(line, key.encode(), os.fsencode(value))
        return line

    return _edited(ini.lines, "feature", changed)


def _edited(lines: Sequence[bytes], section: str, edit: Edit) -> tuple[bytes, ...]:
    """Edit the lines of a section that have a text."""
    return tuple(
        edit(text, line) if found == section and text else line
        for line, (found, text) in zip(lines, with_sections(lines), strict=True)
    )


def _set_argument(line: bytes, key: bytes, value: bytes) -> bytes:
    argument = key + b"=" + value
    content = _content(line)
    changed, n_changes = re.subn(rb"(?<=[ \t])" + key + rb"=[^ \t]*", lambda _: argument, content)
    if n_changes:
        return changed + line[len(content) :]
    return _append_to_content(line, b" " + argument)


def _without_last(line: bytes, n_weights: int) -> bytes:
    content = _content(line)
    return content.rsplit(None, n_weights)[0] + line[len(content) :] if n_weights else line


def _append_to_content(line: bytes, added: bytes) -> bytes:
    """Insert text between the content of a line and the blanks, comment or CR after it."""
    content = _content(line)
    return content + added + line[len(content) :]


def _content(line: bytes) -> bytes:
    return line.split(b"#")[0].rstrip()


def _whole_path(ini_path: StrPath, path: Path) -> str:
    """The path as text, provided that Moses reads all of it."""
    if re.search(r"[\s#]", str(path)):
        found = f"the path {str(path)!r}"
        raise InputError(ini_path, None, found, "one without blanks and '#', which Moses cuts")
    return str(path)
