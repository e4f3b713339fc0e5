"""Scorers of a CSTM against its equations in NumPy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from moses_bridge.base.errors import UserError
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.output_layer import OutputLayer
from rescorer.scorers.zoo.cstm import (
    Cstm,
    CstmConfig,
    CstmScorer,
    cstm_embeddings,
    cstm_scorer,
    cstm_summaries,
)

SIZES = CstmConfig(phrase_words=3, embedding_width=5, first_width=11, second_width=7)
SOURCE_WORDS, TARGET_WORDS = [b"a", b"b", b"c"], [b"x", b"y"]
ON_CPU = Compute(device="cpu")


@pytest.fixture
def model() -> TrainedModel[Cstm]:
    torch.manual_seed(1)
    shortlists = Shortlists(Vocabulary(SOURCE_WORDS), Vocabulary(TARGET_WORDS))
    network = Cstm(SIZES, 5, 4)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return TrainedModel("cstm", network.eval(), shortlists, {})


def numpy_log_prob(network: Cstm, source: list[int], target: list[int]) -> float:
    """The same equations as in test_network.py, for words that are given by their ids."""
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    x = np.concatenate([p["embedding.weight"][word] for word in [*source, 5, 5, 5][:3]])
    hidden = np.tanh(p["first.weight"] @ x + p["first.bias"])
    hidden = np.tanh(p["second.weight"] @ hidden + p["second.bias"])
    total = 0.0
    for place, word in enumerate([*target, 0][:3]):
        logits = p[f"outputs.{place}.weight"] @ hidden + p[f"outputs.{place}.bias"]
        total += logits[word] - np.log(np.exp(logits).sum())
    return float(total)


PAIRS = {
    (b"a", b"x"): ([2], [2]),
    (b"a", b"x y x"): ([2], [2, 3, 2]),
    (b"c unheard", b""): ([4, 1], []),
    (b"a", b"y  z"): ([2], [3, 1]),
    (b"c b a", b"x"): ([4, 3, 2], [2]),
    (b"c other", b"</s>"): ([4, 1], [1]),
}


def test_scorer_agrees_with_the_equations(model: TrainedModel[Cstm]) -> None:
    expected = [numpy_log_prob(model.network, *ids) for ids in PAIRS.values()]
    batch = Batch([source for source, _ in PAIRS], [target for _, target in PAIRS])
    found = cstm_scorer(model, ON_CPU).values(batch)
    np.testing.assert_allclose(found, expected, atol=1e-5)


class Counting:
    """An output layer that counts the rows whose denominators it is asked for."""

    def __init__(self, layer: OutputLayer) -> None:
        self.layer = layer
        self.n_rows = 0

    def log_z(self, rows: Tensor) -> Tensor:
        self.n_rows += len(rows)
        return self.layer.log_z(rows)

    def log_probs(self, rows: Tensor, log_z: Tensor, words: Tensor) -> Tensor:
        return self.layer.log_probs(rows, log_z, words)


def test_denominators_are_computed_once_a_source_and_place(model: TrainedModel[Cstm]) -> None:
    scorer = cstm_scorer(model, ON_CPU)
    layers = [Counting(layer) for layer in scorer.layers]
    counting = CstmScorer(scorer.network, layers, scorer.source, scorer.shortlist)
    counting.values(Batch([source for source, _ in PAIRS], [target for _, target in PAIRS]))
    # "a", "c <unk>" and "c b a"; all of them have a second place, "a" alone a third one.
    assert [layer.n_rows for layer in layers] == [3, 3, 1]


def test_the_end_behind_the_last_place_is_sure(model: TrainedModel[Cstm]) -> None:
    found = cstm_scorer(model, ON_CPU).word_log_probs(Batch([b"a"], [b"x y x"]))
    assert len(found.log_probs) == 4 and found.log_probs[3] == 0 and (found.log_probs[:3] < 0).all()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            b"a b c a",
            b"x",
            r"'a b c a \|\|\| x': found 4 words on the source side, expected at most 3",
        ),
        (b"b", b"x y x y x", "found 5 words on the target side, expected at most 3, the places"),
    ],
)
def test_phrases_with_more_words_than_places_are_refused(
    model: TrainedModel[Cstm], source: bytes, target: bytes, message: str
) -> None:
    with pytest.raises(UnscorablePair, match=message) as caught:
        cstm_scorer(model, ON_CPU).values(Batch([b"a", source], [b"x", target]))
    assert caught.value.row == 1 and isinstance(caught.value, UserError)


def test_nothing_has_no_score(model: TrainedModel[Cstm]) -> None:
    scorer = cstm_scorer(model, ON_CPU)
    assert scorer.values(Batch([], [])).shape == (0,)
    assert scorer.word_log_probs(Batch([], [])).pairs.shape == (0,)


def test_vectors_are_those_of_words_and_of_whole_phrases(model: TrainedModel[Cstm]) -> None:
    (side, vectors), *others = cstm_embeddings(model).items()
    assert side == "source" and vectors.shape == (5, 5) and not others
    with torch.inference_mode():
        expected = model.network.hidden(torch.tensor([[2, 3, 5], [4, 5, 5]]))
    np.testing.assert_allclose(
        cstm_summaries(model, ON_CPU)([b"a b", b"c"]), expected.numpy(), atol=1e-6
    )
    with pytest.raises(UserError, match="'a a a a': 4 words, where the network has 3 places"):
        cstm_summaries(model, ON_CPU)([b"a", b"a a a a"])
