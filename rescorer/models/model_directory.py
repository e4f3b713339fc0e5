"""Model directories: safetensors and JSON, never pickle; and the scorers made from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import write_json
from moses_bridge.base.textio import write_bytes
from rescorer.contract.architectures import Architecture, is_foreign, load
from rescorer.contract.choices import reverses_sides
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.contract.target_generation import Generated, GenerationConfig, TargetGenerator
from rescorer.contract.trained_model import LOG_NAME, TRAINING_STATE, TrainedModel, TrainingRecord
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.tensor_files import check_weights, encode_tensors, load_tensors
from rescorer.models.model_description import (
    CARD,
    DESCRIPTION,
    FORMAT_VERSION,
    MODEL_FILES,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    TRAIN_AGAIN,
    WEIGHTS,
    check_model_files,
    read_description,
)
from rescorer.models.reading import REVERSED_NOTE, RightToLeftGenerator, in_own_order

if TYPE_CHECKING:
    from moses_bridge.formats.ngram_scorer import NgramScorer


def save_model(
    directory: Path,
    architecture: str,
    network: nn.Module,
    sizes: Any,
    shortlists: Shortlists,
    training: Mapping[str, Any],
) -> None:
    """Write a model directory, made if missing.

    The sizes are a dataclass; training has settings and results, kept for the record. The weights
    come last, so a directory with weights is complete.
    """
    vocabularies = {TARGET_VOCABULARY: shortlists.target, SOURCE_VOCABULARY: shortlists.source}
    known = {name: words for name, words in vocabularies.items() if words is not None}
    for name, words in known.items():
        words.save(directory / name)
    weights = encode_tensors(network.state_dict())
    description = {
        "format_version": FORMAT_VERSION,
        "architecture": architecture,
        "model": dataclasses.asdict(sizes),
        "vocabularies": {name: _digest(_content(directory / name)) for name in known},
        "weights": _digest(weights),
        "training": training,
    }
    write_json(directory / DESCRIPTION, description)
    write_bytes(directory / WEIGHTS, weights)


def written_files(directory: Path) -> list[Path]:
    """All files of a model directory that a training writes, whatever the architecture."""
    names = (*MODEL_FILES, CARD, TRAINING_STATE, LOG_NAME)
    return [directory / name for name in names]


def load_model(directory: Path, trust_code: bool = False) -> TrainedModel[Any]:
    """Read a model directory written by `rescorer train`.

    With trust_code an architecture from outside this package is imported, which runs its code.

    Raises:
        InputError: a file is missing, damaged, of another version or does not fit the others, or
            the architecture is untrusted code from outside, or cannot be imported.
        ConfigError: Python does not find the architecture.
    """
    description = read_description(directory)
    name = description["architecture"]
    if is_foreign(name) and not trust_code:
        found = f"the architecture {name!r}, code from outside rescorer"
        hint = "If you trust this code, allow running it with --trust-code"
        raise InputError(directory / DESCRIPTION, None, found, "one of rescorer's own", hint)
    architecture = load(name)
    shortlists = _shortlists(directory, description)
    settings = settings_of_sizes(directory, description)
    network = _empty_network(architecture, settings, shortlists, directory)
    weights = load_tensors(directory / WEIGHTS)
    check_weights(network, weights, directory / WEIGHTS, TRAIN_AGAIN)
    if "weights" in description:  # those of earlier versions have no digest
        _check_digest(directory / WEIGHTS, description["weights"], "other numbers than were saved")
    network.load_state_dict(weights, assign=True)
    return TrainedModel(name, network.eval(), shortlists, description)


def settings_of_sizes(directory: Path, description: Mapping[str, Any]) -> Any:
    """Settings of a training whose `model` has the sizes in a config.json, all else the defaults.

    Raises:
        ConfigError: a size is unknown or malformed.
    """
    settings = load(description["architecture"]).settings
    sizes = {"model": description["model"]}
    return from_mapping(settings, sizes, str(directory / DESCRIPTION))


class _SkipInit(TorchFunctionMode):
    """Skip torch.nn.init calls; run everything else.

    The meta device has no memory to fill. Drawing numbers there imports PyTorch's compiler (one second).
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The tensor as it is for `torch.nn.init`, the result for any other function."""
        named = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def _empty_network(
    architecture: Architecture[Any, Any], settings: Any, shortlists: Shortlists, directory: Path
) -> nn.Module:
    """The network without memory for weights; the loaded weights bring theirs, of checked shapes."""
    try:
        with torch.device("meta"), _SkipInit():
            network: nn.Module = architecture.network(settings, shortlists)
            return network
    except (RuntimeError, OverflowError, TypeError) as error:
        found = f"sizes that no network can have: {' '.join(str(error).split())[:200]}"
        expected = "the sizes of the network in model.safetensors"
        raise InputError(directory / DESCRIPTION, None, found, expected, TRAIN_AGAIN) from error


def _shortlists(directory: Path, description: Mapping[str, Any]) -> Shortlists:
    for name, digest in description["vocabularies"].items():
        _check_digest(directory / name, digest, "other words than the network was trained with")
    target = Vocabulary.load(directory / TARGET_VOCABULARY)
    source = directory / SOURCE_VOCABULARY
    return Shortlists(Vocabulary.load(source) if source.exists() else None, target)


def _check_digest(path: Path, digest: object, found: str) -> None:
    if _digest(_content(path)) != digest:
        expected = f"the file that was saved with {DESCRIPTION}"
        raise InputError(path, None, found, expected, "Restore it, or train the model again")


def _content(path: Path) -> bytes:
    """The bytes of a file; nothing for a missing one."""
    return path.read_bytes() if path.exists() else b""


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def fingerprint(directory: Path) -> str:
    """A digest of all files of a model."""
    digest = blake2b(digest_size=16)
    for content in model_files(directory).values():
        digest.update(content)
    return digest.hexdigest()


def model_files(directory: Path) -> dict[str, bytes]:
    """The content of all files of a model, by their names.

    Raises:
        InputError: one is a pipe, a device or a directory.
    """
    check_model_files(directory)
    paths = [directory / name for name in MODEL_FILES]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def scorer_of_model(directory: Path, compute: Compute, trust_code: bool = False) -> NamedScorer:
    """The scorer of a model directory.

    A language model scores the target alone; a model with reversed sides scores the source, given
    the target.

    Raises:
        InputError: the directory is not a whole model; see `load_model`.
        ConfigError: a GPU is requested and there is none, or the model cannot be scored without its
            softmax's denominator.
    """
    model = load_model(directory, trust_code)
    _check_denominator(model, directory, compute)
    architecture = load(model.architecture)
    notes = [
        *filter(None, [REVERSED_NOTE if model.reverses_sides else "", architecture.column_note])
    ]
    note = f" ({', '.join(notes)})" if notes else ""
    scorer = in_own_order(model, architecture.scorer(model, compute))
    return NamedScorer(f"{directory}{note}", scorer, f"{fingerprint(directory)} {compute}")


def _check_denominator(model: TrainedModel[Any], directory: Path, compute: Compute) -> None:
    if compute.unnormalized and not model.training.is_self_normalised:
        raise ConfigError(
            f"{directory} was trained without self_normalisation, so its scores need the denominator:"
            " leave --unnormalized out, or train with self_normalisation = 0.1 in --config"
        )


def record_of_model(directory: Path) -> TrainingRecord:
    """The record of the training of a model; InputError if the directory is no whole model."""
    return TrainingRecord.of(read_description(directory))


def ngram_scorer_of_model(
    directory: Path, compute: Compute, trust_code: bool = False
) -> NgramScorer:
    """The scorer of n-grams for the search, from a model directory.

    Raises:
        InputError: the directory is not a whole model, or the model cannot score n-grams.
        ConfigError: see `scorer_of_model`.
    """
    model = load_model(directory, trust_code)
    ngrams = load(model.architecture).ngrams
    if ngrams is None:
        found = f"the architecture {model.architecture!r}, which cannot score n-grams"
        expected = 'a network over windows, such as "cslm" or "nnjm"'
        raise InputError(directory / DESCRIPTION, None, found, expected)
    _check_denominator(model, directory, compute)
    return ngrams(model, compute)


def translator_of_model(
    directory: Path, compute: Compute, trust_code: bool = False
) -> TargetGenerator:
    """The translator of source text, from the directory of a model over tries.

    Raises:
        InputError: see `generator_of_model`.
        ConfigError: the model reads target text, or see `scorer_of_model`.
    """
    if reverses_sides(record_of_model(directory).reading):
        raise ConfigError(
            f"{directory} was trained with reversed sides: it reads target text and predicts its source. "
            "Translate with a model that was trained without"
        )
    return generator_of_model(directory, compute, trust_code)


def generator_of_model(
    directory: Path, compute: Compute, trust_code: bool = False
) -> TargetGenerator:
    """The generator of targets in their own order; of sources, for a model with reversed sides.

    Raises:
        InputError: the directory is not a whole model, or the model does not go word by word.
        ConfigError: see `scorer_of_model`.
    """
    model = load_model(directory, trust_code)
    new_generator = load(model.architecture).generator
    if new_generator is None:
        found = f"the architecture {model.architecture!r}, which cannot generate"
        expected = 'a recurrent network, such as "encdec" or "rnn_lm"'
        raise InputError(directory / DESCRIPTION, None, found, expected)
    generator = new_generator(model, compute)
    return RightToLeftGenerator(generator) if model.goes_right_to_left else generator


def targets_of_lines(
    generator: TargetGenerator, lines: Sequence[bytes], config: GenerationConfig
) -> Iterator[list[Generated]]:
    """The targets of lines of words between single blanks; a model without sources continues them."""
    if generator.shortlists.source is None:
        return generator.generate([b""] * len(lines), config, beginnings=lines)
    return generator.generate(lines, config)
