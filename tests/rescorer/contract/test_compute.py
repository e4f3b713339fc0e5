from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from moses_bridge.base import machine
from moses_bridge.base.errors import ConfigError
from rescorer.cli.options import ComputeOptions
from rescorer.contract.compute import Compute, choose_device, known_precision, repeatable_sums
from rescorer.training.loop_config import LoopConfig


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("flags : fpu avx512f avx512_bf16\n", "bfloat16"),
        ("flags : fpu amx_bf16\n", "bfloat16"),
        ("flags : fpu avx2 bf16ish\n", "float32"),
        (None, "float32"),
    ],
)
def test_bfloat16_only_where_the_processor_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, features: str | None, expected: str
) -> None:
    path = tmp_path / "cpuinfo"
    if features is not None:
        path.write_text(features)
    monkeypatch.setattr(machine, "DESCRIPTION", path)
    assert known_precision("fastest") == expected


@pytest.mark.parametrize(
    ("product_type", "has_bfloat16", "expected"),
    [
        ("float32", True, torch.float32),
        ("bfloat16", False, torch.bfloat16),
        ("fastest", True, torch.bfloat16),
        ("fastest", False, torch.float32),
    ],
)
def test_only_fastest_asks_the_processor(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    product_type: str,
    has_bfloat16: bool,
    expected: torch.dtype,
) -> None:
    """One file of settings is one training, on whatever processor."""
    (tmp_path / "cpuinfo").write_text("flags : fpu avx512_bf16" if has_bfloat16 else "flags : fpu")
    monkeypatch.setattr(machine, "DESCRIPTION", tmp_path / "cpuinfo")
    assert LoopConfig(product_type=product_type).product_dtype == expected  # type: ignore[arg-type]
    assert ComputeOptions(precision=product_type).compute.dtype == expected  # type: ignore[arg-type]
    assert LoopConfig().product_type == "float32"
    assert LoopConfig().product_dtype == torch.float32


@pytest.mark.parametrize(
    ("asked", "dtype", "text"),
    [
        (Compute(), torch.float32, "float32"),
        (Compute("bfloat16", "cpu"), torch.bfloat16, "bfloat16"),
        (Compute(unnormalized=True), torch.float32, "float32 unnormalized"),
    ],
)
def test_what_values_depend_on_is_in_the_text(
    asked: Compute, dtype: torch.dtype, text: str
) -> None:
    """It is part of the fingerprint of a scorer; where it is computed is not."""
    assert (asked.dtype, str(asked)) == (dtype, text)


@pytest.mark.parametrize(
    ("device", "has_gpu", "expected"),
    [("auto", False, "cpu"), ("cpu", True, "cpu"), ("auto", True, "cuda"), ("cuda", True, "cuda")],
)
def test_devices(
    monkeypatch: pytest.MonkeyPatch, device: str, has_gpu: bool, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert choose_device(device) == Compute(device=device).place == torch.device(expected)  # type: ignore[arg-type]


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for version, reason in (
        (None, "is a build for CPUs alone. Leave --device out"),
        ("13.0", r"built for CUDA 13.0, finds none \(nvidia-smi tells the newest CUDA"),
    ):
        monkeypatch.setattr(torch.version, "cuda", version)
        with pytest.raises(ConfigError, match=f"no CUDA device here: PyTorch .*{reason}"):
            choose_device("cuda")


def test_sums_of_a_gpu_are_repeatable_while_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    with repeatable_sums(torch.device("cpu")):
        assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ValueError, match="a fault"), repeatable_sums(torch.device("cuda")):
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        raise ValueError("a fault")
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
