from __future__ import annotations

import pytest

from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.corpus.nested_texts import check_sizes, nested_texts

PAIRS = [(name, number) for name in "abcde" for number in range(10)]


def test_each_text_begins_the_next_one_and_is_of_whole_documents_but_the_last() -> None:
    texts = nested_texts(
        PAIRS,
        lambda pair: pair[0],
        {name: b"cebad"[n : n + 1] for n, name in enumerate("abcde")}.__getitem__,
        (5, 12, 50),
    )
    assert [(size, len(text)) for size, text in texts.items()] == [(5, 5), (12, 12), (50, 50)]
    assert texts[50][:12] == texts[12] and texts[12][:5] == texts[5]
    assert texts[12] == [("d", n) for n in range(10)] + [("c", 0), ("c", 1)]
    assert sorted(texts[50]) == PAIRS


def test_a_size_above_the_text_is_an_error() -> None:
    with pytest.raises(UserError, match=r"50 pairs are left for training, but train_sizes has 51"):
        nested_texts(PAIRS, lambda pair: pair[0], str.encode, (5, 51))


@pytest.mark.parametrize("sizes", [(0, 5), (5, 5), (7, 5), (-1,)])
def test_sizes_ascend_from_one(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="ascending numbers above 0"):
        check_sizes(sizes)
