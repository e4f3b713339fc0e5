"""The state of a training on disk: weights, optimiser and progress, to continue from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from moses_bridge.base.config import shown_value
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import parse_json
from rescorer.contract.trained_model import TRAINING_STATE
from rescorer.layers.tensor_files import check_weights, load_tensors, save_tensors

DIGEST = "digest"
OF_TRAINING = "the state of a training"
OTHER_TRAINING = (
    "It is the state of a training with other data or sizes: train into another directory, or begin "
    "anew with --overwrite"
)


def save_training_state(
    directory: Path,
    weights: Mapping[str, Mapping[str, Tensor]],
    optimizer: torch.optim.Optimizer,
    progress: Mapping[str, Any],
) -> None:
    """Write all that continues a training: sets of weights by name, the optimizer's state, and a JSON value."""
    tensors = {
        f"{kind}/{name}": tensor for kind, part in weights.items() for name, tensor in part.items()
    }
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            tensors[f"optimizer/{number}/{key}"] = torch.as_tensor(value)
    encoded = bytearray(json.dumps(dict(progress)).encode())
    tensors["progress"] = torch.frombuffer(encoded, dtype=torch.uint8)
    save_tensors(directory / TRAINING_STATE, tensors | {DIGEST: _digest(tensors)})


def load_training_state(
    directory: Path, kinds: Sequence[str], network: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None:
    """Read the result of `save_training_state`, and restore the optimizer; the network checks the weights.

    Returns the sets of weights of these kinds, and the progress; None if there is no such file.

    Raises:
        InputError: the file is damaged or of another network.
    """
    path = directory / TRAINING_STATE
    if not path.exists():
        return None
    tensors = load_tensors(path)
    digest = tensors.pop(DIGEST, None)  # earlier versions wrote none
    if digest is not None and not torch.equal(digest, _digest(tensors)):
        raise InputError(
            path, None, "other numbers than were saved", OF_TRAINING, "Remove the file"
        )
    if "progress" not in tensors:
        raise InputError(path, None, "no progress", OF_TRAINING, "Remove the file")
    progress = parse_json(tensors.pop("progress").numpy().tobytes(), path, None, OF_TRAINING)
    if not isinstance(progress, dict):
        raise InputError(path, None, shown_value(progress), OF_TRAINING, "Remove the file")
    device = next(network.parameters()).device
    weights = {kind: _part(tensors, kind, device) for kind in kinds}
    for part in weights.values():
        check_weights(network, part, path, OTHER_TRAINING)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part(tensors, "optimizer", device).items():
        number, key = name.split("/")
        state.setdefault(int(number), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return weights, progress


def _digest(tensors: Mapping[str, Tensor]) -> Tensor:
    hashed = blake2b(digest_size=16)
    for name, tensor in sorted(tensors.items()):
        hashed.update(f"{name} {tensor.dtype} {[*tensor.shape]}".encode())
        hashed.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return torch.frombuffer(bytearray(hashed.digest()), dtype=torch.uint8)


def _part(tensors: Mapping[str, Tensor], kind: str, device: torch.device) -> dict[str, Tensor]:
    prefix = f"{kind}/"
    return {
        name.removeprefix(prefix): tensor.to(device)
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
