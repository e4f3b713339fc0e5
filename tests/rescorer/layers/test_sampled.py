from __future__ import annotations

import numpy as np

from rescorer.layers.sampled import WordSampler

SHARES = np.array([0.5, 0.3, 0.1, 0.05, 0.05, 0.0])


def test_words_of_the_update_take_part_and_so_many_others() -> None:
    sampler = WordSampler(SHARES, update_words=3, n_sampled=2)
    for seed in range(20):
        words, log_inclusion = sampler.draw(np.array([4, 4, 1]), np.random.default_rng(seed))
        assert {1, 4} <= set(words.tolist()) and 2 <= len(words) <= 4
        assert list(words) == sorted(set(words)) and len(log_inclusion) == len(words)


def test_a_word_takes_part_as_often_as_is_said() -> None:
    sampler, rng = WordSampler(SHARES, update_words=3, n_sampled=2), np.random.default_rng(1)
    taken, known = np.zeros(6), np.zeros(6)
    for _ in range(4000):
        words, log_inclusion = sampler.draw(rng.choice(6, 3, p=SHARES), rng)
        taken[words] += 1
        known[words] = np.exp(log_inclusion)
    np.testing.assert_allclose(taken / 4000, known, atol=0.03)


def test_a_sample_of_all_words_corrects_nothing() -> None:
    words, log_inclusion = WordSampler(SHARES, 3, 99).draw(np.array([0]), np.random.default_rng(1))
    assert words.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(log_inclusion, 0, atol=1e-12)
