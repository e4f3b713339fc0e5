"""Output layers against a softmax in NumPy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from torch import nn

from rescorer.layers import output_layer as module
from rescorer.layers.output_layer import (
    GPU_TURNS,
    EstimatedOutputLayer,
    ExactOutputLayer,
    UnnormalizedOutputLayer,
    flatten_log_z,
    output_layer,
    turn,
)

N_WORDS, WIDTH, N_ROWS = 50, 12, 200


def layer_and_rows(scale: float = 1.0, n_words: int = N_WORDS) -> tuple[nn.Linear, torch.Tensor]:
    torch.manual_seed(7)
    layer = nn.Linear(WIDTH, n_words)
    nn.init.normal_(layer.weight, std=scale)
    nn.init.normal_(layer.bias)
    return layer, torch.randn(N_ROWS, WIDTH)


def logits_of(layer: nn.Linear, rows: torch.Tensor) -> NDArray[np.float64]:
    weight, bias = (p.detach().double().numpy() for p in (layer.weight, layer.bias))
    return np.asarray(rows.double().numpy() @ weight.T + bias)


def words_of(rows: torch.Tensor, n_words: int = N_WORDS) -> torch.Tensor:
    return torch.arange(len(rows)) % n_words


@torch.inference_mode()
def test_the_exact_layer_is_the_softmax() -> None:
    layer, rows = layer_and_rows()
    words = words_of(rows)
    exact = ExactOutputLayer(layer, torch.float32)
    log_z = exact.log_z(rows)
    logits = logits_of(layer, rows)
    np.testing.assert_allclose(log_z, logsumexp(logits, axis=1), atol=1e-5)
    expected = log_softmax(logits, axis=1)[np.arange(N_ROWS), words.numpy()]
    np.testing.assert_allclose(exact.log_probs(rows, log_z, words), expected, atol=1e-5)


def sure_layer() -> tuple[nn.Linear, torch.Tensor, torch.Tensor]:
    """A row whose word has nearly all of the probability, with logits that bfloat16 rounds by 0.06."""
    layer = nn.Linear(1, 3, bias=False)
    layer.bias = nn.Parameter(torch.tensor([0.0, 0.5, -0.25]))
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[1.0039], [0.1], [-0.2]])
    return layer, torch.tensor([[17.03], [20.07]]), torch.tensor([0, 0])


@torch.inference_mode()
def test_in_bfloat16_the_own_term_of_a_word_is_exact() -> None:
    """Where the network is sure, log p is near 0, whatever the products are rounded to."""
    layer, rows, words = sure_layer()
    narrow = ExactOutputLayer(layer, torch.bfloat16)
    logits = logits_of(layer, rows)
    log_z = narrow.log_z(rows)
    expected = log_softmax(logits, axis=1)[[0, 1], words.numpy()]
    rounding = np.abs(log_z.numpy() - logsumexp(logits, axis=1))
    assert rounding.min() > 0.02  # without the exact term this would be the error of log p
    np.testing.assert_allclose(narrow.log_probs(rows, log_z, words), expected, atol=2e-5)
    assert (narrow.log_probs(rows, log_z, words) <= 0).all()


@torch.inference_mode()
def test_in_bfloat16_only_the_other_terms_are_rounded() -> None:
    """log p from float64 with all logits rounded but the word's own."""
    layer, rows = layer_and_rows(scale=2.0)
    words = words_of(rows)
    narrow = ExactOutputLayer(layer, torch.bfloat16)
    weight = layer.weight.bfloat16().double().numpy()
    products = rows.bfloat16().double().numpy() @ weight.T
    products = torch.from_numpy(products).float().bfloat16().double().numpy()
    mixed = products + layer.bias.detach().double().numpy()
    places = np.arange(N_ROWS), words.numpy()
    own = logits_of(layer, rows)[places]
    mixed[places] = own
    found = narrow.log_probs(rows, narrow.log_z(rows), words).double().numpy()
    is_known = own > logsumexp(mixed, axis=1) - 8
    assert is_known.sum() > 20
    expected = own - logsumexp(mixed, axis=1)
    np.testing.assert_allclose(found[is_known], expected[is_known], atol=2e-3)


