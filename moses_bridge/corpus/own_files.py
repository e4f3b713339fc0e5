"""The user's own parallel text: two plain files, or files with both languages."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polib

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.text_lines import decoded_line, read_parallel, read_text_lines
from moses_bridge.base.textio import COMPRESSIONS, read_bytes
from moses_bridge.corpus.text_pair import TextPair, sentence_pairs, tidy
from moses_bridge.corpus.tmx import tmx_pairs

# Neighbouring lines mostly belong to one document, so they go into one part.
PAIRS_PER_GROUP = 10
FORMATS = (".tmx", ".po", ".mo", ".tsv")
FAULT = re.compile(r"Syntax error in po file.*\(line (\d+)\)(?:: (.*))?", re.DOTALL)
MO_MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")


def line_pairs(source_file: Path, target_file: Path) -> Iterator[TextPair]:
    """Yield the lines of two files side by side; InputError if one is not UTF-8 or has fewer lines."""
    for position, (left, right) in enumerate(read_parallel(source_file, target_file)):
        yield TextPair(
            f"lines {position // PAIRS_PER_GROUP:012d}",
            tidy(decoded_line(left, source_file, position + 1)),
            tidy(decoded_line(right, target_file, position + 1)),
        )


def bilingual_pairs(
    files: Sequence[Path], source: str, target: str, columns: tuple[int, int], dropped: Counter[str]
) -> Iterator[TextPair]:
    """Yield the pairs of files with both languages, file by file: TMX, gettext catalogues (.po, .mo) or .tsv.

    Columns are those of source and target in a table, from 1; `dropped` counts the entries lacking one of the
    languages.

    Raises:
        ConfigError: a file has another suffix.
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
    """The suffix naming a file's format, before one of compression; ConfigError if there is no such format."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in FORMATS:
        raise ConfigError(f"{path}: expected a file in {', '.join(FORMATS)}, as its name ends")
    return suffixes[-1]


def column_pairs(path: Path, columns: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Yield two columns of a tab-separated table; quotes are ordinary characters.

    InputError if a line has too few columns or is not UTF-8.
    """
    for number, line in enumerate(read_text_lines(path), start=1):
        cells = decoded_line(line, path, number).split("\t")
        if len(cells) < max(columns):
            found = f"{len(cells)} columns"
            expected = f"texts in the columns {columns[0]} and {columns[1]}"
            raise InputError(path, number, found, expected, "The key columns says which they are")
        yield cells[columns[0] - 1], cells[columns[1] - 1]


def catalogue_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield the translated messages of a gettext catalogue, by sentence if both sides have the same number.

    Fuzzy and obsolete messages are left out. A singular goes with the first plural form, a plural with the
    last. The header's "Language" gives the language of the translations; without it, they are the target. The
    catalogue is text (.po) or compiled (.mo); a suffix of compression may follow.

    Raises:
        InputError: it is malformed, not in the encoding it names, or in neither language.
    """
    catalogue = _parse(path)
    is_reversed = _is_source(path, catalogue.metadata.get("Language", ""), source, target)
    for message, translation in _texts(catalogue):
        left, right = tidy(message), tidy(translation)
        if is_reversed:
            left, right = right, left
        for pair in sentence_pairs(None, left, right, source, target):
            yield pair.source, pair.target


def _parse(path: Path) -> Any:
    """The catalogue in a file's bytes; polib never gets a text it could take for a file name."""
    data, is_compiled = read_bytes(path), ".mo" in path.suffixes[-2:]
    if is_compiled and (data[:4] not in MO_MAGIC or b"\0" not in data):
        raise InputError(path, None, "no catalogue's first bytes", "a compiled catalogue (.mo)")
    data += b"\n"
    encoding = polib.detect_encoding(data, binary_mode=True)
    try:
        if is_compiled:
            return polib.mofile(data, encoding=encoding)
        return polib.pofile(data.decode(encoding), encoding=encoding)
    except UnicodeDecodeError as error:
        line = None if is_compiled else data.count(b"\n", 0, error.start) + 1
        found = f"bytes that are {error.reason}"
        raise InputError(path, line, found, f"text in {encoding}, as the header says") from error
    except (OSError, struct.error, ValueError, IndexError) as error:
        match = FAULT.search(str(error))
        line, reason = (int(match[1]), match[2]) if match else (None, str(error))
        found = f"a malformed catalogue ({reason or 'syntax error'})"
        raise InputError(path, line, found, "a catalogue of gettext") from error


def _is_source(path: Path, language: str, source: str, target: str) -> bool:
    name = language.strip()
    if not name or _fits(name, target):
        return False
    if _fits(name, source):
        return True
    raise InputError(path, None, f'"Language: {name}"', f"translations into {target} or {source}")


def _fits(name: str, language: str) -> bool:
    """Whether a language is the requested one, or a region of it: "fr_CA" and "fr"."""
    plain = re.split(r"[.@]", name)[0].replace("-", "_").casefold()
    return plain == language.casefold() or plain.startswith(language.casefold() + "_")


def _texts(catalogue: Any) -> Iterator[tuple[str, str]]:
    for entry in catalogue.translated_entries():
        if entry.msgid_plural:
            forms = [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural)]
            if len(forms) > 1:
                yield entry.msgid, forms[0]
            yield entry.msgid_plural, forms[-1]
        else:
            yield entry.msgid, entry.msgstr
