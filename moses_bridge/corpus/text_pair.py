"""A pair of texts translating each other, its sentences, and the repair of damage done in transport."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from moses_bridge.formats.tokenization import split_sentences

SPACES = re.compile(r"\s+")
INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]")
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
TWICE_ENCODED = re.compile(
    "[\u00c3\u00d0\u00d1][\u0080-\u00bf]|\u00e2\u0080|\u00c2[\u00a0\u00ab\u00bb]"
)
TWICE_ENCODED_RUN = re.compile("[\u0080-\u00ff]{2,}")


@dataclass(frozen=True, slots=True)
class TextPair:
    """One line of each side, not yet tokenised.

    Attributes:
        group: the package or document it comes from; a group lies in one part of the corpus.
            None keeps the pair out of dev and test.
    """

    group: str | None
    source: str
    target: str


def tidy(text: str) -> str:
    """Repair text: one space between words, no control or invisible characters, composed letters.

    UTF-8 read as Latin-1 and encoded once more (``Ã©`` for ``é``) is turned back.
    """
    if TWICE_ENCODED.search(text):
        text = TWICE_ENCODED_RUN.sub(_decode_run, text)
    text = INVISIBLE.sub("", unicodedata.normalize("NFC", CONTROL.sub("", text)))
    return SPACES.sub(" ", text).strip()


def _decode_run(match: re.Match[str]) -> str:
    try:
        return match.group().encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return match.group()


def sentence_pairs(
    group: str | None, left: str, right: str, source: str, target: str
) -> Iterator[TextPair]:
    """Split two texts into the same number of sentences; else yield them whole."""
    sources, targets = split_sentences(left, source), split_sentences(right, target)
    if len(sources) != len(targets):
        sources, targets = [left], [right]
    for one, other in zip(sources, targets, strict=True):
        yield TextPair(group, one, other)


@dataclass(frozen=True, slots=True)
class CorpusPair:
    """A sentence pair as read (raw) and as Moses needs it (tokenised, escaped, in some case)."""

    raw: TextPair
    source: str
    target: str


def n_words(tokenized: str) -> int:
    """The number of tokens of a sentence."""
    return tokenized.count(" ") + 1 if tokenized else 0
