"""The CSLM and its scorers against its equations in NumPy float64, and its training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError, UserError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import load_model, save_model, scorer_of_model
from rescorer.runs.train import train
from rescorer.scorers.cslm import (
    Cslm,
    CslmConfig,
    CslmTrainingConfig,
    cslm_ngram_scorer,
    cslm_scorer,
    prepare,
)
from rescorer.training.loop_config import LoopConfig
from rescorer.windows.feed_forward import FirstLayerLookup
from rescorer.windows.task import WindowTask
from tests.rescorer.plain_networks import log_probs

SIZES = CslmConfig(context_words=3, embedding_width=5, first_width=11, second_width=7)


def test_the_network_is_its_equations() -> None:
    torch.manual_seed(1)
    network = Cslm(SIZES, 6)
    torch.nn.init.normal_(network.output.bias)
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    rng = np.random.default_rng(2)
    contexts, words = rng.integers(0, 7, (40, 3)), rng.integers(0, 6, 40)
    expected = []
    for context, word in zip(contexts, words, strict=True):
        x = np.concatenate([p["embedding.weight"][i] for i in context])
        first = np.maximum(0, p["first.weight"] @ x + p["first.bias"])
        second = np.maximum(0, p["second.weight"] @ first + p["second.bias"])
        logits = p["output.weight"] @ second + p["output.bias"]
        expected.append(logits[word] - np.log(np.exp(logits).sum()))
    with torch.inference_mode():
        found = log_probs(network, torch.from_numpy(contexts), torch.from_numpy(words))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_all_words_together_have_probability_one() -> None:
    network = Cslm(SIZES, 6)
    with torch.inference_mode():
        found = log_probs(network, torch.tensor([[6, 6, 2]]).expand(6, -1), torch.arange(6))
    assert found.double().exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_the_start_of_a_sentence_is_a_word_of_the_input_alone() -> None:
    network = Cslm(SIZES, 6)
    assert network.start_id == 6
    assert network.embedding.weight.shape == (7, 5) and network.output.weight.shape == (6, 7)


def test_initial_weights() -> None:
    """Output in (-0.01, 0.01); hidden ones uniform with variance 2 / fan in (He et al. 2015)."""
    network = Cslm(CslmConfig(4, 32, 200, 100), 400)
    assert network.output.weight.abs().max() <= 0.01 and network.embedding.weight.abs().max() <= 0.1
    for layer in (network.first, network.second):
        deviation = (2 / layer.in_features) ** 0.5
        assert layer.weight.std().item() == pytest.approx(deviation, rel=0.05)
        assert not layer.bias.any()


@pytest.mark.parametrize("name", ["context_words", "embedding_width", "first_width"])
def test_a_size_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0; the smallest value is 1"):
        CslmConfig(**{name: 0})


def test_a_word_outside_the_input_is_refused() -> None:
    with pytest.raises(IndexError):
        Cslm(SIZES, 6).hidden(torch.tensor([[7, 0, 0]]))


def test_training_learns_a_fixed_sentence(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"a b c d\n" * 200)
    config = CslmTrainingConfig(
        n_held_out=20,
        batch_words=64,
        n_sampled=0,
        loop=LoopConfig(n_epochs=12, learning_rate=0.02, warmup_updates=5),
        model=SIZES,
    )
    report = train("cslm", Data(text), tmp_path / "model", config)
    loaded = load_model(tmp_path / "model")
    scorer = cslm_scorer(loaded, Compute(device="cpu"))
    known, other = scorer.values(Batch([b"", b""], [b"a b c d", b"d c b a"]))
    assert report.held_out_loss is not None
    assert report.held_out_loss < 0.1
    assert known > -0.5
    assert other < known - 5


def test_the_data_are_the_ngrams_of_whole_sentences(tmp_path: Path) -> None:
    """By falling frequency a, b, c: 2, 3, 4; x is rare; <s> is 5."""
    text = tmp_path / "text"
    text.write_bytes(b"a b c\n\na a b x\nc b a\n")
    config = CslmTrainingConfig(shortlist=3, n_held_out=0, model=CslmConfig(2, 3, 3, 3))
    prepared = prepare(Data(text), config, 1)
    assert prepared.shortlists.source is None
    assert prepared.shortlists.target.words[2:] == (b"a", b"b", b"c")
    assert isinstance(prepared.task, WindowTask)
    rows = [[5, 5, 2], [5, 2, 3], [2, 3, 4], [3, 4, 0], [5, 5, 2], [5, 2, 2], [2, 2, 3]]
    rows += [[2, 3, 1], [3, 1, 0], [5, 5, 4], [5, 4, 3], [4, 3, 2], [3, 2, 0]]
    assert prepared.task.train_rows.tolist() == rows


def test_sentences_are_held_out_whole(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"".join(b"w%d w%d\n" % (n, n) for n in range(40)))
    prepared = prepare(Data(text), CslmTrainingConfig(n_held_out=4, model=SIZES), 3)
    assert isinstance(prepared.task, WindowTask)
    known = set(prepared.task.train_rows[:, -1].tolist()) - {0}
    held_out = set(prepared.task.held_out_rows[:, -1].tolist()) - {0}
    assert (len(held_out), prepared.task.n_held_out) == (4, 12) and not known & held_out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_words": 0}, "batch_words is 0"),
        ({"n_held_out": -1}, "n_held_out is -1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"model": {"context_words": 0}}, "context_words is 0"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_mapping(CslmTrainingConfig, settings, "here")


def test_empty_text_is_an_error(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"\n \n")
    with pytest.raises(InputError, match="no sentence"):
        prepare(Data(text), CslmTrainingConfig(), 1)


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
