"""Translation memories (TMX 1.1 to 1.4) of any size, read unit by unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html.entities import html5
from pathlib import Path
from xml.parsers.expat import ExpatError, ParserCreate

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_pieces

# The contents of these elements are code of the document's format, not text (TMX 1.4b, "Content Markup").
CODE = frozenset({"bpt", "ept", "it", "ph", "ut"})
MOST_LANGUAGES_SHOWN = 8


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
    wanted = _plain(language)
    found = None
    for name, text in unit:
        if _plain(name) == wanted:
            return text
        if found is None and _plain(name).startswith(wanted + "-"):
            found = text
    return found


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
