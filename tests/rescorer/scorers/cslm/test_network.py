"""The CSLM against its equations in NumPy float64, and its n-grams against a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.config import from_mapping
from moses_bridge.errors import ConfigError, InputError
from rescorer.model_directory import load_model, save_model
from rescorer.model_scorer import scorer_of_model
from rescorer.scorers.cslm.network import Cslm, CslmConfig
from rescorer.scorers.cslm.task import CslmTrainingConfig, NGramTask, train_cslm, with_dropout
from rescorer.training.loop import LoopConfig
from rescorer.vocabulary import Vocabulary
from rescorer.windows.ngrams import distinct_rows, sentence_ngrams
from rescorer.windows.scoring import CslmScorer

SIZES = CslmConfig(context_words=3, embedding_width=5, first_width=11, second_width=7)
WORDS = [b"a", b"b", b"c", b"d"]


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


def test_scorer_agrees_with_the_equations(model: Cslm) -> None:
    vocabulary = Vocabulary(WORDS)
    texts = [b"a b c", b"", b"d x a a b c d", b"a b c"]
    ids = [[2, 3, 4], [], [5, 1, 2, 2, 3, 4, 5], [2, 3, 4]]
    expected = [numpy_log_prob(model, row, vocabulary.end_id) for row in ids]
    assert CslmScorer(model, vocabulary).log_probs(texts) == pytest.approx(expected, abs=1e-5)


def test_a_model_directory_is_scored_in_the_precision_that_is_asked_for(
    model: Cslm, tmp_path: Path
) -> None:
    torch.nn.init.normal_(model.output.weight)
    save_model(tmp_path, model, None, Vocabulary(WORDS), {})
    expected = numpy_log_prob(model, [2, 3, 4], Vocabulary.end_id)
    (exact,) = scorer_of_model(tmp_path, "float32").scorer.log_probs([b"x"], [b"a b c"])
    (rounded,) = scorer_of_model(tmp_path, "bfloat16").scorer.log_probs([b"x"], [b"a b c"])
    assert exact == pytest.approx(expected, abs=1e-5)
    assert rounded != pytest.approx(expected, abs=1e-5)
    assert rounded == pytest.approx(expected, abs=0.1)


def test_no_sentence_has_no_score(model: Cslm) -> None:
    assert len(CslmScorer(model, Vocabulary(WORDS)).log_probs([])) == 0


def test_ngrams_of_sentences() -> None:
    ids = np.array([4, 5, 6], np.int32)
    ngrams, sentences = sentence_ngrams(ids, np.array([2, 1]), 2, start_id=9, end_id=0)
    assert ngrams.tolist() == [[9, 9, 4], [9, 4, 5], [4, 5, 0], [9, 9, 6], [9, 6, 0]]
    assert sentences.tolist() == [0, 0, 0, 1, 1]


def test_distinct_rows_give_the_rows_back() -> None:
    rows = np.random.default_rng(3).integers(0, 3, (40, 3)).astype(np.int32)
    distinct, inverse = distinct_rows(rows)
    assert len(distinct) == len({tuple(row) for row in rows.tolist()})
    assert (distinct[inverse] == rows).all()


def test_sampled_loss_over_the_whole_shortlist_is_the_exact_loss(model: Cslm) -> None:
    sentences = [b"a b", b"c d a", b"b b c"] * 4
    config = CslmTrainingConfig(
        n_held_out=0,
        n_sampled=len(WORDS) + 2,
        loop=LoopConfig(product_type="float32"),
        model=SIZES,
    )
    task = NGramTask(model, Vocabulary(WORDS), sentences, config, seed=1)
    loss, n_words = task.loss(task.batches(0)[0])
    expected = -sum(
        numpy_log_prob(model, ids, 0) for ids in ([2, 3], [4, 5, 2], [3, 3, 4]) for _ in range(4)
    )
    assert n_words == 44
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_dropout_keeps_the_mean_and_is_what_the_seed_says() -> None:
    hidden = torch.ones(1000, 7)
    first, again, other = (
        with_dropout(hidden, 0.25, np.random.default_rng(seed)) for seed in ((1, 0), (1, 0), (1, 1))
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert first.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert first.mean().item() == pytest.approx(1, abs=0.03)


def test_training_learns_a_fixed_sentence(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"a b c d\n" * 200)
    config = CslmTrainingConfig(
        n_held_out=20,
        batch_words=64,
        n_sampled=0,
        loop=LoopConfig(n_epochs=12, max_minutes=0.0, learning_rate=0.02, warmup_updates=5),
        model=SIZES,
    )
    report = train_cslm(text, tmp_path / "model", config)
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded.network, Cslm)
    known, other = CslmScorer(loaded.network, loaded.target_vocabulary).log_probs(
        [b"a b c d", b"d c b a"]
    )
    assert report.held_out_loss < 0.1
    assert known > -0.5
    assert other < known - 5


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
        train_cslm(text, tmp_path / "model", CslmTrainingConfig())
