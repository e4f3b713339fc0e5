"""One network for each fold of the pairs of a phrase table, each trained without its fold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import print_note
from rescorer.contract.architectures import load
from rescorer.contract.scorer import Data
from rescorer.models.model_directory import fold_directory, save_folds
from rescorer.pair_folds import Fold
from rescorer.runs.train import train
from rescorer.training.loop import TrainingReport
from rescorer.training.peers import ALONE, Peers


def train_folds(
    architecture: str,
    data: Data,
    out: Path,
    settings: Any,
    n_folds: int,
    resume: bool = False,
    device: torch.device | str = "cpu",
    seed: int = 1,
    peers: Peers = ALONE,
) -> list[TrainingReport]:
    """Train a network for each fold and write a directory of model directories.

    Args:
        architecture: its name.
        data: a phrase table; a `cache` saves reading it for each network.
        out: the directory.
        settings: of each training, of the dataclass that the architecture names.
        n_folds: 2 at least.
        resume: continue where an interrupted run stopped.
        device: "cpu" or "cuda".
        seed: of all networks.
        peers: the processes that train together.

    Raises:
        InputError: as of `train`.
        ConfigError: as of `train`, the architecture is trained on no phrase pairs, or there is one fold.
    """
    if load(architecture).data != "phrase pairs":
        raise ConfigError(f"{architecture} is trained on no phrase table: leave --folds out")
    if n_folds < 2:
        raise ConfigError(f"{n_folds} fold: a network is trained without one fold, so 2 are needed")
    reports = []
    for number in range(n_folds):
        if peers.is_first:
            print_note(f"network {number + 1} of {n_folds}")
        part = replace(data, left_out=Fold(number, n_folds))
        directory = fold_directory(out, number)
        reports.append(train(architecture, part, directory, settings, resume, device, seed, peers))
    if peers.is_first:
        save_folds(out, n_folds, settings.max_phrase_words)
    return reports
