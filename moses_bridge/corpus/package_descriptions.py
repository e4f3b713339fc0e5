"""Parallel text from Debian's translated package descriptions, joined by Description-md5."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from types import MappingProxyType

from moses_bridge.base.textio import read_lines
from moses_bridge.corpus.text_pair import TextPair, sentence_pairs, tidy

ITEM = re.compile(r"(?:[-*+•·–—‣]|(?<=\s)o|\d{1,2}[.)])\s+(?=\S)")
# The translators' web form shows a no-break space as this dot, often left in the text.
NO_BREAK_DOT = "\u22c5"


@dataclass(frozen=True, slots=True)
class Description:
    """A package's description in one language: one-line title, body by line without leading space."""

    package: str
    title: str
    body: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of text translated as one: a prose paragraph, a list item (without bullet) or a verbatim line."""

    text: str
    is_item: bool


def read_descriptions(path: Path, language: str) -> dict[str, Description]:
    """Read an index of descriptions (Translation-XX), by Description-md5; the first of equal sums stays."""
    descriptions: dict[str, Description] = {}
    for has_text, stanza in groupby(read_lines(path), lambda line: bool(line.strip())):
        fields = _fields(stanza) if has_text else {}
        title, *body = fields.get(f"Description-{language}", [""])
        md5 = " ".join(fields.get("Description-md5", [])).strip()
        if md5 and title:
            package = " ".join(fields.get("Package", [])).strip()
            descriptions.setdefault(md5, Description(package, title, tuple(body)))
    return descriptions


def _fields(stanza: Iterable[bytes]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    values = list[str]()
    for line in (line.decode("utf-8", errors="replace") for line in stanza):
        if line.startswith((" ", "\t")):
            values.append(line[1:].rstrip())
        else:
            name, _, value = line.partition(":")
            values = fields[name] = [value.strip()]
    return fields


def description_pairs(
    source_index: Path,
    target_index: Path,
    source: str,
    target: str,
    dropped: Counter[str],
    source_packages: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[TextPair]:
    """Yield the sentences of all descriptions existing in both languages, in order of package.

    The indexes are files Translation-XX. Source packages are the groups of sentences, since packages of one
    source have much text in common; other packages are groups of their own. `dropped` counts the texts not
    aligned.
    """
    sources = read_descriptions(source_index, source)
    targets = read_descriptions(target_index, target)
    for md5 in sorted(sources.keys() & targets.keys(), key=lambda md5: (sources[md5].package, md5)):
        package = sources[md5].package
        group = source_packages.get(package, package)
        for left, right in _aligned_texts(sources[md5], targets[md5], dropped):
            yield from sentence_pairs(group, left, right, source, target)


def _aligned_texts(
    source: Description, target: Description, dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    yield _tidy(source.title), _tidy(target.title)
    sources, targets = _paragraphs(source.body), _paragraphs(target.body)
    same_paragraphs = len(sources) == len(targets)
    if not same_paragraphs:
        sources, targets = [list(chain(*sources))], [list(chain(*targets))]
    for left, right in zip(sources, targets, strict=True):
        if [passage.is_item for passage in left] == [passage.is_item for passage in right]:
            yield from ((a.text, b.text) for a, b in zip(left, right, strict=True))
        elif same_paragraphs and not any(passage.is_item for passage in left + right):
            yield _joined(left), _joined(right)
        else:
            dropped["not aligned"] += len(left)


def _joined(passages: list[Passage]) -> str:
    return " ".join(passage.text for passage in passages)


def _tidy(text: str) -> str:
    return tidy(text.replace(NO_BREAK_DOT, " "))


def _paragraphs(body: tuple[str, ...]) -> list[list[Passage]]:
    """Split a description at its " ." lines, and non-empty paragraphs into passages."""
    paragraphs: list[list[str]] = [[]]
    for line in body:
        if line.strip() == ".":
            paragraphs.append([])
        elif line.strip():
            paragraphs[-1].append(line.replace(NO_BREAK_DOT, " "))
    return [_passages(lines) for lines in paragraphs if lines]


def _passages(lines: list[str]) -> list[Passage]:
    """Join the lines of each passage of a paragraph.

    Debian's policy (5.6.13): an unindented line is prose, to be filled; an indented one, like a list, is
    verbatim. A line indented deeper than its item's bullet, or an unindented one starting with a small
    letter, continues the item.
    """
    texts: list[list[str]] = []
    kinds: list[str] = []
    item_indent = 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        bullet = ITEM.match(line, indent)
        if bullet:
            texts.append([line[bullet.end() :]])
            kinds.append("item")
            item_indent = indent
        elif texts and _continues(kinds[-1], line, indent, item_indent):
            texts[-1].append(line)
        else:
            texts.append([line])
            kinds.append("verbatim" if indent else "prose")
    return [
        Passage(tidy(" ".join(text)), kind == "item")
        for text, kind in zip(texts, kinds, strict=True)
    ]


def _continues(kind: str, line: str, indent: int, item_indent: int) -> bool:
    if kind == "item":
        return indent > item_indent or item_indent == 0 or line.lstrip()[:1].islower()
    return kind == "prose" and indent == 0
