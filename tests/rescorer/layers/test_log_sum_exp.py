"""Log-sum-exp, tile by tile, against SciPy in float64."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch import Tensor

from rescorer.layers import log_sum_exp as module
from rescorer.layers.log_sum_exp import ROWS_AT_ONCE, WORDS_AT_ONCE, log_sum_exp


@pytest.mark.parametrize("n_words", [1, 5, 1024, 3000])
@pytest.mark.parametrize(("scale", "offset"), [(0.1, 0.0), (3.0, 50.0), (20.0, -300.0)])
def test_log_sum_exp(n_words: int, scale: float, offset: float) -> None:
    generator = torch.Generator().manual_seed(n_words)
    factors = torch.randn(300, 6, generator=generator)
    weight = scale * torch.randn(n_words, 6, generator=generator)
    bias = offset + torch.randn(n_words, generator=generator)
    logits = factors.double().numpy() @ weight.double().numpy().T + bias.double().numpy()
    found = log_sum_exp(factors, weight, bias).numpy()
    rounding = 4e-7 * max(1.0, np.abs(logits).max())
    np.testing.assert_allclose(found, logsumexp(logits, axis=1), atol=rounding)


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 300])
def test_log_sum_exp_of_bfloat16_products(n_rows: int) -> None:
    factors, weight = torch.randn(n_rows, 16), torch.randn(2000, 16).bfloat16()
    bias = torch.randn(2000)
    rounded = factors.bfloat16().double().numpy()
    exact = logsumexp(rounded @ weight.double().numpy().T + bias.numpy(), axis=1)
    found = log_sum_exp(factors, weight, bias).numpy()
    np.testing.assert_allclose(found, exact, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_the_borders_of_tiles(dtype: torch.dtype, extra: int) -> None:
    """Numbers that both types have exactly, so that nothing but a lost tile can make a difference."""
    n_rows, n_words = ROWS_AT_ONCE + extra, WORDS_AT_ONCE + extra
    rng = np.random.default_rng(3)
    factors = torch.from_numpy(rng.integers(-2, 3, (n_rows, 4)).astype(np.float32))
    weight = torch.from_numpy(rng.integers(-2, 3, (n_words, 4)).astype(np.float32))
    weight[-1] = 4.0
    bias = torch.from_numpy(rng.normal(size=n_words).astype(np.float32))
    logits = factors.double().numpy() @ weight.double().numpy().T + bias.double().numpy()
    found = log_sum_exp(factors, weight.to(dtype), bias).numpy()
    np.testing.assert_allclose(found, logsumexp(logits, axis=1), atol=2e-5)


@pytest.mark.parametrize("highest", [0, WORDS_AT_ONCE, 3 * WORDS_AT_ONCE])
@pytest.mark.parametrize("lead", [1.0, 7.0, 9.0, 60.0, 1e4])
def test_the_highest_logit_may_stand_in_any_tile(highest: int, lead: float) -> None:
    bias = torch.linspace(-3, 3, 4 * WORDS_AT_ONCE)
    bias[highest] = 3 + lead
    found = log_sum_exp(torch.zeros(2, 3), torch.zeros(len(bias), 3), bias)
    expected = np.full(2, logsumexp(bias.double().numpy()))
    np.testing.assert_allclose(found.numpy(), expected, rtol=3e-7)


def test_a_row_does_not_depend_on_the_others() -> None:
    generator = torch.Generator().manual_seed(4)
    factors, weight = (torch.randn(n, 8, generator=generator) for n in (70, 1500))
    bias = torch.randn(1500, generator=generator)
    whole = log_sum_exp(factors, weight, bias)
    alone = torch.cat([log_sum_exp(factors[row : row + 1], weight, bias) for row in range(70)])
    torch.testing.assert_close(alone, whole, atol=2e-6, rtol=0)


def test_words_without_a_bias_each_are_refused() -> None:
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        log_sum_exp(torch.ones(2, 3), torch.ones(5, 4), torch.ones(5))


@pytest.mark.parametrize("n_words", [1, 3000])
def test_what_a_gpu_computes(n_words: int) -> None:
    """The path without compiled loops, on whatever device."""
    generator = torch.Generator().manual_seed(5)
    factors, weight = (torch.randn(n, 8, generator=generator) for n in (70, n_words))
    bias = torch.randn(n_words, generator=generator)
    logits = factors.double().numpy() @ weight.double().numpy().T + bias.double().numpy()
    found = module._on_device(factors, weight, bias)
    np.testing.assert_allclose(found, logsumexp(logits, axis=1), atol=1e-5)


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)
    module._fused.cache_clear()
    yield
    module._fused.cache_clear()


def given_kernel(monkeypatch: pytest.MonkeyPatch, compute: Callable[..., Tensor]) -> None:
    kernel = ModuleType("kernel")
    vars(kernel)["fused_log_sum_exp"] = compute
    monkeypatch.setitem(sys.modules, "rescorer.layers.fused_log_sum_exp", kernel)


@pytest.mark.usefixtures("pretended_gpu")
def test_a_kernel_with_the_same_results_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given_kernel(monkeypatch, module._by_operations)
    assert module._fused() is module._by_operations


@pytest.mark.usefixtures("pretended_gpu")
@pytest.mark.parametrize("off", [0.01, float("nan"), None])
def test_a_kernel_that_is_wrong_or_fails_is_not_taken(
    off: float | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*given: Tensor) -> Tensor:
        if off is None:
            raise RuntimeError("no C compiler")
        return module._by_operations(*given) + off

    given_kernel(monkeypatch, wrong)
    assert module._fused() is None
    assert "kernel for log Z cannot be used here" in capsys.readouterr().err
