"""Scorers of a command, made of models, of a mean of them, or of a control."""

from __future__ import annotations

import math
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.models.scorer_choice import (
    LengthScorer,
    RandomScorer,
    ScorerChoice,
    scorer_of_control,
)
from rescorer.scorers.cslm import Cslm, CslmConfig

ASKED = Batch([b"a", b"b"], [b"x y", b"y"])


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, ...]:
    words = Vocabulary([b"x", b"y"])
    for seed in (1, 2):
        torch.manual_seed(seed)
        network = Cslm(CslmConfig(2, 4, 4, 4), len(words))
        shortlists = Shortlists(None, words)
        save_model(tmp_path / str(seed), "cslm", network, network.config, shortlists, {})
    return tmp_path / "1", tmp_path / "2"


def test_each_model_is_a_scorer_and_their_mean_is_one(models: tuple[Path, ...]) -> None:
    each = ScorerChoice(models, None, None, 1, Compute()).named()
    (mean,) = ScorerChoice(models, "sentence-log-probs", None, 1, Compute()).named()
    values = [named.scorer.values(ASKED) for named in each]
    assert not np.allclose(*values)
    np.testing.assert_allclose(mean.scorer.values(ASKED), np.mean(values, axis=0))
    assert mean.name.startswith("mean of sentence-log-probs of ")


def test_a_control_is_a_scorer() -> None:
    (named,) = ScorerChoice((), None, "length", 1, Compute()).named()
    assert named.scorer.values(ASKED).tolist() == [-2, -1]


def test_models_and_a_control_are_refused(models: tuple[Path, ...]) -> None:
    with pytest.raises(ConfigError, match="either a model"):
        ScorerChoice(models, None, "length", 1, Compute()).named()


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
