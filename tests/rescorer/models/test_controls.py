from __future__ import annotations

import math
from hashlib import blake2b

import numpy as np
import pytest

from rescorer.contract.batch import Batch
from rescorer.models.controls import LengthScorer, RandomScorer, scorer_of_control


def same(n_pairs: int) -> Batch:
    phrases = [b"s%d" % number for number in range(n_pairs)]
    return Batch(phrases, phrases)


def test_random_control() -> None:
    batch = same(4000)
    reverse = Batch(batch.sources[::-1], batch.targets[::-1])
    first = RandomScorer(1).values(batch)
    np.testing.assert_array_equal(RandomScorer(1).values(reverse)[::-1], first)
    assert abs(first.mean() + 7.5) < 0.3 and abs(first.std() - 15 / math.sqrt(12)) < 0.2
    assert abs(np.corrcoef(first, RandomScorer(2).values(batch))[0, 1]) < 0.06
    assert first.min() >= -15 and first.max() <= 0


def test_noise_is_a_digest_of_the_pair() -> None:
    """The same on every machine: eight bytes of BLAKE2 with the seed as its key."""
    key = (-3).to_bytes(8, "little", signed=True)
    digest = blake2b(b"a b\nx", digest_size=8, key=key).digest()
    expected = -15 * int.from_bytes(digest, "little") / 2**64
    assert RandomScorer(-3).values(Batch([b"a b"], [b"x"])).tolist() == [pytest.approx(expected)]


def test_pairs_are_not_confused_with_their_halves_shifted() -> None:
    values = RandomScorer(1).values(Batch([b"a", b"a b", b""], [b"b c", b"c", b"a b c"]))
    assert len(set(values.tolist())) == 3


def test_length_control_counts_words_as_moses_does() -> None:
    batch = Batch([b"a"] * 4, [b"x\x0by\tz\x0c", b"", b"  x ", b"a b c"])
    assert LengthScorer().values(batch).tolist() == [-2, 0, -1, -3]


def test_each_control_has_its_name_and_fingerprint() -> None:
    controls = [
        scorer_of_control("random", 1),
        scorer_of_control("random", 2),
        scorer_of_control("length", 1),
    ]
    assert len({control.name for control in controls}) == 3
    assert len({control.fingerprint for control in controls}) == 3
    for control in controls:
        assert control.scorer.shortlist is None and not control.scorer.needs_links
        assert control.scorer.values(Batch([], [])).shape == (0,)


def test_a_seed_that_is_no_64_bit_number_is_refused() -> None:
    with pytest.raises(OverflowError):
        RandomScorer(2**63)
