"""From a model directory, or the name of a control, to a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import torch

from moses_bridge.errors import ConfigError
from rescorer.contract import SourceBlindScorer
from rescorer.controls import LengthScorer, RandomScorer
from rescorer.model_directory import (
    DESCRIPTION,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    WEIGHTS,
    load_model,
)
from rescorer.scorers.cslm.network import Cslm
from rescorer.tables.column import NamedScorer
from rescorer.tries.scoring import EncDecScorer, Precision, UnnormalizedScorer
from rescorer.windows.scoring import CslmScorer

Control = Literal["random", "length"]
Device = Literal["auto", "cpu", "cuda"]
MODEL_FILES = (DESCRIPTION, WEIGHTS, SOURCE_VOCABULARY, TARGET_VOCABULARY)


def scorer_of_model(
    directory: Path, precision: Precision = "float32", device: Device = "auto"
) -> NamedScorer:
    """The scorer of a model directory; a language model scores the target alone.

    Args:
        directory: what `rescorer train` wrote.
        precision: of the products.
        device: "auto" takes a GPU if there is one.

    Raises:
        InputError: the directory is not a whole model.
        ConfigError: a GPU is asked for and there is none.
    """
    model = load_model(directory)
    fingerprint = f"{_fingerprint(directory)} {precision}"
    network = model.network
    if isinstance(network, Cslm):
        cslm = CslmScorer(network, model.target_vocabulary, precision)
        return NamedScorer(str(directory), SourceBlindScorer(cslm), fingerprint)
    encdec, vocabularies = model.encoder_decoder()
    encdec.to(choose_device(device))
    return NamedScorer(str(directory), EncDecScorer(encdec, *vocabularies, precision), fingerprint)


def unnormalized_scorer(
    directory: Path, precision: Precision = "float32", device: Device = "auto"
) -> NamedScorer:
    """The scorer of an encoder-decoder without the softmax's denominator.

    Args:
        directory: what `rescorer train` wrote with self_normalisation.
        precision: of the products.
        device: "auto" takes a GPU if there is one.

    Raises:
        InputError: the directory is not a whole model.
        ConfigError: the model was not trained for it.
    """
    model = load_model(directory)
    network, vocabularies = model.encoder_decoder()
    if not model.is_self_normalised:
        raise ConfigError(
            f"{directory} was trained without self_normalisation, so its scores need the denominator:"
            " leave --unnormalized out, or train with self_normalisation = 0.1 in --config"
        )
    network.to(choose_device(device))
    scorer = UnnormalizedScorer(network, *vocabularies, precision)
    return NamedScorer(
        str(directory), scorer, f"{_fingerprint(directory)} {precision} unnormalized"
    )


def scorer_of_control(control: Control, seed: int) -> NamedScorer:
    """The scorer of a control."""
    if control == "random":
        name = f"control: random, seed {seed}"
        return NamedScorer(name, RandomScorer(seed), name)
    return NamedScorer("control: length", LengthScorer(), "length")


def scorers_of(
    models: Sequence[Path], control: Control | None, seed: int, precision: Precision, device: Device
) -> list[NamedScorer]:
    """The scorers of several models, or of one control.

    Raises:
        ConfigError: neither or both are given.
    """
    if bool(models) == (control is not None):
        raise ConfigError("name either a model (one or more) or a control")
    if control is not None:
        return [scorer_of_control(control, seed)]
    return [scorer_of_model(directory, precision, device) for directory in models]


def choose_device(device: Device) -> torch.device:
    """The device of a name; "auto" is a GPU if there is one.

    Raises:
        ConfigError: a GPU is asked for and there is none.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device here: leave --device out, or use --device cpu")
    return torch.device(device)


def _fingerprint(directory: Path) -> str:
    """A digest of all files of a model."""
    digest = blake2b(digest_size=16)
    for name in MODEL_FILES:
        path = directory / name
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()
