"""Tensors by name in files: safetensors, never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import write_bytes


def check_weights(network: nn.Module, tensors: Mapping[str, Tensor], path: Path, hint: str) -> None:
    """Refuse tensors of a file that cannot be the weights of a network, whose own may be on the device "meta".

    Raises:
        InputError: names, shapes or types differ from the network's, or a weight is not finite.
    """
    wanted = {name: _kind(tensor) for name, tensor in network.state_dict().items()}
    found = {name: _kind(tensor) for name, tensor in tensors.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise InputError(
                path,
                None,
                f"{name}: {found.get(name, 'not there')}",
                f"{wanted.get(name, 'no such weight')}, as the network has",
                hint,
            )
        if not tensors[name].isfinite().all():
            raise InputError(path, None, f"{name}: a value that is not finite", "numbers", hint)


def _kind(tensor: Tensor) -> str:
    return f"{'x'.join(map(str, tensor.shape))} {str(tensor.dtype).removeprefix('torch.')}"


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors; the file appears only when complete."""
    write_bytes(path, encode_tensors(tensors))


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a file of tensors."""
    return save({name: tensor.contiguous() for name, tensor in tensors.items()})


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors onto the CPU; InputError if the file is missing, truncated or of another kind."""
    try:
        with open(path, "rb") as file:  # safetensors takes no name outside UTF-8
            return load_file(f"/dev/fd/{file.fileno()}", device="cpu")
    except (SafetensorError, OSError) as error:
        raise InputError(
            path, None, str(error), "a whole safetensors file", "Train the model again"
        ) from error
