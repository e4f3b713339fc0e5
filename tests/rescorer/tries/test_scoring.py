"""."""

from __future__ import annotations

import itertools
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit, logsumexp
from scipy.stats import spearmanr
from torch import nn

from moses_bridge.base.blocks import map_in_order
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Precision
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.output_layer import ExactOutputLayer
from rescorer.scorers.encdec import EncDecConfig, EncDecScorer, EncoderDecoder, encdec_scorer
from rescorer.tries import recurrent, scoring
from rescorer.tries.recurrent import NO_WORD, word_vectors
from rescorer.tries.scoring import TrieScorer, with_no_word

WORDS = [b"w%d" % number for number in range(40)]


def make_model(hidden_width: int = 24, n_words: int = 30, seed: int = 3) -> EncoderDecoder:
    torch.manual_seed(seed)
    model = EncoderDecoder(EncDecConfig(hidden_width, 10, 8), n_words + 2, n_words + 2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def make_scorer(model: EncoderDecoder, precision: Precision = "float32") -> EncDecScorer:
    vocabulary = Vocabulary(WORDS[: model.output.out_features - 2])
    shortlists = Shortlists(vocabulary, vocabulary)
    return encdec_scorer(
        TrainedModel("encdec", model.eval(), shortlists, {}), Compute(precision, "cpu")
    )


def make_pairs(n_pairs: int, seed: int = 5) -> tuple[list[bytes], list[bytes]]:
    rng = random.Random(seed)
    sources = [
        b" ".join(rng.choices(WORDS[:6], k=rng.randint(1, 5))) for _ in range(n_pairs // 4 + 1)
    ]
    pairs = [
        (rng.choice(sources), b" ".join(rng.choices(WORDS, k=rng.randint(0, 6))))
        for _ in range(n_pairs)
    ]
    return [source for source, _ in pairs], [target for _, target in pairs]


def transcribed(
    model: EncoderDecoder, source: list[int], target: list[int], with_end: bool = True
) -> float:
    """The equations of Cho et al. (2014), one pair, one step at a time, in float64; 0 is </s>.

    Without the end it is what all targets that begin so have together.
    """
    w = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}
    d = model.config.hidden_width

    def gated(
        side: str, h: NDArray[np.float64], inputs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        u = w[f"{side}.recurrent_gates.weight"]
        r = expit(inputs[:d] + u[:d] @ h)
        z = expit(inputs[d : 2 * d] + u[d:] @ h)
        candidate = np.tanh(inputs[2 * d :] + w[f"{side}.recurrent_candidate.weight"] @ (r * h))
        return z * h + (1 - z) * candidate

    h = np.zeros(d)
    for word in [*source, 0]:
        x = w["source_embedding.weight"][word]
        h = gated("encoder", h, w["encoder.input.weight"] @ x + w["encoder.input.bias"])
    c = np.tanh(w["summary.weight"] @ h + w["summary.bias"])
    h = np.tanh(w["decoder_start_layer.weight"] @ c + w["decoder_start_layer.bias"])
    y = np.zeros(model.config.embedding_width)
    total = 0.0
    for word in [*target, 0] if with_end else target:
        inputs = w["decoder.input.weight"] @ y + w["decoder.input.bias"]
        h = gated("decoder", h, inputs + w["context_to_unit.weight"] @ c)
        s = w["hidden_to_readout.weight"] @ h + w["hidden_to_readout.bias"]
        s = s + w["word_to_readout.weight"] @ y + w["context_to_readout.weight"] @ c
        factor = w["readout_factor.weight"] @ np.maximum(s[0::2], s[1::2])
        logits = w["output.weight"] @ factor + w["output.bias"]
        total += logits[word] - logsumexp(logits)
        y = w["target_embedding.weight"][word]
    return total


def test_equals_the_equations_pair_by_pair() -> None:
    model = make_model()
    sources, targets = make_pairs(120)
    ids = {word: number for number, word in enumerate(WORDS[:30], start=2)}
    expected = [
        transcribed(
            model,
            [ids.get(word, 1) for word in source.split()],
            [ids.get(word, 1) for word in target.split()],
        )
        for source, target in zip(sources, targets, strict=True)
    ]
    found = make_scorer(model).values(Batch(sources, targets))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_probabilities_of_all_targets_sum_to_one(length: int) -> None:
    """All shorter targets from the scorer, and what begins with so many words from the equations."""
    model = make_model(n_words=2)
    words = {WORDS[0]: 2, WORDS[1]: 3, b"other": 1}
    shorter = [
        b" ".join(target) for n in range(length) for target in itertools.product(words, repeat=n)
    ]
    finished = make_scorer(model).values(Batch([b"w1 w0"] * len(shorter), shorter))
    begun = [
        transcribed(model, [3, 2], list(target), with_end=False)
        for target in itertools.product(words.values(), repeat=length)
    ]
    assert np.exp(finished).sum() + np.exp(begun).sum() == pytest.approx(1, abs=1e-5)
    assert 0.05 < np.exp(finished).sum() < 0.95


@pytest.mark.parametrize("n_blocks", [2, 7, 200])
def test_a_pair_does_not_depend_on_its_block(n_blocks: int) -> None:
    scorer = make_scorer(make_model())
    sources, targets = make_pairs(200)
    whole = scorer.values(Batch(sources, targets))
    order = np.random.default_rng(n_blocks).permutation(200)
    found = np.empty(200)
    for rows in np.array_split(order, n_blocks):
        found[rows] = scorer.values(Batch([sources[r] for r in rows], [targets[r] for r in rows]))
    np.testing.assert_allclose(found, whole, atol=1e-5)


def test_a_level_may_be_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make_scorer(make_model())
    batch = Batch(*make_pairs(60))
    whole = scorer.values(batch)
    monkeypatch.setattr(recurrent, "NODES_AT_ONCE", 7)
    np.testing.assert_allclose(scorer.values(batch), whole, atol=1e-5)


def test_threads_change_nothing() -> None:
    scorer = make_scorer(make_model())
    sources, targets = make_pairs(400)
    blocks = [slice(start, start + 50) for start in range(0, 400, 50)]
    one, three = (
        np.concatenate(
            list(map_in_order(lambda b: scorer.values(Batch(sources[b], targets[b])), blocks, jobs))
        )
        for jobs in (1, 3)
    )
    np.testing.assert_array_equal(one, three)


def test_bfloat16_is_close() -> None:
    torch.manual_seed(1)
    model = EncoderDecoder(EncDecConfig(128, 64, 64), 42, 42)
    model.initialise(None)
    torch.nn.init.normal_(model.output.weight, std=0.5)
    sources, targets = make_pairs(500)
    exact = make_scorer(model).values(Batch(sources, targets))
    rounded = make_scorer(model, "bfloat16").values(Batch(sources, targets))
    assert np.abs(exact - rounded).max() > 0
    assert np.abs(exact - rounded).mean() < 0.02
    assert spearmanr(exact, rounded).statistic > 0.999


def test_unknown_words_are_counted() -> None:
    scorer = make_scorer(make_model(n_words=3))
    found = scorer.shortlist.n_unknown([b"w0 w9 w1", b"", b"x y z", b"w2"])
    assert found.tolist() == [1, 0, 3, 0]


def test_no_pairs() -> None:
    assert make_scorer(make_model()).values(Batch([], [])).shape == (0,)


def test_more_targets_than_sources_are_refused() -> None:
    with pytest.raises(ValueError, match="1 sources, 2 targets"):
        make_scorer(make_model()).values(Batch([b"w1"], [b"w1", b"w2"]))


class Nothing(NamedTuple):
    """No numbers, but so many rows."""

    rows: torch.Tensor


class Logits(NamedTuple):
    logits: torch.Tensor


class Bigrams:
    """p(word | word before) from a table whose last row stands before the first word; no source.

    Args:
        probs: by the word before and the word, *Shape:* (words + 1, words).
    """

    def __init__(self, probs: NDArray[np.float64]) -> None:
        self.logits = torch.from_numpy(np.log(probs).astype(np.float32))
        self.read_sources: list[tuple[list[list[int]], list[int]]] = []
        self.output = torch.nn.Linear(probs.shape[1], probs.shape[1])
        torch.nn.init.eye_(self.output.weight)
        torch.nn.init.zeros_(self.output.bias)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Nothing:
        self.read_sources.append((ids.tolist(), lens.tolist()))
        return Nothing(torch.zeros(len(ids), 1))

    def start(self, source: Nothing) -> Nothing:
        return source

    def inputs(self, words: torch.Tensor, source: Nothing, rows: torch.Tensor) -> Logits:
        assert int(rows.max()) < len(source.rows)
        return Logits(self.logits[words])

    def carry(self, state: Nothing) -> Nothing:
        return state

    def step(self, carried: Nothing, inputs: Logits, source: Nothing) -> Nothing:
        assert len(carried.rows) == len(inputs.logits)
        return carried

    def factors(self, state: Nothing, inputs: Logits, source: Nothing) -> torch.Tensor:
        return inputs.logits


def test_a_language_model_has_one_source_for_all_targets() -> None:
    """</s>, <unk>, a, b; by hand."""
    probs = np.array(
        [[1, 1, 1, 1], [2, 2, 2, 2], [1, 1, 0.5, 1.5], [3, 1, 2, 2], [0.4, 0.8, 2, 0.8]]
    )
    probs /= probs.sum(axis=1, keepdims=True)
    network = Bigrams(probs)
    layer = ExactOutputLayer(network.output, torch.float32)
    scorer = TrieScorer(network, layer, Shortlists(None, Vocabulary([b"a", b"b"])))
    pairs = Batch([b"s", b"t", b"u"], [b"a b", b"", b"c b b"])
    found = np.exp(scorer.values(pairs))
    expected = [0.5 * (1.5 / 4) * (3 / 8), 0.1, 0.2 * 0.25 * (2 / 8) * (3 / 8)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert network.read_sources == [([[Vocabulary.end_id]], [0])]
    words = scorer.word_log_probs(pairs)
    assert words.pairs.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    by_word = [0.5, 1.5 / 4, 3 / 8, 0.1, 0.2, 0.25, 2 / 8, 3 / 8]
    np.testing.assert_allclose(np.exp(words.log_probs), by_word, rtol=1e-5)
    assert scorer.shortlist.n_unknown([b"a c"]).tolist() == [1] and not scorer.needs_links


@pytest.mark.parametrize("most", [1, 7, 40])
def test_so_many_words_of_sources_are_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Sources that no target shares, as hypotheses are where sides are reversed; a long one is read alone."""
    pairs = Batch(*make_pairs(60)[::-1])
    scorer = make_scorer(make_model(n_words=40))
    expected, words = scorer.values(pairs), scorer.word_log_probs(pairs)
    read, sizes = scorer.network.read, []

    def counted(ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Any:
        sizes.append((len(lens), int((lens + 1).sum())))
        return read(ids, lens)

    monkeypatch.setattr(scorer.network, "read", counted)
    monkeypatch.setattr(scoring, "SOURCE_WORDS_AT_ONCE", most)
    np.testing.assert_allclose(scorer.values(pairs), expected, atol=1e-5)
    assert all(n_sources == 1 or n_words <= most for n_sources, n_words in sizes)
    assert len(sizes) > 1
    found = scorer.word_log_probs(pairs)
    np.testing.assert_array_equal(found.pairs, words.pairs)
    np.testing.assert_allclose(found.log_probs, words.log_probs, atol=1e-5)
    assert len(scorer.values(Batch([], []))) == len(scorer.word_log_probs(Batch([], [])).pairs) == 0


def test_no_word_has_a_vector_of_zeros() -> None:
    """Looked up in the table and computed by the embedding."""
    embedding = nn.Embedding(3, 2)
    words = torch.tensor([2, NO_WORD, 0])
    expected = embedding.weight[[2, 0, 0]] * torch.tensor([[1.0], [0.0], [1.0]])
    torch.testing.assert_close(with_no_word(embedding.weight)[words], expected)
    torch.testing.assert_close(word_vectors(embedding, words), expected)
