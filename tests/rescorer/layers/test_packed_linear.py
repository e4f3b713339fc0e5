"""Products through oneDNN against NumPy in float64, also on processors where they are not chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch import nn

from moses_bridge.base import machine
from rescorer.layers import packed_linear
from rescorer.layers.log_sum_exp import LogSumExp
from rescorer.layers.packed_linear import (
    PackedLinear,
    gains_here,
    has_onednn,
    is_faster,
    is_onednn_anyway,
    packed,
    product,
    rectified_product,
)
from rescorer.layers.products import NarrowLinear, narrow_layers, with_same_weights

pytestmark = pytest.mark.skipif(not has_onednn(), reason="this PyTorch has no product by oneDNN")


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "gains_here", lambda: True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_rows", [0, 1, 2, 70])
def test_a_packed_layer_is_the_trained_one(bias: bool, n_rows: int) -> None:
    torch.manual_seed(n_rows)
    layer, rows = nn.Linear(100, 37, bias=bias), torch.randn(n_rows, 100)
    exact = rows.double().numpy() @ layer.weight.detach().double().numpy().T
    if bias:
        exact += layer.bias.detach().double().numpy()
    packed = PackedLinear(layer)
    np.testing.assert_allclose(packed(rows).numpy(), exact, atol=2e-6)
    assert (packed.in_features, packed.out_features) == (100, 37)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.bfloat16, 0.02)])
def test_a_rectified_product_is_the_positive_part(dtype: torch.dtype, error: float) -> None:
    torch.manual_seed(3)
    rows, weight, bias = (torch.randn(*shape).to(dtype) for shape in ((70, 50), (9, 50), (9,)))
    if dtype == torch.bfloat16 and not is_onednn_anyway(weight):
        pytest.skip("this processor has no such products")
    exact = rows.double().numpy() @ weight.double().numpy().T + bias.double().numpy()
    found = rectified_product(rows, packed(weight), bias)
    expected = np.maximum(0, exact)
    np.testing.assert_allclose(found.double().numpy(), expected, atol=error, rtol=error)


def test_narrow_weights_of_the_cpu_alone_are_laid_out_by_pytorch() -> None:
    assert not is_onednn_anyway(torch.ones(2, 2))
    assert not is_onednn_anyway(torch.ones(2, 2, dtype=torch.bfloat16, device="meta"))


def test_a_row_does_not_depend_on_the_others() -> None:
    torch.manual_seed(1)
    packed, rows = PackedLinear(nn.Linear(256, 512)), torch.randn(300, 256)
    whole = packed(rows)
    for size in (1, 2, 64):
        parts = torch.cat([packed(part) for part in torch.split(rows, size)])
        torch.testing.assert_close(parts, whole, atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("vendor_id : AuthenticAMD\nflags : fpu avx2 avx512f\n", True),
        ("vendor_id : AuthenticAMD\nflags : fpu avx2\n", False),
        ("vendor_id : GenuineIntel\nflags : fpu avx2 avx512f\n", False),
        (None, False),
    ],
)
def test_the_processor_decides(
    described: str | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cpuinfo"
    if described is not None:
        path.write_text(described)
    monkeypatch.setattr(machine, "DESCRIPTION", path)
    assert gains_here.__wrapped__() is expected


@pytest.mark.usefixtures("gains")
@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.float32, PackedLinear), (torch.bfloat16, NarrowLinear)]
)
def test_float32_layers_are_packed_where_that_is_faster(dtype: torch.dtype, kind: type) -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    copied = with_same_weights(network)
    narrow_layers(copied, ["1"], dtype)
    assert type(copied[1]) is kind and type(network[1]) is nn.Linear
    assert copied[0].weight is network[0].weight
    assert not is_faster(torch.ones(2, 2, dtype=torch.bfloat16))


@pytest.mark.usefixtures("gains")
@pytest.mark.parametrize("n_words", [1, 512, 1500])
def test_log_sum_exp_of_packed_tiles(n_words: int) -> None:
    generator = torch.Generator().manual_seed(n_words)
    factors, weight = (torch.randn(n, 6, generator=generator) for n in (600, n_words))
    bias = torch.randn(n_words, generator=generator)
    logits = factors.double().numpy() @ weight.double().numpy().T + bias.double().numpy()
    found = LogSumExp(weight, bias)
    for _ in range(2):
        np.testing.assert_allclose(found(factors).numpy(), logsumexp(logits, axis=1), atol=5e-6)


def test_few_numbers_of_rows_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = set[int]()

    def recorded(rows: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        sizes.add(len(rows))
        return product(rows, *others)

    monkeypatch.setattr(packed_linear, "product", recorded)
    packed = PackedLinear(nn.Linear(2, 3))
    assert [len(packed(torch.ones(n, 2))) for n in range(1, 200)] == list(range(1, 200))
    assert sizes == {*range(8, 65, 8), 128, 192, 256}


def test_widths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError):
        PackedLinear(nn.Linear(5, 4))(torch.ones(2, 3))
