from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.vocabulary import Vocabulary
from rescorer.views.table_phrases import distinct_phrases, known_phrases, unknown_words

ROWS = b"b  c ||| y ||| 1\nb c ||| ||| 1\na ||| z\ty ||| 1\na ||| x ||| 1\n"


def test_each_phrase_once(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(ROWS)
    assert distinct_phrases(tmp_path / "t", "source") == [b"a", b"b c"]
    assert distinct_phrases(tmp_path / "t", "target") == [b"x", b"y", b"z y"]


def test_no_phrase(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"a ||| ||| 1\n")
    with pytest.raises(InputError, match="no target phrase"):
        distinct_phrases(tmp_path / "t", "target")


def test_phrases_with_unknown_words_are_left_out() -> None:
    vocabulary = Vocabulary([b"a", b"b"])
    assert known_phrases([b"a", b"a c", b"b a"], vocabulary, "t") == [b"a", b"b a"]
    assert unknown_words(b"c a d", vocabulary) == [b"c", b"d"]


def test_a_table_of_another_language() -> None:
    with pytest.raises(InputError, match="Name the other column with --side"):
        known_phrases([b"x", b"y z"], Vocabulary([b"a"]), "t")