@torch.inference_mode()
def test_the_unnormalised_layer_gives_logits() -> None:
    layer, rows = layer_and_rows()
    words = words_of(rows)
    for dtype in (torch.float32, torch.bfloat16):
        bare = UnnormalizedOutputLayer(layer, dtype)
        assert not bare.log_z(rows).any()
        found = bare.log_probs(rows, bare.log_z(rows), words)
        expected = logits_of(layer, rows)[np.arange(N_ROWS), words.numpy()]
        np.testing.assert_allclose(found, expected, atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("n_words", [10, 12, 13, 50])
def test_the_estimate_lets_every_third_rare_word_stand_for_its_share(
    monkeypatch: pytest.MonkeyPatch, n_words: int
) -> None:
    monkeypatch.setattr(module, "N_FREQUENT", 12)
    monkeypatch.setattr(module, "STEP", 3)
    layer, rows = layer_and_rows(n_words=n_words)
    estimated = EstimatedOutputLayer(layer, torch.float32)
    terms = np.exp(logits_of(layer, rows))
    rare, some = terms[:, 12:], terms[:, 12::3]
    share = rare.shape[1] / max(1, some.shape[1])
    log_z = np.log(terms[:, :12].sum(axis=1) + share * some.sum(axis=1))
    np.testing.assert_allclose(estimated.log_z(rows), log_z, atol=1e-5)
    words = words_of(rows, n_words)
    expected = logits_of(layer, rows)[np.arange(N_ROWS), words.numpy()] - log_z
    found = estimated.log_probs(rows, estimated.log_z(rows), words)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("unnormalized", "kind"), [(False, ExactOutputLayer), (True, UnnormalizedOutputLayer)]
)
def test_the_layer_that_is_asked_for(unnormalized: bool, kind: type) -> None:
    assert type(output_layer(nn.Linear(2, 3), torch.float32, unnormalized)) is kind


@torch.inference_mode()
def test_a_word_that_is_not_there_is_refused() -> None:
    layer, rows = layer_and_rows()
    exact = ExactOutputLayer(layer, torch.float32)
    with pytest.raises(IndexError):
        exact.log_probs(rows, exact.log_z(rows), torch.full((N_ROWS,), N_WORDS))


@pytest.fixture
def layer() -> torch.nn.Linear:
    torch.manual_seed(1)
    return torch.nn.Linear(5, 40)


def all_logits_of(layer: torch.nn.Linear, rows: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(layer(rows).double().numpy())


def test_the_linear_part_is_gone_and_probabilities_stay(layer: torch.nn.Linear) -> None:
    rows = torch.relu(torch.randn(300, 5)) * 3
    rows[:, 2] = 0
    before = all_logits_of(layer, rows)
    known = np.concatenate([rows.double().numpy(), np.ones((300, 1))], axis=1)
    log_z = logsumexp(before, axis=1)
    rest = log_z - known @ np.linalg.lstsq(known, log_z, rcond=None)[0]
    flatten_log_z(layer, rows.split(77))
    after = all_logits_of(layer, rows)
    np.testing.assert_allclose(logsumexp(after, axis=1), rest, atol=1e-4)
    np.testing.assert_allclose(log_softmax(after, axis=1), log_softmax(before, axis=1), atol=1e-5)
    assert rest.std() < 0.5 * log_z.std()


def test_without_rows_it_stays(layer: torch.nn.Linear) -> None:
    before = layer.weight.detach().clone()
    flatten_log_z(layer, [])
    torch.testing.assert_close(layer.weight.detach(), before, rtol=0, atol=0)


def test_rows_of_another_width_are_refused(layer: torch.nn.Linear) -> None:
    with pytest.raises(RuntimeError):
        flatten_log_z(layer, [torch.ones(3, 4)])


def test_a_gpu_serves_two_threads_at_a_time() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    with turn(gpu), turn(gpu), turn(cpu), turn(cpu):
        assert not GPU_TURNS.acquire(blocking=False)
    with turn(gpu):
        assert GPU_TURNS.acquire(blocking=False)
        GPU_TURNS.release()
