"""The text of a manual page: sections of paragraphs, from groff's man macros.

The macros are those of groff_man(7), the escapes those of groff(7) and groff_char(7). A page's own macros
and its conditional text are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from moses_bridge.corpus.text_pair import tidy

Kind = Literal["heading", "subheading", "paragraph", "tag", "example"]

COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)\\[\"#].*")
ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\.|[^\s\\])+)')
NAMED = r"(?:\((?P<{0}two>..)|\[(?P<{0}long>[^\]]*)\]|(?P<{0}one>.))"
ESCAPE = re.compile(
    r"\\(?:(?P<kind>[fFgkmMnVY])[-+]?(?:\(..|\[[^\]]*\]|.)"
    r"|s[-+]?(?:\([-+]?..|\[[^\]]*\]|'[^']*'|[1-3]\d|\d)"
    r"|[bBDhHlLNoRSvwxXZ]'[^']*'"
    r"|\*" + NAMED.format("string_") + "|" + NAMED.format("") + ")"
)
ONE_LETTER = {
    **dict.fromkeys("&/,|^%:)cudprtz{}", ""),
    **dict.fromkeys(" ~0", " "),
    **{"-": "-", "e": "\\", "\\": "\\", "'": "\u00b4", "`": "`", ".": ".", "_": "_", "!": "!"},
}
NAMED_CHARACTERS = {
    **{"em": "\u2014", "en": "\u2013", "hy": "-", "mi": "-", "pl": "+", "eq": "=", "sl": "/"},
    **{"aq": "'", "dq": '"', "lq": "\u201c", "rq": "\u201d", "oq": "\u2018", "cq": "\u2019"},
    **{"Fo": "\u00ab", "Fc": "\u00bb", "fo": "\u2039", "fc": "\u203a", "Bq": "\u201e"},
    **{"bq": "\u201a", "bu": "\u2022", "co": "\u00a9", "rg": "\u00ae", "tm": "\u2122"},
    **{"rs": "\\", "ti": "~", "ha": "^", "ga": "`", "aa": "\u00b4", "ul": "_", "ba": "|"},
    **{"at": "@", "sh": "#", "Do": "$", "ct": "\u00a2", "Po": "\u00a3", "Eu": "\u20ac"},
    **{"sc": "\u00a7", "ps": "\u00b6", "de": "\u00b0", "+-": "\u00b1", "mu": "\u00d7"},
    **{"di": "\u00f7", "<=": "\u2264", ">=": "\u2265", "!=": "\u2260", "->": "\u2192"},
    **{"<-": "\u2190", "la": "\u27e8", "ra": "\u27e9", "lB": "[", "rB": "]", "lC": "{"},
    **{"rC": "}", "ss": "\u00df", "oe": "\u0153", "OE": "\u0152", "ae": "\u00e6"},
    **{"AE": "\u00c6", "/o": "\u00f8", "/O": "\u00d8", "oa": "\u00e5", "oA": "\u00c5"},
    **{"mc": "\u00b5", "*m": "\u03bc", "12": "\u00bd", "14": "\u00bc", "34": "\u00be"},
    **{"f/": "\u2044", "Of": "\u00aa", "Om": "\u00ba", "r!": "\u00a1", "r?": "\u00bf"},
}
ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", ":": "\u0308", "~": "\u0303", ",": "\u0327"}
# Strings that groff's man macros and those of Perl's pod2man define.
STRINGS = {
    **{
        "lq": "\u201c",
        "rq": "\u201d",
        "R": "\u00ae",
        "Tm": "\u2122",
        "S": "",
        "Aq": "'",
        "aq": "'",
    },
    **{'L"': '"', 'R"': '"', "C`": "", "C'": "", "--": "-", "PI": "\u03c0"},
}

BREAKS = frozenset(["PP", "P", "LP", "HP", "sp", "br", "RS", "RE", "in", "ti", "bp"])
JOINED = frozenset(["BI", "BR", "IB", "IR", "RB", "RI"])
SPACED = frozenset(["B", "I", "R", "SM", "SB", "CW", "CB", "nop"])
SKIPPED = {"nf": "fi", "EX": "EE", "TS": "TE", "EQ": "EN", "PS": "PE", "SY": "YS"}
DEFINITIONS = frozenset(["de", "de1", "am", "am1", "ig"])
CONDITIONS = frozenset(["if", "ie", "el", "while"])


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page.

    Attributes:
        kind: a heading, a paragraph, the tag of a paragraph (an option, say), or an example: lines that are
            shown as they are, tables and synopses.
        text: plain text; None for an example and for text with an escape that has no plain form.
    """

    kind: Kind
    text: str | None


Section = list[Block]


