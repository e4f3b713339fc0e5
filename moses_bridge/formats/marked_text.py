"""Source text for Moses: words with further factors, and XML tags giving translations (moses/XmlOption.cpp).

A tag encloses words, as in <n translation="dwelling||house" prob="0.8||0.2">haus</n>, or names them in its
attribute `span`, as in <n translation="dwelling" span="4-4"/>. Without `prob` each translation has the
probability 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.words import split_words, to_number

TAG = re.compile(rb"<(/?)([A-Za-z][^\s/>]*)([^>]*?)(/?)\s*>")
TAG_BEGIN = re.compile(rb"<(?=/?[A-Za-z])")
ATTRIBUTE = re.compile(rb'\b([a-z-]+)="((?:[^"\\]|\\.)*)"')
# Left of attributes that Moses ignores in silence: translation='x', span = "0-1", Prob="1".
MISWRITTEN = re.compile(rb"\b(?:translation|english|prob|span)\s*=", re.IGNORECASE)
SPAN = re.compile(rb"([0-9]{1,9})(?:-([0-9]{1,9}))?")
SEPARATOR = b"||"
TRANSLATION, OLDER_NAME = b"translation", b"english"
PLACEHOLDER = b"ne"  # without [placeholder-factor] it changes nothing
NOT_BUILT_IN = (b"wall", b"zone", b"update", b"weight-overwrite", b"coord")
LOWEST_LOG = -100.0  # LOWEST_SCORE of moses/TypeDef.h


@dataclass(frozen=True)
class Given:
    """A translation given by the source text.

    Attributes:
        start, end: the source words start..end-1.
        log_prob: natural logarithm of its probability, at least -100.
    """

    start: int
    end: int
    words: tuple[bytes, ...]
    log_prob: float


@dataclass(frozen=True)
class MarkedText:
    """A sentence without its tags: its words, and the translations given by its tags."""

    words: tuple[bytes, ...]
    given: tuple[Given, ...] = ()


class Place(NamedTuple):
    """The position of a sentence, for errors: the file, and the line counted from 1, if there is one."""

    path: StrPath
    line: int | None


class _OpenTag(NamedTuple):
    """An opened tag: its name, the number of words before it, and its attributes."""

    name: bytes
    start: int
    attributes: dict[bytes, bytes]


def first_factors(
    words: tuple[bytes, ...], n_factors: int, delimiter: bytes, place: Place
) -> tuple[bytes, ...]:
    """The first factor of each word: "Haus" of "Haus|NN|3" with three factors.

    Raises:
        InputError: a word has another number of factors.
    """
    split = [word.split(delimiter) for word in words]
    for word, factors in zip(words, split, strict=True):
        if len(factors) != n_factors:
            found = f"{len(factors)} factors in {shown(word)}"
            expected = f"{n_factors}, those of [input-factors]"
            raise InputError(place.path, place.line, found, expected)
    return tuple(factors[0] for factors in split)


def parse_marked(line: bytes, place: Place) -> MarkedText:
    """Read a sentence with tags.

    Raises:
        InputError: a tag is malformed, not closed or unsupported (walls, zones, updates), or gives no valid
            span or probabilities.
    """
    text = b""
    opened: list[_OpenTag] = []
    given: list[Given] = []
    for piece, tag in _pieces(line, place):
        text += b" " + piece
        if tag is None:
            continue
        closes, name, content, is_unary = tag.groups()
        here = len(split_words(text))
        if name in NOT_BUILT_IN:
            raise _fault(place, tag, "a translation; the built-in decoder has no such tag")
        if MISWRITTEN.search(ATTRIBUTE.sub(b"", content)):
            raise _fault(place, tag, 'attributes such as translation="x" and span="0-1"')
        if not closes:
            opened.append(_OpenTag(name, here, dict(ATTRIBUTE.findall(content))))
        if closes or is_unary:
            if not opened or opened[-1].name != name:
                raise _fault(place, tag, "the end of the tag opened last")
            given += _given(opened.pop(), here, tag, place)
    if opened:
        raise InputError(
            place.path, place.line, f"no end of the tag {shown(opened[-1].name)}", "one"
        )
    words = tuple(split_words(text))
    for each in given:
        if each.end > len(words):
            found = f"a translation of the words {each.start} to {each.end - 1}"
            raise InputError(place.path, place.line, found, f"words from 0 to {len(words) - 1}")
    return MarkedText(words, tuple(given))


def _pieces(line: bytes, place: Place) -> Iterator[tuple[bytes, re.Match[bytes] | None]]:
    """Yield the text before each tag with the tag, then the text after the last one."""
    position = 0
    while begin := TAG_BEGIN.search(line, position):
        tag = TAG.match(line, begin.start())
        if tag is None:
            found = shown(line[begin.start() :])
            raise InputError(place.path, place.line, found, "a tag that ends with >")
        yield line[position : begin.start()], tag
        position = tag.end()
    yield line[position:], None


def _given(tag: _OpenTag, end: int, text: re.Match[bytes], place: Place) -> list[Given]:
    start = tag.start
    if b"span" in tag.attributes:
        span = SPAN.fullmatch(tag.attributes[b"span"].strip())
        if span is None:
            raise _fault(place, text, 'span="FIRST-LAST", words counted from 0')
        start, end = int(span[1]), int(span[2] or span[1]) + 1
    translations = [
        translation
        for name in (TRANSLATION, OLDER_NAME)
        for translation in tag.attributes.get(name, b"").split(SEPARATOR)
        if name in tag.attributes
    ]
    if tag.name == PLACEHOLDER or not translations or start == end:
        return []
    if start > end or not all(map(split_words, translations)):
        raise _fault(place, text, "words, and a translation of them")
    logs = _log_probs(tag, len(translations), text, place)
    return [
        Given(start, end, tuple(split_words(words)), log)
        for words, log in zip(translations, logs, strict=True)
    ]


def _log_probs(
    tag: _OpenTag, n_translations: int, text: re.Match[bytes], place: Place
) -> list[float]:
    """The natural logarithms of the probabilities; like Moses, accept any positive numbers, even above 1."""
    if b"prob" not in tag.attributes:
        return [0.0] * n_translations
    probs = [to_number(prob.strip()) for prob in tag.attributes[b"prob"].split(SEPARATOR)]
    if len(probs) != n_translations or not all(map(math.isfinite, probs)):
        raise _fault(place, text, f"{n_translations} numbers in prob, one for each translation")
    return [max(LOWEST_LOG, math.log(prob)) if prob > 0 else LOWEST_LOG for prob in probs]


def _fault(place: Place, tag: re.Match[bytes], expected: str) -> InputError:
    return InputError(place.path, place.line, f"the tag {shown(tag[0])}", expected)
