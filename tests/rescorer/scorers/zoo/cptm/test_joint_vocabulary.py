from __future__ import annotations

import pytest

from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.zoo.cptm import JointVocabulary

SHORTLISTS = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"b", b"y"]))


def test_words_spelt_alike_are_one() -> None:
    words = JointVocabulary.of(SHORTLISTS)
    assert words.target_ids.tolist() == [0, 1, 5, 3, 6]
    assert len(words) == 7


def test_phrases_of_both_sides() -> None:
    words = JointVocabulary.of(SHORTLISTS)
    ids, lens = words.encode("source", [b"b a", b"x"])
    assert ids.tolist() == [[3, 2, 0], [1, 0, 0]] and lens.tolist() == [2, 1]
    ids, lens = words.encode("target", [b"b x", b"", b"y a"])
    assert ids.tolist() == [[3, 5, 0], [0, 0, 0], [6, 1, 0]] and lens.tolist() == [2, 0, 2]


def test_target_words_may_all_be_source_words() -> None:
    both = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"b"]))
    assert len(JointVocabulary.of(both)) == 5


def test_one_language_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="a source shortlist"):
        JointVocabulary.of(Shortlists(None, Vocabulary([b"x"])))
