"""Scorers of a CSLM against its equations in NumPy float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import UserError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model, scorer_of_model
from rescorer.scorers.cslm.inference import FirstLayerLookup, cslm_ngram_scorer, cslm_scorer
from rescorer.scorers.cslm.network import Cslm, CslmConfig

SIZES = CslmConfig(context_words=3, embedding_width=5, first_width=11, second_width=7)
WORDS = [b"a", b"b", b"c", b"d"]
ON_CPU = Compute(device="cpu")


@pytest.fixture
def model() -> Cslm:
    torch.manual_seed(1)
    network = Cslm(SIZES, len(WORDS) + 2)
    torch.nn.init.normal_(network.output.bias)
    return network


def numpy_log_prob(network: Cslm, ids: list[int], end_id: int) -> float:
    """Sum of log softmax over the words of a sentence and </s>, written from the equations."""
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    history = [network.start_id] * SIZES.context_words
    total = 0.0
    for word in [*ids, end_id]:
        x = np.concatenate([p["embedding.weight"][i] for i in history])
        first = np.maximum(0, p["first.weight"] @ x + p["first.bias"])
        second = np.maximum(0, p["second.weight"] @ first + p["second.bias"])
        logits = p["output.weight"] @ second + p["output.bias"]
        total += logits[word] - np.log(np.exp(logits).sum())
        history = [*history[1:], word]
    return total


def trained(network: Cslm) -> TrainedModel[Cslm]:
    return TrainedModel("cslm", network.eval(), Shortlists(None, Vocabulary(WORDS)), {})


def test_scorer_agrees_with_the_equations(model: Cslm) -> None:
    texts = [b"a b c", b"", b"d x a a b c d", b"a b c"]
    ids = [[2, 3, 4], [], [5, 1, 2, 2, 3, 4, 5], [2, 3, 4]]
    expected = [numpy_log_prob(model, row, Vocabulary.end_id) for row in ids]
    assert cslm_scorer(trained(model), ON_CPU).values(Batch(texts, texts)) == pytest.approx(
        expected, abs=1e-5
    )


def test_a_model_directory_is_scored_in_the_precision_that_is_asked_for(
    model: Cslm, tmp_path: Path
) -> None:
    for weight in (model.embedding.weight, model.output.weight):
        torch.nn.init.normal_(weight)
    save_model(tmp_path, "cslm", model, SIZES, Shortlists(None, Vocabulary(WORDS)), {})
    expected = numpy_log_prob(model, [2, 3, 4], Vocabulary.end_id)
    batch = Batch([b"x"], [b"a b c"])
    (exact,) = scorer_of_model(tmp_path, ON_CPU).scorer.values(batch)
    (rounded,) = scorer_of_model(tmp_path, Compute("bfloat16", "cpu")).scorer.values(batch)
    assert exact == pytest.approx(expected, abs=1e-5)
    assert rounded != pytest.approx(expected, abs=1e-5)
    assert rounded == pytest.approx(expected, abs=0.1)


def test_no_sentence_has_no_score(model: Cslm) -> None:
    assert len(cslm_scorer(trained(model), ON_CPU).values(Batch([], []))) == 0


def test_unknown_words_can_be_counted(model: Cslm) -> None:
    scorer = cslm_scorer(trained(model), ON_CPU)
    assert not scorer.needs_links
    assert scorer.shortlist.n_unknown([b"a x b", b"", b"y </s>"]).tolist() == [1, 0, 2]


@torch.inference_mode()
def test_a_looked_up_first_layer_is_the_multiplied_one(model: Cslm) -> None:
    windows = torch.from_numpy(np.random.default_rng(1).integers(0, len(WORDS) + 3, (50, 3)))
    found = FirstLayerLookup(model).hidden(windows)
    torch.testing.assert_close(found, model.hidden(windows))


def test_the_search_asks_the_same_network(model: Cslm) -> None:
    scorer = cslm_ngram_scorer(trained(model), ON_CPU)
    assert (scorer.order, scorer.start_id, scorer.end_id) == (4, 6, 0)
    ngrams = np.array([[6, 6, 6, 2], [6, 6, 2, 3], [6, 2, 3, 4], [2, 3, 4, 0]], np.int32)
    expected = numpy_log_prob(model, [2, 3, 4], 0)
    assert scorer.log_probs(ngrams).sum() == pytest.approx(expected, abs=1e-5)


def test_a_word_that_is_not_there_is_refused(model: Cslm) -> None:
    scorer = cslm_ngram_scorer(trained(model), ON_CPU)
    with pytest.raises(UserError, match="found the previous word 8, expected 0 to 7"):
        scorer.log_probs(np.array([[6, 6, 8, 2]], np.int32))
    with pytest.raises(UserError, match="found the word 6, expected 0 to 5"):
        scorer.estimates(np.array([[6, 6, 1, 6]], np.int32))
