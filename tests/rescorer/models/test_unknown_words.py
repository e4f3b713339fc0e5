from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.vocabulary import Vocabulary
from rescorer.models.unknown_words import (
    NO_LEXICON,
    TranslationLexicon,
    read_lexicon,
    without_unknown_words,
)

LINES = b"""chien dog 0.75
toutou dog 0.25
clebs dog 0.2
maison house 0.5
manoir house 0.375
abri shed 0.125
"""
U = b"<unk>"


@pytest.fixture
def lexicon(tmp_path: Path) -> TranslationLexicon:
    (tmp_path / "lex.f2e").write_bytes(LINES)
    return read_lexicon(tmp_path / "lex.f2e", Vocabulary([b"chien", b"maison", b"le"]))


def test_the_best_translations(lexicon: TranslationLexicon) -> None:
    assert {source: one.word for source, one in lexicon.best.items()} == {
        b"dog": b"chien",
        b"house": b"maison",
        b"shed": b"abri",
    }
    outside = {source: (one.word, one.prob) for source, one in lexicon.best_outside.items()}
    assert outside[b"dog"] == (b"toutou", 0.25) and outside[b"house"] == (b"manoir", 0.375)


def test_an_attention_says_which_word(lexicon: TranslationLexicon) -> None:
    source = [b"the", b"dog", b"Rex"]
    words = without_unknown_words([b"le", U, U], [0, 1, 2], source, lexicon)
    assert words == [b"le", b"chien", b"Rex"]
    assert without_unknown_words([b"le", U, U], [0, 2, 1], source, NO_LEXICON) == [
        b"le",
        b"Rex",
        b"dog",
    ]


def test_without_an_attention_the_lexicon_says_which(lexicon: TranslationLexicon) -> None:
    """The most probable word outside the shortlist first, each source word once."""
    source = [b"the", b"dog", b"house"]
    words = without_unknown_words([U, b"le", U, U], [-1] * 4, source, lexicon)
    assert words == [b"manoir", b"le", b"toutou", U]


def test_nothing_known_nothing_done() -> None:
    assert without_unknown_words([U, b"a"], [-1, -1], [b"dog"], NO_LEXICON) == [U, b"a"]


@pytest.mark.parametrize(
    "line", [b"chien dog", b"chien dog 1.5", b"chien dog x", b"a b c 0.5", b""]
)
def test_a_malformed_line_is_refused(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "lex").write_bytes(b"a b 0.5\n" + line + b"\n")
    with pytest.raises(
        InputError, match=r"lex:2: .*a target word, a source word and a probability"
    ):
        read_lexicon(tmp_path / "lex", Vocabulary([]))
