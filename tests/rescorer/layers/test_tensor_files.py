from __future__ import annotations

import json
import math
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from moses_bridge.base.errors import InputError
from rescorer.layers.tensor_files import check_weights, load_tensors, save_tensors


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    tensors = {
        "a": torch.tensor([0.0, -0.0, math.pi, 1e-40]),
        "b/c": torch.arange(6).reshape(2, 3).T,
        "narrow": torch.ones(2).bfloat16(),
        "none": torch.empty(0, 3),
        "number": torch.tensor(7.0),
    }
    save_tensors(tmp_path / "t", tensors)
    found = load_tensors(tmp_path / "t")
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name], tensor)


def test_the_file_is_what_the_format_says(tmp_path: Path) -> None:
    """Length of the header, the header as JSON, and the numbers in little-endian order."""
    save_tensors(tmp_path / "t", {"a": torch.tensor([1.5, -2.0])})
    data = (tmp_path / "t").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])["a"]
    assert (entry["dtype"], entry["shape"]) == ("F32", [2])
    start, end = entry["data_offsets"]
    numbers = np.frombuffer(data[8 + length :][start:end], "<f4")
    assert numbers.tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04.", b"\xff" * 100, struct.pack("<Q", 10**9) + b"{}"]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(InputError, match=r"t: found .*expected a whole safetensors file"):
        load_tensors(tmp_path / "t")


def test_a_name_may_have_bytes_outside_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"a\xff")
    save_tensors(path, {"a": torch.ones(1)})
    assert load_tensors(path)["a"].item() == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.*Train the model again"):
        load_tensors(tmp_path / "none")


def test_an_older_file_stays_where_the_new_one_cannot_be_made(tmp_path: Path) -> None:
    save_tensors(tmp_path / "t", {"a": torch.ones(1)})
    with pytest.raises(Exception, match="a"):
        save_tensors(tmp_path / "t", {"a": torch.ones(1, device="meta")})
    assert load_tensors(tmp_path / "t")["a"].item() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def weights(**changes: Tensor) -> dict[str, Tensor]:
    return {"weight": torch.ones(2, 3), "bias": torch.ones(2), **changes}


def test_weights_that_fit_a_network_without_memory() -> None:
    check_weights(nn.Linear(3, 2, device="meta"), weights(), Path("t"), "hint")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": torch.ones(3, 2)}, "weight: 3x2 float32, expected 2x3 float32"),
        ({"bias": torch.ones(2).double()}, "bias: 2 float64, expected 2 float32"),
        ({"more": torch.ones(1)}, "more: 1 float32, expected no such weight"),
        ({"bias": torch.tensor([1, math.nan])}, "bias: a value that is not finite"),
        ({"weight": torch.full((2, 3), -math.inf)}, "weight: a value that is not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(changes: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=f"t: found {message}.*hint"):
        check_weights(nn.Linear(3, 2), weights(**changes), Path("t"), "hint")


def test_a_weight_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="bias: not there, expected 2 float32"):
        check_weights(nn.Linear(3, 2), {"weight": torch.ones(2, 3)}, Path("t"), "hint")
