from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from moses_bridge.builtin.language_model.ngram_counts import (
    BOS,
    EOS,
    UNK,
    NGramCounts,
    adjusted_counts,
    count_ngrams,
    read_tokens,
)
from moses_bridge.errors import InputError
from moses_bridge.textio import write_lines

ORDER = 4


@pytest.fixture
def sentences() -> list[list[bytes]]:
    draw = random.Random(8)
    return [draw.choices([b"a", b"b", b"c", b"d"], k=draw.randint(0, 7)) for _ in range(80)]


def spelled(orders: list[NGramCounts], words: list[bytes]) -> list[list[tuple[bytes, ...]]]:
    """The n-grams of each order by their words, from first words and suffixes."""
    ngrams: list[list[tuple[bytes, ...]]] = [[(words[i],) for i in orders[0].first_words]]
    for order in orders[1:]:
        ngrams.append(
            [
                (words[first], *ngrams[-1][suffix])
                for first, suffix in zip(order.first_words, order.suffixes, strict=True)
            ]
        )
    return ngrams


def test_counts_are_those_of_a_counter(tmp_path: Path, sentences: list[list[bytes]]) -> None:
    write_lines(tmp_path / "text", [b" ".join(sentence) for sentence in sentences])
    tokens = read_tokens(tmp_path / "text")
    orders = count_ngrams(tokens, ORDER)
    ngrams = spelled(orders, tokens.words)
    for n in range(1, ORDER + 1):
        counts: Counter[tuple[bytes, ...]] = Counter()
        for sentence in sentences:
            padded = (b"<s>", *sentence, b"</s>")
            counts.update(padded[i : i + n] for i in range(len(padded) - n + 1))
        if n == 1:
            counts[(b"<s>",)] = counts[(b"<unk>",)] = 0  # never predicted
        found = dict(zip(ngrams[n - 1], orders[n - 1].raw.tolist(), strict=True))
        assert found == dict(counts)
        for ngram, context in zip(ngrams[n - 1], orders[n - 1].contexts, strict=True):
            assert n == 1 or ngrams[n - 2][context] == ngram[:-1]


def test_adjusted_counts_are_numbers_of_different_words_before(
    tmp_path: Path, sentences: list[list[bytes]]
) -> None:
    write_lines(tmp_path / "text", [b" ".join(sentence) for sentence in sentences])
    tokens = read_tokens(tmp_path / "text")
    orders = count_ngrams(tokens, ORDER)
    ngrams = spelled(orders, tokens.words)
    before: defaultdict[tuple[bytes, ...], set[bytes]] = defaultdict(set)
    for order in ngrams[1:]:
        for ngram in order:
            before[ngram[1:]].add(ngram[0])
    for n, adjusted in enumerate(adjusted_counts(orders), start=1):
        for ngram, raw, count in zip(ngrams[n - 1], orders[n - 1].raw, adjusted, strict=True):
            keeps_raw = n == ORDER or ngram[0] == b"<s>"
            assert count == (raw if keeps_raw else len(before[ngram]))


def test_words_are_parted_as_lmplz_parts_them(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", [b"a\tb\0a\rb  ", b"", b"\xa0 a\x0cb"])
    tokens = read_tokens(tmp_path / "text")
    assert tokens.words == [b"<unk>", b"<s>", b"</s>", b"a", b"b", b"\xa0", b"a\x0cb"]
    assert tokens.ids.tolist() == [BOS, 3, 4, 3, 4, EOS, BOS, EOS, BOS, 5, 6, EOS]
    assert tokens.places.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 2, 3]
    assert (UNK, BOS, EOS) == (0, 1, 2)


@pytest.mark.parametrize("word", [b"<s>", b"</s>", b"<unk>"])
def test_words_that_mean_something_to_the_model_are_refused(tmp_path: Path, word: bytes) -> None:
    write_lines(tmp_path / "text", [b"a", b"b " + word])
    with pytest.raises(InputError, match=f"text:2: found the word {word.decode()}"):
        read_tokens(tmp_path / "text")
