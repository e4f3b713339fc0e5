"""Model directories: safetensors and JSON, never pickle; and the state from which training continues."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from moses_bridge.config import from_mapping
from moses_bridge.errors import ConfigError, InputError
from moses_bridge.json_files import write_json
from moses_bridge.textio import open_write
from rescorer.scorers.cslm.network import Cslm, CslmConfig
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.vocabulary import Vocabulary

FORMAT_VERSION = 1
WEIGHTS = "model.safetensors"
DESCRIPTION = "config.json"
SOURCE_VOCABULARY = "source.vocab"
TARGET_VOCABULARY = "target.vocab"
TRAINING_STATE = "training.safetensors"
OTHER_TRAINING = (
    "It is the state of a training with other data or sizes: take another directory, or leave "
    "--resume out to begin anew"
)


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model directory in memory.

    Attributes:
        architecture: "encdec" or "cslm".
        network: the network, in evaluation mode.
        source_vocabulary: source shortlist; None for a language model.
        target_vocabulary: target shortlist.
        description: all of config.json.
    """

    architecture: str
    network: EncoderDecoder | Cslm
    source_vocabulary: Vocabulary | None
    target_vocabulary: Vocabulary
    description: dict[str, Any]

    def encoder_decoder(self) -> tuple[EncoderDecoder, tuple[Vocabulary, Vocabulary]]:
        """The network and its two shortlists.

        Raises:
            ConfigError: the model is another one.
        """
        if not isinstance(self.network, EncoderDecoder) or self.source_vocabulary is None:
            raise ConfigError(
                f"an encoder-decoder is needed, but this model is a {self.architecture}"
            )
        return self.network, (self.source_vocabulary, self.target_vocabulary)

    @property
    def is_self_normalised(self) -> bool:
        """Whether the network was trained to have a softmax denominator of 1."""
        settings = self.description.get("training", {}).get("config", {})
        return bool(settings.get("self_normalisation"))


def save_model(
    directory: Path,
    network: EncoderDecoder | Cslm,
    source_vocabulary: Vocabulary | None,
    target_vocabulary: Vocabulary,
    training: Mapping[str, Any],
) -> None:
    """Write a model directory; the weights come last, so a directory with weights is complete.

    Args:
        directory: made if it is not there.
        network: the network.
        source_vocabulary: None for a language model.
        target_vocabulary: the target shortlist.
        training: settings and results of the training, kept for the record.
    """
    if source_vocabulary is not None:
        source_vocabulary.save(directory / SOURCE_VOCABULARY)
    target_vocabulary.save(directory / TARGET_VOCABULARY)
    description = {
        "format_version": FORMAT_VERSION,
        "architecture": "cslm" if isinstance(network, Cslm) else "encdec",
        "model": dataclasses.asdict(network.config),
        "training": training,
    }
    write_json(directory / DESCRIPTION, description)
    save_tensors(directory / WEIGHTS, network.state_dict())


def load_model(directory: Path) -> LoadedModel:
    """Read a model directory.

    Raises:
        InputError: a file is missing, damaged, of another version or does not fit the others.
    """
    description = _read_description(directory / DESCRIPTION)
    architecture = description["architecture"]
    target = Vocabulary.load(directory / TARGET_VOCABULARY)
    if architecture == "cslm":
        source = None
        network: EncoderDecoder | Cslm = Cslm(
            from_mapping(CslmConfig, description["model"], str(directory)), len(target)
        )
    else:
        source = Vocabulary.load(directory / SOURCE_VOCABULARY)
        config = from_mapping(EncDecConfig, description["model"], str(directory))
        network = EncoderDecoder(config, len(source), len(target))
    weights = load_tensors(directory / WEIGHTS)
    load_weights(network, weights, directory / WEIGHTS, "Train the model again")
    return LoadedModel(architecture, network.eval(), source, target, description)


def load_weights(network: nn.Module, tensors: Mapping[str, Tensor], path: Path, hint: str) -> None:
    """Put tensors into a network.

    Args:
        network: is changed in place.
        tensors: its weights by name.
        path: where they were read, for the message of an error.
        hint: what to do if they do not fit.

    Raises:
        InputError: names or shapes are not those of the network.
    """
    try:
        network.load_state_dict(dict(tensors))
    except RuntimeError as error:
        found = " ".join(str(error).split())
        raise InputError(
            path, None, found, "weights with the names and shapes of the network", hint
        ) from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors; the file appears only when complete."""
    encoded = save({name: tensor.contiguous() for name, tensor in tensors.items()})
    with open_write(path) as stream:
        stream.write(encoded)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors onto the CPU.

    Raises:
        InputError: the file is missing, truncated or of another kind.
    """
    try:
        return load_file(path, device="cpu")
    except (SafetensorError, OSError) as error:
        raise InputError(
            path, None, str(error), "a whole safetensors file", "Train the model again"
        ) from error


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(path, None, str(error), "the config.json of a model directory") from error
    if not isinstance(description, dict) or description.get("architecture") not in (
        "encdec",
        "cslm",
    ):
        raise InputError(path, None, "no known architecture", '"encdec" or "cslm"')
    if not isinstance(description.get("model"), dict):
        raise InputError(path, None, "no sizes of the network", 'a table "model"')
    if description.get("format_version") != FORMAT_VERSION:
        raise InputError(
            path,
            None,
            f"format version {description.get('format_version')}",
            str(FORMAT_VERSION),
            "Train the model again with this version",
        )
    return description


def save_training_state(
    directory: Path,
    weights: Mapping[str, Mapping[str, Tensor]],
    optimizer: torch.optim.Optimizer,
    progress: Mapping[str, Any],
) -> None:
    """Write all that training needs to continue.

    Args:
        directory: of the model.
        weights: sets of weights by name.
        optimizer: its state goes along.
        progress: anything that JSON can hold.
    """
    tensors = {
        f"{kind}/{name}": tensor for kind, part in weights.items() for name, tensor in part.items()
    }
    for number, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            tensors[f"optimizer/{number}/{key}"] = torch.as_tensor(value)
    encoded = bytearray(json.dumps(dict(progress)).encode())
    tensors["progress"] = torch.frombuffer(encoded, dtype=torch.uint8)
    save_tensors(directory / TRAINING_STATE, tensors)


def load_training_state(
    directory: Path,
    kinds: Sequence[str],
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None:
    """Read what `save_training_state` wrote; the optimizer is filled.

    Args:
        directory: of the model.
        kinds: names of the sets of weights.
        network: to which the weights must fit.
        optimizer: gets its state back.

    Returns:
        The sets of weights and the progress; None if there is no such file.

    Raises:
        InputError: the file is damaged or of another network.
    """
    path = directory / TRAINING_STATE
    if not path.exists():
        return None
    tensors = load_tensors(path)
    if "progress" not in tensors:
        raise InputError(path, None, "no progress", "the state of a training", "Remove the file")
    progress: dict[str, Any] = json.loads(tensors.pop("progress").numpy().tobytes())
    device = next(network.parameters()).device
    weights = {kind: _part(tensors, kind, device) for kind in kinds}
    for part in weights.values():
        load_weights(network, part, path, OTHER_TRAINING)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part(tensors, "optimizer", device).items():
        number, key = name.split("/")
        state.setdefault(int(number), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return weights, progress


def _part(tensors: Mapping[str, Tensor], kind: str, device: torch.device) -> dict[str, Tensor]:
    prefix = f"{kind}/"
    return {
        name.removeprefix(prefix): tensor.to(device)
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
