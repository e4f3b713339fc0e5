from __future__ import annotations

from hashlib import blake2b

import pytest

from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.corpus import corpus_parts
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.corpus_parts import _far_of_later, nested_texts
from moses_bridge.corpus.text_pair import CorpusPair, TextPair

PAIRS = [
    CorpusPair(TextPair(name, f"{name}{number}", "T"), f"{name}{number}", "t")
    for name in "abcde"
    for number in range(10)
]


def test_each_text_begins_the_next_one_and_is_of_whole_documents_but_the_last() -> None:
    texts = nested_texts(PAIRS, (5, 12, 50), 3)
    assert [(size, len(text)) for size, text in texts.items()] == [(5, 5), (12, 12), (50, 50)]
    assert texts[50][:12] == texts[12] and texts[12][:5] == texts[5]
    first, second, *_ = sorted(
        "abcde", key=lambda name: blake2b(f"3\ttrain\t{name}".encode(), digest_size=16).digest()
    )
    whole = [f"{first}{n}" for n in range(10)]
    assert [pair.source for pair in texts[12]] == [*whole, f"{second}0", f"{second}1"]
    assert sorted(pair.source for pair in texts[50]) == [pair.source for pair in PAIRS]


@pytest.mark.parametrize("at_once", [1, 100])
def test_near_copies_are_those_of_later_documents(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of four words make 0.75; a copy within a document or of an earlier one does not count."""
    monkeypatch.setattr(corpus_parts, "FEWEST_AT_ONCE", at_once)
    documents = [["a b c d", "k l m n"], ["x y z w"], ["k l m n"], ["a b c e", "a b c e"]]
    far = _far_of_later(documents, ["x y z v"], 0.75, 0)
    assert [*far] == [[False, False], [False], [True], [True, True]]
    assert [*_far_of_later(documents, ["x y z v"], 0.76, 0)] == [
        [True, False],
        [True],
        [True],
        [True, True],
    ]
    assert [*_far_of_later(documents, [], 0.0, 0)] == [[True] * len(each) for each in documents]


def test_a_size_above_the_text_is_an_error() -> None:
    with pytest.raises(UserError, match=r"50 pairs are left for training, but train_sizes has 51"):
        nested_texts(PAIRS, (5, 51), 1)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 5), (7, 5), (-1,)])
def test_sizes_ascend_from_one(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="ascending numbers above 0"):
        CorpusConfig(train_sizes=sizes)
