"""Texts as units and back, and files of pairs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from tuning.experiments.letters import (
    joined_units,
    read_pairs,
    read_sources,
    split_units,
    targets_by_source,
)
from tuning.experiments.settings import Unit

HARD = "a Ä|<>[]&#38;\u00a0\u3000\x01|||-"


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("año", "letters", "a ñ o"),
        ("AH0 B", "symbols", "AH0 B"),
        ("a b", "letters", "a &#32; b"),
        ("a|b", "symbols", "a&#124;b"),
        ("&#32;", "letters", "&#38; # 3 2 ;"),
        ("<s>", "symbols", "&#60;s&#62;"),
    ],
)
def test_units_are_words_without_a_meaning_for_moses(text: str, unit: Unit, expected: str) -> None:
    assert split_units(text, unit) == expected.encode()


def test_units_are_joined_to_the_same_text() -> None:
    draw = random.Random(1)
    for _ in range(200):
        text = "".join(draw.choice(HARD) for _ in range(draw.randint(1, 12)))
        assert joined_units(split_units(text, "letters"), "letters") == text
        symbols = " ".join(text.split())
        assert joined_units(split_units(text, "symbols"), "symbols") == symbols


def test_pairs_are_read_with_their_counts(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("vpon \tupon\r\nvpon\tupon\nvpon\tvpon\n")
    pairs = read_pairs(path)
    assert pairs == [("vpon", "upon"), ("vpon", "upon"), ("vpon", "vpon")]
    assert targets_by_source(pairs) == {"vpon": {"upon": 2, "vpon": 1}}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a\na\tb\n", r"sources:2: found 'a\\tb', expected a source without tabs"),
        (b"\xff\n", "sources:1: found .*, expected UTF-8 text"),
    ],
)
def test_sources_to_predict_have_one_column(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "sources"
    path.write_bytes(b" a b \r\n\n")
    assert read_sources(path) == ["a b", ""]
    path.write_bytes(content)
    with pytest.raises(InputError, match=found):
        read_sources(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a\tb\nab\n", "pairs.tsv:2: found 'ab', expected source <tab> target. `paste SOURCE"),
        (b"a\tb\tc\n", r"pairs.tsv:1: found 'a\\tb\\tc'"),
        (b"a\t \n", "pairs.tsv:1: "),
        (b"a\t\xff\n", "pairs.tsv:1: found .*, expected UTF-8 text"),
        (b"", "pairs.tsv: found no lines"),
    ],
)
def test_lines_that_are_no_pairs_are_refused(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=found):
        read_pairs(path)
