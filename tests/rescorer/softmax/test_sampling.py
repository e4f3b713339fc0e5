from __future__ import annotations

import numpy as np
import pytest

from rescorer.softmax.sampling import WordSampler


def test_candidates_are_the_predicted_words_and_the_drawn_ones() -> None:
    sampler = WordSampler(np.full(50, 0.02), n_sampled=10, batch_words=3)
    predicted = np.array([7, 3, 7, 49])
    candidates = sampler.draw(predicted, np.random.default_rng(1))
    assert candidates.words[candidates.places].tolist() == predicted.tolist()
    assert 10 <= len(candidates.words) <= 13 and (np.diff(candidates.words) > 0).all()
    np.testing.assert_allclose(
        candidates.corrections, sampler.log_inclusion[candidates.words], atol=0
    )


def test_the_correction_is_the_log_of_how_often_a_word_takes_part() -> None:
    """Drawn from their shares, 20 at a time: counted over many draws."""
    shares = np.array([0.5, 0.3, 0.1, 0.06, 0.04])
    sampler = WordSampler(shares, n_sampled=1, batch_words=4)
    rng, counts = np.random.default_rng(2), np.zeros(5)
    for _ in range(4000):
        counts[sampler.draw(rng.choice(5, 4, p=shares), rng).words] += 1
    np.testing.assert_allclose(counts / 4000, np.exp(sampler.log_inclusion), atol=0.03)


def test_all_words_take_part_in_a_sample_of_all() -> None:
    sampler = WordSampler(np.array([0.9, 0.1, 0.0]), n_sampled=100, batch_words=1)
    assert sampler.log_inclusion.tolist() == pytest.approx([0, 0, 0])
    candidates = sampler.draw(np.array([1]), np.random.default_rng(1))
    assert candidates.words.tolist() == [0, 1, 2]


def test_a_word_that_is_not_there_is_refused() -> None:
    sampler = WordSampler(np.full(4, 0.25), n_sampled=2, batch_words=1)
    with pytest.raises(IndexError):
        sampler.draw(np.array([9]), np.random.default_rng(1))
