"""Values of a bilingual autoencoder against NumPy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import WordScorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.zoo.bae import Bae, BaeConfig, bae_embeddings, bae_scorer, bae_summaries

ON_CPU = Compute(device="cpu")


@pytest.fixture
def model() -> TrainedModel[Bae]:
    torch.manual_seed(1)
    network = Bae(BaeConfig(code_width=4), 5, 4)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    shortlists = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y"]))
    return TrainedModel("bae", network.eval(), shortlists, {})


def numpy_code(network: Bae, side: str, words: list[int]) -> np.ndarray:
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    rows = [p[f"{side}_vectors.weight"][word] for word in words]
    return np.tanh(p["code_bias"] + sum(rows, np.zeros(4)))


def test_the_value_is_the_cosine_of_the_codes(model: TrainedModel[Bae]) -> None:
    """A word counts once; unknown words are one word."""
    sources, targets = [b"a", b"b a b", b"c new other", b"a"], [b"x y", b"y", b"", b"strange"]
    ids = [([2], [2, 3]), ([2, 3], [3]), ([1, 4], []), ([2], [1])]
    expected = []
    for source, target in ids:
        one = numpy_code(model.network, "source", source)
        other = numpy_code(model.network, "target", target)
        expected.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    found = bae_scorer(model, ON_CPU).values(Batch(sources, targets))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_order_does_not_count(model: TrainedModel[Bae]) -> None:
    scorer = bae_scorer(model, ON_CPU)
    one, other = scorer.values(Batch([b"a b c", b"c a b"], [b"x y", b"y x"]))
    assert one == pytest.approx(other, abs=1e-6)


def test_a_bag_predicts_no_word(model: TrainedModel[Bae]) -> None:
    scorer = bae_scorer(model, ON_CPU)
    assert not isinstance(scorer, WordScorer) and not scorer.needs_links
    assert scorer.values(Batch([], [])).shape == (0,)


def test_words_of_both_sides_and_phrases_have_vectors(model: TrainedModel[Bae]) -> None:
    shapes = {side: vectors.shape for side, vectors in bae_embeddings(model).items()}
    assert shapes == {"source": (5, 4), "target": (4, 4)}
    expected = [numpy_code(model.network, "source", ids) for ids in ([3], [2, 4])]
    found = bae_summaries(model, ON_CPU)([b"b", b"c a"])
    np.testing.assert_allclose(found, expected, atol=1e-6)
