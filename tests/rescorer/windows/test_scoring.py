from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from rescorer.contract.batch import Batch
from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.output_layer import ExactOutputLayer
from rescorer.windows import scoring
from rescorer.windows.scoring import FilledWindows, WindowScorer, window_log_probs


class Counting:
    """Two words of a window, each with its logits by hand; counts the windows that it sees.

    Args:
        logits: by word, *Shape:* (words, words).
    """

    def __init__(self, logits: torch.Tensor) -> None:
        n_words = len(logits)
        self.output = torch.nn.Linear(n_words, n_words)
        torch.nn.init.eye_(self.output.weight)
        torch.nn.init.zeros_(self.output.bias)
        self.logits = logits
        self.sizes: list[int] = []

    def hidden(self, windows: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(windows))
        return self.logits[windows[:, 0]] - self.logits[windows[:, 1]]


@pytest.fixture
def network() -> Counting:
    return Counting(torch.randn(6, 6, generator=torch.Generator().manual_seed(3)))


def expected_log_probs(network: Counting, rows: np.ndarray) -> np.ndarray:
    logits = network.logits.double().numpy()
    logits = logits[rows[:, 0]] - logits[rows[:, 1]]
    return np.asarray(log_softmax(logits, axis=1)[np.arange(len(rows)), rows[:, 2]])


def layer_of(network: Counting) -> ExactOutputLayer:
    return ExactOutputLayer(network.output, torch.float32)


@pytest.mark.parametrize("rows_at_once", [1, 5, 1000])
def test_each_distinct_window_is_computed_once(
    monkeypatch: pytest.MonkeyPatch, network: Counting, rows_at_once: int
) -> None:
    monkeypatch.setattr(scoring, "ROWS_AT_ONCE", rows_at_once)
    rows = np.random.default_rng(1).integers(0, 6, (200, 3)).astype(np.int32)
    found = window_log_probs(network, layer_of(network), rows)
    np.testing.assert_allclose(found, expected_log_probs(network, rows), atol=1e-5)
    n_distinct = len({tuple(row) for row in rows[:, :2].tolist()})
    assert sum(network.sizes) == n_distinct and max(network.sizes) <= rows_at_once


def window_scorer(network: Counting, needs_links: bool = False) -> WindowScorer:
    """A pair has as many windows as its target has words, made of the lengths of its parts."""

    def fill(batch: Batch) -> FilledWindows:
        assert (batch.links is not None) == needs_links
        rows, pairs = [], []
        for pair, (source, target) in enumerate(zip(batch.sources, batch.targets, strict=True)):
            n_links = len(batch.links[pair].split()) if batch.links else 0
            for place, word in enumerate(target.split()):
                rows.append([len(source), place + n_links, int(word)])
                pairs.append(pair)
        windows = np.array(rows, np.int32).reshape(-1, 3)
        return FilledWindows(windows, np.array(pairs, np.int64))

    return WindowScorer(network, layer_of(network), Vocabulary([b"a"]), fill, needs_links)


def test_a_value_is_the_sum_over_the_windows_of_its_pair(network: Counting) -> None:
    scorer = window_scorer(network)
    found = scorer.values(Batch([b"aa", b"", b"a", b"aa"], [b"3 4 5", b"1", b"", b"3"]))
    terms = expected_log_probs(network, np.array([[2, 0, 3], [2, 1, 4], [2, 2, 5], [0, 0, 1]]))
    expected = [terms[:3].sum(), terms[3], 0.0, terms[0]]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.dtype == np.float64


def test_links_are_handed_on(network: Counting) -> None:
    scorer = window_scorer(network, needs_links=True)
    assert scorer.needs_links
    found = scorer.values(Batch([b"aa", b"aa"], [b"3", b"3"], [b"0-0", b"0-0 1-0"]))
    expected = expected_log_probs(network, np.array([[2, 1, 3], [2, 2, 3]]))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_links_are_not_asked_for_unless_they_are_needed(network: Counting) -> None:
    filled = window_scorer(network).fill
    assert not WindowScorer(network, layer_of(network), Vocabulary([b"a"]), filled).needs_links


def test_a_network_with_trained_parameters_is_scored_without_gradients(network: Counting) -> None:
    network.logits.requires_grad_()
    rows = np.array([[0, 1, 2], [3, 4, 5]], np.int32)
    found = window_log_probs(network, layer_of(network), rows)
    network.logits.requires_grad_(False)
    np.testing.assert_allclose(found, expected_log_probs(network, rows), atol=1e-5)


def test_no_pairs(network: Counting) -> None:
    assert window_scorer(network).values(Batch([], [])).shape == (0,)
    assert not network.sizes


def test_a_word_that_is_not_there_is_refused(network: Counting) -> None:
    with pytest.raises(IndexError):
        window_scorer(network).values(Batch([b"a"], [b"6"]))
