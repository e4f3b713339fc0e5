"""The user's own parallel text: two plain files, or files with both languages."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.entities import html5
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

import polib

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.text_lines import decoded_line, read_parallel, read_text_lines
from moses_bridge.base.textio import COMPRESSIONS, read_bytes, read_pieces
from moses_bridge.corpus.text_pair import TextPair, sentence_pairs, tidy

# Neighbouring lines mostly belong to one document, so they go into one part.
PAIRS_PER_GROUP = 10
FORMATS = (".tmx", ".po", ".mo", ".tsv")
FAULT = re.compile(r"Syntax error in po file.*\(line (\d+)\)(?:: (.*))?", re.DOTALL)
MO_MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")
# The contents of these elements are code of the document's format, not text (TMX 1.4b, "Content Markup").
CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})
MOST_LANGUAGES_SHOWN = 8


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
    code = re.split(r"[.@]", name)[0]
    if not name or _fits(code, target):
        return False
    if _fits(code, source):
        return True
    raise InputError(path, None, f'"Language: {name}"', f"translations into {target} or {source}")


def _fits(name: str, language: str) -> bool:
    """Whether a language is the requested one, or a region of it: "fr_CA" and "fr"."""
    return (_plain(name) + "-").startswith(_plain(language) + "-")


def _texts(catalogue: Any) -> Iterator[tuple[str, str]]:
    for entry in catalogue.translated_entries():
        if entry.msgid_plural:
            forms = [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural)]
            if len(forms) > 1:
                yield entry.msgid, forms[0]
            yield entry.msgid_plural, forms[-1]
        else:
            yield entry.msgid, entry.msgstr


def tmx_pairs(
    path: Path, source: str, target: str, dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield the texts of all units with both languages; `dropped` counts the others.

    A language without region takes all its regions, the one without region first: "en" takes xml:lang="en",
    "EN-us" and "en_GB"; "pt_BR" takes "pt-BR" alone. Inline tags are left out with their code; text marked by
    <hi> stays. Entities declared by the file are refused; nothing outside the file is read. The file is in any
    encoding named by its XML declaration or byte order mark.

    Raises:
        InputError: it is no TMX, malformed XML, declares entities, or has no unit with both languages.
    """
    memory = _Memory(path)
    languages: Counter[str] = Counter()
    n_units = n_pairs = 0
    for unit in memory.units():
        n_units += 1
        languages.update(language for language, _ in unit)
        left, right = _text_in(unit, source), _text_in(unit, target)
        if left is None or right is None:
            dropped["other languages"] += 1
            continue
        n_pairs += 1
        yield left, right
    if not n_pairs:
        names = ", ".join(name for name, _ in languages.most_common(MOST_LANGUAGES_SHOWN))
        without = "no <seg> in any <tu>" if n_units else "no <tu>"
        found = f"units in {names}" if names else without
        raise InputError(path, None, found, f"units in {source} and {target}")


Unit = list[tuple[str, str]]


def _text_in(unit: Unit, language: str) -> str | None:
    fitting = [
        (_plain(name) != _plain(language), text) for name, text in unit if _fits(name, language)
    ]
    return min(fitting, key=lambda found: found[0])[1] if fitting else None


def _plain(language: str) -> str:
    return language.replace("_", "-").casefold()


class _Memory:
    """The units of one file, languages with texts, while it is parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parser = ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._name_entity
        self._finished: list[Unit] = []
        self._unit: Unit = []
        self._language = ""
        self._texts: list[str] | None = None  # of the segment that is open
        self._n_open = 0
        self._code_depth = 0

    def units(self) -> Iterator[Unit]:
        for piece in read_pieces(self.path):
            yield from self._parse(piece, is_last=False)
        yield from self._parse(b"", is_last=True)

    def _parse(self, piece: bytes, *, is_last: bool) -> list[Unit]:
        try:
            self._parser.Parse(piece, is_last)
        except ExpatError as error:
            found = f"malformed XML ({str(error).partition(':')[0]})"
            raise InputError(self.path, error.lineno, found, "a complete TMX file") from error
        units, self._finished = self._finished, []
        return units

    def _fault(self, found: str, expected: str, hint: str = "") -> InputError:
        return InputError(self.path, self._parser.CurrentLineNumber, found, expected, hint)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._n_open += 1
        if self._n_open == 1 and tag != "tmx":
            raise self._fault(f"<{tag}>", "<tmx>")
        if tag in CODE:
            self._code_depth += 1
            if tag == "ph":  # often a line break or an image: separates two words
                self._add_blank()
        elif tag == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
            if not self._language:
                raise self._fault("<tuv> without a language", 'xml:lang="..."')
        elif tag == "seg":
            self._texts = []

    def _end(self, tag: str) -> None:
        self._n_open -= 1
        if tag in CODE:
            self._code_depth -= 1
        elif tag == "seg" and self._texts is not None:
            self._unit.append((self._language, "".join(self._texts)))
            self._texts = None
        elif tag == "tu":
            self._finished.append(self._unit)
            self._unit = []

    def _add(self, text: str) -> None:
        if self._texts is not None and not self._code_depth:
            self._texts.append(text)

    def _add_blank(self) -> None:
        if self._texts is not None:
            self._texts.append(" ")

    def _refuse_entity(self, name: str, *_: object) -> None:
        hint = "Such a declaration can grow without bound, or read other files; write out what it stands for"
        raise self._fault(f"a declaration of the entity {name}", "none", hint)

    def _name_entity(self, name: str, is_parameter: bool) -> None:
        """Add an entity declared in an outer DTD, which is not read; HTML's names are known."""
        if is_parameter:
            return
        text = html5.get(f"{name};")
        if text is None:
            raise self._fault(f"the unknown entity &{name};", "text, or &#NUMBER;")
        self._add(text)
