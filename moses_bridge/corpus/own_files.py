"""The user's own parallel text: two plain files, or files holding both languages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import COMPRESSIONS, read_lines, read_parallel
from moses_bridge.corpus.gettext_catalogue import catalogue_pairs
from moses_bridge.corpus.text_pair import TextPair, tidy
from moses_bridge.corpus.tmx import tmx_pairs

# Lines near each other belong to one document more often than not, so they go into one part.
PAIRS_PER_GROUP = 10
FORMATS = (".tmx", ".po", ".mo", ".tsv")


def line_pairs(source_file: Path, target_file: Path) -> Iterator[TextPair]:
    """Yield the lines of two files side by side.

    Raises:
        InputError: a file is not UTF-8 or has fewer lines than the other one.
    """
    for position, (left, right) in enumerate(read_parallel(source_file, target_file)):
        yield TextPair(
            f"lines {position // PAIRS_PER_GROUP:012d}",
            tidy(_decode(left, source_file, position + 1)),
            tidy(_decode(right, target_file, position + 1)),
        )


def bilingual_pairs(
    files: Sequence[Path],
    source: str,
    target: str,
    columns: tuple[int, int],
    dropped: Counter[str],
) -> Iterator[TextPair]:
    """Yield the pairs of files holding both languages, file by file.

    Args:
        files: TMX, gettext catalogues (.po, .mo) or tables (.tsv), compressed or not.
        source: source language code.
        target: target language code.
        columns: of a table, the source's and the target's, from 1.
        dropped: counts the entries lacking one of the languages.

    Raises:
        ConfigError: a suffix is none of those.
        InputError: a file is malformed or lacks one of the languages.
    """
    readers = {
        ".tmx": lambda path: tmx_pairs(path, source, target, dropped),
        ".po": lambda path: catalogue_pairs(path, source, target),
        ".mo": lambda path: catalogue_pairs(path, source, target),
        ".tsv": lambda path: column_pairs(path, columns),
    }
    for path in files:
        format_of(path)
    for number, path in enumerate(files):
        reader: Callable[[Path], Iterator[tuple[str, str]]] = readers[format_of(path)]
        for position, (left, right) in enumerate(reader(path)):
            group = f"file {number} {position // PAIRS_PER_GROUP:012d}"
            yield TextPair(group, tidy(left), tidy(right))


def format_of(path: Path) -> str:
    """The suffix naming a file's format; one of compression may follow it.

    Raises:
        ConfigError: there is no such format.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in FORMATS:
        raise ConfigError(f"{path}: expected a file in {', '.join(FORMATS)}, as its name ends")
    return suffixes[-1]


def column_pairs(path: Path, columns: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Yield two columns of a tab-separated table; quotes are ordinary characters.

    Raises:
        InputError: a line has too few columns or is not UTF-8.
    """
    for number, line in enumerate(read_lines(path), start=1):
        cells = _decode(line, path, number).split("\t")
        if len(cells) < max(columns):
            found = f"{len(cells)} columns"
            expected = f"texts in the columns {columns[0]} and {columns[1]}"
            raise InputError(path, number, found, expected, "The key columns says which they are")
        yield cells[columns[0] - 1], cells[columns[1] - 1]


def _decode(line: bytes, path: Path, line_number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            path, line_number, f"bytes that are {error.reason}", "UTF-8 text"
        ) from error
