"""XML tags inside a plain text: taken out of it, and put around the words that translate theirs."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(/?)>")
Span = tuple[int, int]  # first word or character, and the one after the last


@dataclass(frozen=True)
class InlineTag:
    """A tag with its end, or a single one.

    Attributes:
        text: the tag; a single one with the blanks around it.
        end: the tag that closes it; "" for a single one.
        span: the source words between them; for a single one the place of the word that it is before.
    """

    text: str
    end: str
    span: Span


def word_spans(words: Sequence[str], text: str) -> list[Span]:
    """Where each word is in a text that has the same letters, and blanks anywhere.

    Letters that a tokenizer added or left out shift the words behind them.
    """
    places = [i for i, letter in enumerate(text) if not letter.isspace()] or [0]
    sizes = (len("".join(word.split())) for word in words)
    ends = [min(end, len(places)) for end in accumulate(sizes)]
    starts = [min(start, len(places) - 1) for start in [0, *ends][: len(words)]]
    return [
        (places[start], places[max(start, end - 1)] + 1)
        for start, end in zip(starts, ends, strict=True)
    ]


def without_tags(text: str) -> str:
    """The text without its tags; one that ends itself, as <br/>, parts words."""
    return TAG.sub(lambda tag: " " if tag[3] else "", text)


def inline_tags(text: str, spans: Sequence[Span]) -> list[InlineTag]:
    """The tags of a text, in order; the spans are those of words in `without_tags(text)`."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    found: dict[int, InlineTag] = {}
    opened: list[tuple[str, int]] = []
    n_taken = 0
    for number, tag in enumerate(TAG.finditer(text)):
        place = tag.start() - n_taken  # in the text without tags
        closes, name, is_unary = tag.groups()
        n_taken += len(tag[0]) - len(is_unary)
        same = [i for i, (each, _) in enumerate(opened) if closes and each == name]
        if same:
            first = opened[same[-1]][1]
            del opened[same[-1] :]
            start, end = found[first].span[0], bisect_left(starts, place)
            if start < end:
                found[first] = InlineTag(found[first].text.strip(), tag[0], (start, end))
                continue
        before, after = text[: tag.start()][-1:], text[tag.end() :][:1]
        blanks = " " * before.isspace(), " " * after.isspace()
        here = bisect_right(ends, place)
        found[number] = InlineTag(tag[0].join(blanks), "", (here, here))
        if not closes and not is_unary:
            opened.append((name, number))
    return [found[number] for number in sorted(found)]


def with_tags(
    text: str, spans: Sequence[Span], tags: Sequence[InlineTag], links: Iterable[tuple[int, int]]
) -> str:
    """Put tags into a translation.

    A pair surrounds all words linked to its source words, and never crosses another pair; a single one is
    before the translation of the word that it was before. A tag is never lost.

    Args:
        text: the translation.
        spans: the place of each of its words.
        tags: the tags of the source text.
        links: source word, target word.
    """
    targets: dict[int, list[int]] = {}
    for source, target in links:
        if target < len(spans):
            targets.setdefault(source, []).append(target)
    pairs: list[Span] = []
    pieces: list[tuple[int, int, int, int, str]] = []  # place, order at one place, tag
    for number, tag in enumerate(tags):
        linked = [target for i in range(*tag.span) for target in targets.get(i, ())]
        if linked:
            first, last = _uncrossed((min(linked), max(linked)), pairs)
            pairs.append((first, last))
            pieces.append((spans[first][0], 2, -last, number, tag.text))
            pieces.append((spans[last][1], 0, -first, -number, tag.end))
            continue
        later = [i for i in sorted(targets) if i >= tag.span[0]]
        place = spans[min(targets[later[0]])][0] if later else len(text)
        pieces.append((place, 1, 0, number, tag.text + tag.end))
    out, done = "", 0
    for place, _, _, _, tag_text in sorted(pieces):
        out += text[done:place] + tag_text
        done = place
    return re.sub("  +", " ", out + text[done:]).strip()


def _uncrossed(pair: Span, others: Sequence[Span]) -> Span:
    """A pair of tags, first and last word, made shorter where it would cross one of the others."""
    first, last = pair
    for start, end in others:
        if start < first <= end < last:
            return _uncrossed((end + 1, last), others)
        if first < start <= last < end:
            return _uncrossed((first, start - 1), others)
    return pair
