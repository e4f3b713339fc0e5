"""Values of word pairs against sums by hand, and what they learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import WordScorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import scorer_of_model
from rescorer.runs.train import train
from rescorer.scorers import word_pairs
from rescorer.scorers.word_pairs import (
    WordPairs,
    WordPairsConfig,
    WordPairsTrainingConfig,
    phrase_values,
    word_pairs_scorer,
)
from rescorer.training.loop_config import LoopConfig

ON_CPU = Compute(device="cpu")
# Ids: </s> 0, <unk> 1, then the words.
SHORTLISTS = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y"]))
PAIRS = Batch([b"a b", b"c", b"b b new", b"a", b""], [b"x y", b"x x", b"other", b"", b"x"])
IDS = [([2, 3], [2, 3]), ([4], [2, 2]), ([3, 3, 1], [1]), ([2], []), ([], [2])]


@pytest.fixture
def model() -> TrainedModel[WordPairs]:
    torch.manual_seed(1)
    network = WordPairs(WordPairsConfig(hash_bits=8), n_target_words=4)
    torch.nn.init.normal_(network.pair_weights)
    return TrainedModel("word_pairs", network, SHORTLISTS, {})


def place(source: int, target: int) -> int:
    """The highest 8 of 64 bits of a product, in whole numbers without end."""
    return ((source * 4 + target) * 0x9E3779B97F4A7C15 % 2**64) >> 56


def plain(model: TrainedModel[WordPairs]) -> list[float]:
    weights = model.network.pair_weights.detach().double().numpy()
    return [sum(weights[place(s, t)] for s in source for t in target) for source, target in IDS]


@pytest.mark.parametrize("at_once", [2**21, 7])
def test_a_value_is_the_sum_over_pairs_of_words(
    at_once: int, model: TrainedModel[WordPairs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_pairs, "WORD_PAIRS_AT_ONCE", at_once)
    scorer = word_pairs_scorer(model, ON_CPU)
    np.testing.assert_allclose(scorer.values(PAIRS), plain(model), atol=1e-6)
    assert scorer.values(Batch([], [])).shape == (0,)
    assert not isinstance(scorer, WordScorer) and scorer.shortlist is SHORTLISTS.target


def test_a_table_of_values_has_the_same(model: TrainedModel[WordPairs]) -> None:
    assert SHORTLISTS.source is not None
    sources = SHORTLISTS.source.encode_phrases(PAIRS.sources)
    targets = SHORTLISTS.target.encode_phrases(PAIRS.targets)
    found = model.network.table(sources, targets).detach().numpy()
    np.testing.assert_allclose(np.diag(found), plain(model), atol=1e-6)
    row = Batch([PAIRS.sources[2]] * 5, PAIRS.targets)
    np.testing.assert_allclose(found[2], word_pairs_scorer(model, ON_CPU).values(row), atol=1e-6)


def test_gradients_count_the_pairs_of_words(model: TrainedModel[WordPairs]) -> None:
    chosen = [[side[pair] for pair in (1, 2, 1)] for side in (PAIRS.sources, PAIRS.targets)]
    values = phrase_values(model, torch.float32)(Batch(*chosen))
    values.sum().backward()
    gradient = model.network.pair_weights.grad
    expected = np.zeros(256)
    for pair in (1, 2, 1):
        for source in IDS[pair][0]:
            for target in IDS[pair][1]:
                expected[place(source, target)] += 1
    np.testing.assert_array_equal(gradient, expected)


def test_places_are_spread() -> None:
    """Of 100,000 pairs in 2^20 places, some 4.7% come to a place that another one has."""
    network = WordPairs(WordPairsConfig(), n_target_words=15_002)
    with torch.no_grad():
        network.pair_weights.copy_(torch.arange(2**20))
    rng = np.random.default_rng(1)
    keys = rng.choice(15_002**2, 100_000, replace=False)
    places = network.weights_of(keys // 15_002, keys % 15_002).detach().numpy()
    assert 0.94 < len(np.unique(places)) / len(keys) < 0.965


def test_held_out_targets_are_told_from_others(tmp_path: Path) -> None:
    """Each word of a source has one translation; the words of held-out pairs are known, the pairs are not."""
    names = [f"{first} {second}" for first in "abcdefgh" for second in "abcdefgh"]
    rows = "".join(f"{name} ||| {name.upper()} ||| 1 1 1 1\n" for name in names)
    (tmp_path / "table").write_text(rows)
    loop = LoopConfig(n_epochs=20, learning_rate=0.1, evaluations_per_epoch=1, warmup_updates=5)
    config = WordPairsTrainingConfig(n_held_out=6, batch_pairs=20, loop=loop)
    report = train("word_pairs", Data(tmp_path / "table"), tmp_path / "m", config)
    # Six targets to choose from, two words and </s> each: ln(6) / 3 nats a word before.
    assert report.held_out_loss is not None and report.held_out_loss < 0.2 * np.log(6) / 3
    scorer = scorer_of_model(tmp_path / "m", Compute()).scorer
    right, wrong = scorer.values(Batch([b"a b", b"a b"], [b"A B", b"C D"]))
    assert right > wrong + 1


@pytest.mark.parametrize("bits", [0, 31])
def test_a_number_of_weights_without_sense_is_refused(bits: int) -> None:
    with pytest.raises(ConfigError, match="hash_bits"):
        WordPairsConfig(hash_bits=bits)


def test_without_source_words_there_is_no_value(model: TrainedModel[WordPairs]) -> None:
    without = TrainedModel("word_pairs", model.network, Shortlists(None, SHORTLISTS.target), {})
    with pytest.raises(ValueError, match="need a source shortlist"):
        phrase_values(without, torch.float32)(PAIRS)
