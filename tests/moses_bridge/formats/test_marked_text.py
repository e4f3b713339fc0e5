from __future__ import annotations

import math

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.marked_text import Given, MarkedText, Place, first_factors, parse_marked

PLACE = Place("text", 3)


def test_tags_enclose_words_or_name_a_span() -> None:
    found = parse_marked(
        b'das <n translation="a cute||the place" prob="0.8||3">kleine haus</n>.'
        b'<m english="it" span="0"/> <b>so</b>',
        PLACE,
    )
    assert found.words == (b"das", b"kleine", b"haus", b".", b"so")
    assert found.given == (
        Given(1, 3, (b"a", b"cute"), math.log(0.8)),
        Given(1, 3, (b"the", b"place"), math.log(3)),
        Given(0, 1, (b"it",), 0.0),
    )


@pytest.mark.parametrize("line", [b"a < b > c", b"x&lt;y <3", b"a"])
def test_what_begins_no_tag_is_a_word(line: bytes) -> None:
    assert parse_marked(line, PLACE) == MarkedText(tuple(line.split()))


def test_a_probability_of_zero_has_the_lowest_score_of_moses() -> None:
    (given,) = parse_marked(b'<n translation="x" prob="0">a</n>', PLACE).given
    assert given.log_prob == -100


def test_a_placeholder_alone_changes_nothing() -> None:
    found = parse_marked(b'<ne translation="@num@" entity="7">7</ne>', PLACE)
    assert found == MarkedText((b"7",))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"<n>a", "no end of the tag 'n'"),
        (b"a</n>", "the tag '</n>', expected the end of the tag opened last"),
        (b"<n><m>a</n></m>", "expected the end of the tag opened last"),
        (b'<n translation="x', "expected a tag that ends with >"),
        (b'<n translation="x" prob="1||2">a</n>', "expected 1 numbers in prob"),
        (b'<n translation="x" prob="much">a</n>', "expected 1 numbers in prob"),
        (b'<n translation="x||">a</n>', "words, and a translation of them"),
        (b'<n translation="x" span="1-">a</n>', 'span="FIRST-LAST"'),
        (b'<n translation="x" span="2-0"/>a b c', "words, and a translation of them"),
        (b'<n translation="x" span="7">a</n>', "a translation of the words 7 to 7, expected words"),
        *(
            (b"<n %b>a</n>" % written, "expected attributes such as translation=")
            for written in (b"translation='x'", b'translation = "x"', b'Prob="1"', b"span=1-2")
        ),
        (b"a <wall/> b", "the built-in decoder has no such tag"),
    ],
)
def test_faulty_tags_are_reported_with_their_line(line: bytes, message: str) -> None:
    with pytest.raises(InputError, match=f"text:3: .*{message}"):
        parse_marked(line, PLACE)


def test_the_first_of_the_factors_is_kept() -> None:
    assert first_factors((b"Haus|NN|3", b".|$.|3"), 3, b"|", PLACE) == (b"Haus", b".")
    with pytest.raises(InputError, match=r"text:3: found 2 factors in 'Haus\|NN', expected 3"):
        first_factors((b"Haus|NN",), 3, b"|", PLACE)
