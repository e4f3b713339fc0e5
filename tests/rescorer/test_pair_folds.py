from __future__ import annotations

from hashlib import blake2b

import numpy as np

from rescorer.pair_folds import folds_of, phrase_hashes, word_hashes

WORDS = [b"a", b"the", b"\xc3\xa9t\xc3\xa9", b"|"]
TWO_64 = 2**64
MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd


def plain_phrase(words: list[bytes]) -> int:
    result = 0
    for word in words:
        digest = int.from_bytes(blake2b(word, digest_size=8).digest(), "little")
        result = (result + digest) * MULTIPLIER % TWO_64
        result ^= result >> 32
    return result


def plain_fold(source: bytes, target: bytes, n_folds: int) -> int:
    """In Python's whole numbers, which do not overflow."""
    total = 0
    for phrase in (source, target):
        number = plain_phrase(phrase.split())
        total += (number * MULTIPLIER % TWO_64) ^ (number >> 32)
    return (total * MULTIPLIER % TWO_64 >> 32) % n_folds


def phrases(n: int) -> tuple[list[bytes], list[bytes]]:
    rng = np.random.default_rng(1)
    drawn = [
        b" ".join(b"w%d" % word for word in rng.integers(0, 50, rng.integers(0, 8)))
        for _ in range(2 * n)
    ]
    return drawn[:n], drawn[n:]


def test_folds_are_those_of_their_definition() -> None:
    """The same on every machine, in every process and version: models on disk depend on it."""
    sources, targets = phrases(200)
    for n_folds in (2, 3, 10):
        expected = [plain_fold(s, t, n_folds) for s, t in zip(sources, targets, strict=True)]
        assert folds_of(sources, targets, n_folds).tolist() == expected


def test_swapped_sides_and_blanks_change_nothing() -> None:
    sources, targets = phrases(50)
    folds = folds_of(sources, targets, 5)
    np.testing.assert_array_equal(folds_of(targets, sources, 5), folds)
    spaced = [b"  " + source.replace(b" ", b"\t ") for source in sources]
    np.testing.assert_array_equal(folds_of(spaced, targets, 5), folds)


def test_the_order_of_words_counts() -> None:
    hashes = word_hashes(WORDS)
    found = phrase_hashes(np.array([0, 1, 1, 0]), np.array([2, 2, 0]), hashes)
    assert found[0] != found[1] and found[2] == 0
    assert found.tolist() == [plain_phrase([b"a", b"the"]), plain_phrase([b"the", b"a"]), 0]


def test_folds_are_of_about_one_size() -> None:
    names = [b"w%d" % number for number in range(30_000)]
    counts = np.bincount(folds_of(names, names[::-1], 10))
    assert len(counts) == 10 and np.abs(counts - 3_000).max() < 300


def test_no_pairs() -> None:
    assert folds_of([], [], 3).shape == (0,)
