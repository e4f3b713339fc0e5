"""XML tags in a text: around the translation of their words, never lost and never crossing."""

from __future__ import annotations

import random
import re

import pytest

from moses_bridge.formats.inline_tags import (
    TAG,
    inline_tags,
    with_tags,
    without_tags,
    word_spans,
)


def moved(source: str, target: str, links: str) -> str:
    """Tags of a source moved to a target; the words of both are those between blanks."""
    plain = without_tags(source)
    tags = inline_tags(source, word_spans(plain.split(), plain))
    pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
    return with_tags(target, word_spans(target.split(), target), tags, pairs)  # type: ignore[arg-type]


def test_words_are_found_where_blanks_are_other_ones() -> None:
    text = " a b,c  d"
    assert [text[start:end] for start, end in word_spans(["a", "b", ",", "c", "d"], text)] == [
        *("a", "b", ",", "c", "d")
    ]
    assert word_spans(["a b", "c"], "ab c") == [(0, 2), (3, 4)]
    assert word_spans([], "") == []
    # Letters that the text lacks shift what follows, inside the text.
    assert word_spans(["aa", "bb", "cc"], "aab") == [(0, 2), (2, 3), (2, 3)]


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        (
            "the <b>red house</b> is",
            "la maison rouge est",
            "0-0 1-2 2-1 3-3",
            "la <b>maison rouge</b> est",
        ),
        ("<a href='x'>a</a> b", "y x", "0-1 1-0", "y <a href='x'>x</a>"),
        ("a <br/> b", "x y", "0-0 1-1", "x <br/> y"),
        ("a<br/>b", "x y", "0-0 1-1", "x <br/>y"),
        ("a b<br/>", "x y", "0-1 1-0", "x y<br/>"),
        ("<i><b>a</b> b</i>", "x y", "0-0 1-1", "<i><b>x</b> y</i>"),
        ("<b>a</b>", "x", "", "x<b></b>"),
        ("<b></b>a", "x", "0-0", "<b></b>x"),
        ("a <file> b", "x y", "0-0 1-1", "x <file> y"),
        ("a </b> b", "x y", "0-0 1-1", "x </b> y"),
        ("a <file> <dir>", "x", "0-0", "x <file> <dir>"),
        ("<b>a</i> b</b> c", "z y x", "0-2 1-1 2-0", "z </i> <b>y x</b>"),
        ("<b>a</b> <i>b</i>", "x y z", "0-0 0-2 1-1", "<b>x <i>y</i> z</b>"),
        ("<b>a</b> <i>b</i>", "x y z", "0-0 0-1 1-1 1-2", "<b>x y</b> <i>z</i>"),
        ("<br/>", "", "", "<br/>"),
        ("1 < 2 and <3 or <a@b.c>", "x", "", "x"),
    ],
)
def test_tags_surround_the_translation_of_their_words(
    source: str, target: str, links: str, expected: str
) -> None:
    assert moved(source, target, links) == expected


def is_nested(text: str) -> bool:
    opened: list[str] = []
    for closes, name, _ in TAG.findall(text):
        if closes and (not opened or opened.pop() != name):
            return False
        if not closes:
            opened.append(name)
    return not opened


def test_no_tag_is_lost_and_no_pair_crosses_another() -> None:
    rng = random.Random(1)
    for _ in range(500):
        words = [f"w{i}" for i in range(rng.randint(1, 6))]
        for name in "bij"[: rng.randint(0, 3)]:
            first = rng.randrange(len(words))
            last = rng.randrange(first, len(words))
            words[first], words[last] = f"<{name}>{words[first]}", f"{words[last]}</{name}>"
        source, n_targets = " ".join(words), rng.randint(1, 6)
        if not is_nested(source):
            continue
        target = " ".join(f"x{i}" for i in range(n_targets))
        links = {(rng.randrange(len(words)), rng.randrange(n_targets)) for _ in range(8)}
        found = moved(source, target, " ".join(f"{s}-{t}" for s, t in links))
        assert is_nested(found), (source, found)
        assert sorted(re.findall("<[^>]*>", found)) == sorted(re.findall("<[^>]*>", source))
        assert without_tags(found).split() == target.split()
