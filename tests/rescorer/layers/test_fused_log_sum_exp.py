"""The Triton kernel in Triton's interpreter, in a process of its own, against SciPy in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")

PROGRAM = """
import sys
import numpy as np, torch
from rescorer.layers.fused_log_sum_exp import fused_log_sum_exp
given = np.load(sys.argv[1])
factors, weight, bias = (torch.from_numpy(given[name]) for name in ("factors", "weight", "bias"))
np.save(sys.argv[2], fused_log_sum_exp(factors, weight, bias).numpy())
"""
Arrays = Mapping[str, NDArray[Any]]
Kernel = Callable[[Arrays], NDArray[np.float32]]


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    def run(given: Arrays) -> NDArray[np.float32]:
        np.savez(tmp_path / "given.npz", **given)  # type: ignore[arg-type]
        files = [str(tmp_path / name) for name in ("given.npz", "found.npy")]
        environment = os.environ | {"TRITON_INTERPRET": "1"}
        command = [sys.executable, "-c", PROGRAM, *files]
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return np.asarray(np.load(files[1]), np.float32)

    return run


def drawn(n_rows: int, n_words: int, width: int, scale: float) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(n_words)
    drawn = {
        "factors": rng.normal(size=(n_rows, width)),
        "weight": scale * rng.normal(size=(n_words, width)),
        "bias": rng.normal(size=n_words),
    }
    return {name: array.astype(np.float32) for name, array in drawn.items()}


def logits_of(given: Arrays) -> NDArray[np.float64]:
    factors, weight, bias = (array.astype(np.float64) for array in given.values())
    return np.asarray(factors @ weight.T + bias, np.float64)


@pytest.mark.parametrize(
    ("n_rows", "n_words", "width", "scale"),
    [(1, 1, 1, 1.0), (64, 128, 32, 1.0), (65, 1025, 100, 3.0), (3, 2049, 7, 60.0)],
)
def test_equals_float64(
    kernel: Kernel, n_rows: int, n_words: int, width: int, scale: float
) -> None:
    given = drawn(n_rows, n_words, width, scale)
    logits = logits_of(given)
    atol = 4e-7 * max(1.0, np.abs(logits).max())
    np.testing.assert_allclose(kernel(given), logsumexp(logits, axis=1), atol=atol)


def test_products_are_rounded_to_the_type_of_the_weight(kernel: Kernel) -> None:
    """In float16, since the interpreter has no products in bfloat16."""
    given = drawn(70, 1, 16, 3.0)
    narrow = {name: given[name].astype(np.float16) for name in ("factors", "weight")}
    products = narrow["factors"].astype(np.float64) @ narrow["weight"].astype(np.float64).T
    expected = products[:, 0].astype(np.float16) + given["bias"][0].astype(np.float64)
    found = kernel(given | {"weight": narrow["weight"]})
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_no_rows(kernel: Kernel) -> None:
    assert kernel(drawn(0, 5, 3, 1.0)).shape == (0,)


def test_widths_that_differ_are_refused(kernel: Kernel) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        kernel(drawn(2, 5, 3, 1.0) | {"weight": np.ones((5, 4), np.float32)})
    assert "ValueError: [2, 3] by [5, 4], with 5 biases" in caught.value.stderr


@pytest.mark.parametrize("weight", ["*fp32", "*bf16"])
def test_is_compiled_for_a_gpu(weight: str, tmp_path: Path) -> None:
    """For an H100, which need not be there: its tensor cores multiply."""
    program = f"""
import triton
from triton.backends.compiler import GPUTarget
from rescorer.layers.fused_log_sum_exp import WARPS, _kernel
types = dict(factors="*fp32", weight="{weight}", bias="*fp32", found="*fp32", n_rows="i32")
types |= dict(n_words="i32", width="constexpr", n_parts="i32")
source = triton.compiler.ASTSource(_kernel, types, {{"width": 100}})
target, options = GPUTarget("cuda", 90, 32), {{"num_warps": WARPS}}
print(triton.compile(source, target, options).asm["ptx"])
"""
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert "wgmma.mma_async" in ended.stdout
