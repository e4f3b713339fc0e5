"""Sentence boundaries, after Moses's split-sentences.perl."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from sacremoses.corpus import NonbreakingPrefixes

from moses_bridge.corpus.text_pair import TextPair

CLOSING = "\"'”’»)\\]"
OPENING = "\"'“‘«„([¿¡"
BOUNDARY = re.compile(rf"[.!?…।؟][.!?…]*[{CLOSING}]*(?: [»”])?\s+|[。！？][」』）]*\s*")
ACRONYM = re.compile(r"(?:^|\.)[^\W\d](?:\.[^\W\d])*$")
NUMERIC_ONLY = "#NUMERIC_ONLY#"
ALWAYS_NONBREAKING = frozenset({"e.g", "i.e", "eg", "ie", "cf", "vs", "p.ex", "z.B", "d.h"})


def split_sentences(text: str, language: str) -> list[str]:
    """Split a paragraph into sentences.

    A full stop ends a sentence unless an abbreviation of the language (Moses's non-breaking
    prefixes) or an acronym precedes it or a small letter follows it.

    Args:
        text: a paragraph on one line.
        language: language code, as "en" or "pt_BR".

    Returns:
        The sentences; joined by a space they give the text again (without a space where the script
        has none).
    """
    sentences = []
    start = 0
    for match in BOUNDARY.finditer(text):
        if _ends_sentence(text, match, language):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def sentence_pairs(
    group: str | None, left: str, right: str, source: str, target: str
) -> Iterator[TextPair]:
    """Split two texts into sentences where both give the same number; else yield them whole."""
    sources, targets = split_sentences(left, source), split_sentences(right, target)
    if len(sources) != len(targets):
        sources, targets = [left], [right]
    for one, other in zip(sources, targets, strict=True):
        yield TextPair(group, one, other)


def _ends_sentence(text: str, match: re.Match[str], language: str) -> bool:
    if match.group()[0] in "。！？":
        return True
    follower = text[match.end() :].lstrip(OPENING + " ")[:1]
    if not follower.isalnum() or follower.islower():
        return False
    if match.group().rstrip() != ".":
        return True
    word = text[: match.start()].rpartition(" ")[2].lstrip(OPENING)
    return not _is_abbreviation(word, follower, language)


def _is_abbreviation(word: str, follower: str, language: str) -> bool:
    always, before_number = _prefixes(language.partition("_")[0])
    if word in always or ACRONYM.search(word):
        return True
    return word in before_number and follower.isdigit()


@lru_cache(maxsize=8)
def _prefixes(language: str) -> tuple[frozenset[str], frozenset[str]]:
    always, before_number = set(ALWAYS_NONBREAKING), set()
    for line in NonbreakingPrefixes().words(language):
        if line.endswith(NUMERIC_ONLY):
            before_number.add(line.removesuffix(NUMERIC_ONLY).strip())
        else:
            always.add(line)
    return frozenset(always), frozenset(before_number)