def read_page(page: str) -> list[Section]:
    """The sections of a manual page, each of which begins with its heading.

    What is before the first heading is left out. A page that only points to another one has no sections,
    nor has one in other macros (mdoc).
    """
    reader = _PageReader()
    lines = iter(page.replace("\\\n", "").split("\n"))
    for line in lines:
        reader.read(COMMENT.sub(r"\1", line), lines)
    reader.close()
    return reader.sections


def plain_text(text: str) -> str | None:
    """Text without groff's escapes; None if one of them has no plain form."""
    unknown = False

    def of_escape(match: re.Match[str]) -> str:
        nonlocal unknown
        plain = _plain_escape(match)
        unknown |= plain is None
        return plain or ""

    plain = tidy(ESCAPE.sub(of_escape, text))
    return None if unknown else plain


def _plain_escape(match: re.Match[str]) -> str | None:
    if name := match["string_two"] or match["string_long"] or match["string_one"]:
        return STRINGS.get(name)
    if match["one"]:
        return ONE_LETTER.get(match["one"])
    name = match["two"] or match["long"]
    return _named_character(name) if name else ""


def _named_character(name: str) -> str | None:
    if name in NAMED_CHARACTERS:
        return NAMED_CHARACTERS[name]
    if re.fullmatch("u[0-9A-F]{4,5}", name):
        return chr(int(name[1:], 16))
    if len(name) == 2 and name[0] in ACCENTS:
        return unicodedata.normalize("NFC", name[1] + ACCENTS[name[0]])
    return None


class _PageReader:
    def __init__(self) -> None:
        self.sections: list[Section] = []
        self._kind: Kind = "paragraph"
        self._text = ""
        self._is_one_line = False
        self._address = ""

    def read(self, line: str, rest: Iterator[str]) -> None:
        if line.startswith((".", "'")):
            name, _, arguments = line[1:].lstrip().partition(" ")
            self._read_request(name.rstrip(), arguments, rest)
        elif line.strip():
            self._add(line)
        else:
            self.close()

    def close(self) -> None:
        """End the current block."""
        if self._text.strip() and self.sections:
            self.sections[-1].append(Block(self._kind, plain_text(self._text)))
        self._text = ""
        self._kind = "paragraph"
        self._is_one_line = False

    def _read_request(self, name: str, arguments: str, rest: Iterator[str]) -> None:
        if name in BREAKS:
            self.close()
        elif name in ("SH", "SS"):
            self._open("heading" if name == "SH" else "subheading", " ".join(_split(arguments)))
        elif name in ("TP", "TQ"):
            self._open("tag", "")
        elif name == "IP":
            self._open("tag", "".join(_split(arguments)[:1]) or "\\&")
        elif name in SPACED:
            self._add(" ".join(_split(arguments)))
        elif name in JOINED:
            self._add("".join(_split(arguments)))
        elif name in ("UR", "MT"):
            self._address = "".join(_split(arguments)[:1])
        elif name in ("UE", "ME"):
            self._add_address("".join(_split(arguments)[:1]))
        elif name in SKIPPED:
            self._skip_example(SKIPPED[name], rest)
        elif name in DEFINITIONS:
            _skip_definition(arguments, rest)
        elif name in CONDITIONS:
            _skip_condition(arguments, rest)

    def _open(self, kind: Kind, text: str) -> None:
        """Begin a block of one line; without a text the next line is that line."""
        self.close()
        if kind == "heading":
            self.sections.append([])
        self._kind, self._is_one_line = kind, True
        if text:
            self._add(text)

    def _add(self, text: str) -> None:
        if not text.strip():
            return
        goes_on = text.endswith("\\c")
        self._text += text + ("" if goes_on else " ")
        self._address = ""
        if self._is_one_line and not goes_on:
            self.close()

    def _add_address(self, punctuation: str) -> None:
        """End a link: its text, or its address if it has none, and what follows without a space."""
        if self._address:
            self._add(self._address)
        if self._text:
            self._text = self._text.rstrip(" ") + punctuation + " "

    def _skip_example(self, end: str, rest: Iterator[str]) -> None:
        self.close()
        if self.sections:
            self.sections[-1].append(Block("example", None))
        _skip_to(re.compile(rf"[.'][ \t]*{end}\b"), rest)


def _split(arguments: str) -> list[str]:
    found = ARGUMENT.finditer(arguments)
    return [match[2] or (match[1] or "").replace('""', '"') for match in found]


def _skip_definition(arguments: str, rest: Iterator[str]) -> None:
    names = _split(arguments)
    end = names[1] if len(names) > 1 else "."
    _skip_to(re.compile(rf"\.[ \t]*{re.escape(end)}"), rest)


def _skip_condition(arguments: str, rest: Iterator[str]) -> None:
    depth = arguments.count("\\{") - arguments.count("\\}")
    while depth > 0 and (line := next(rest, None)) is not None:
        depth += line.count("\\{") - line.count("\\}")


def _skip_to(end: re.Pattern[str], rest: Iterator[str]) -> None:
    for line in rest:
        if end.match(line):
            return
