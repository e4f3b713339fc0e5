from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data
from rescorer.runs.train import train
from rescorer.scorers.zoo.cptm import (
    Cptm,
    CptmConfig,
    CptmTrainingConfig,
    JointVocabulary,
    contrast,
    prepare,
)
from rescorer.training.loop_config import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.contrast import contrast_losses

if TYPE_CHECKING:
    from tests.rescorer.scorers.cptm.conftest import NumpyCode


def test_the_loss_is_the_contrast_of_the_codes(
    model: TrainedModel[Cptm], numpy_code: NumpyCode
) -> None:
    """Two pairs of two sources, whose targets are told from each other; "b" is a word of both languages."""
    words = JointVocabulary.of(model.shortlists)
    data = EncodedPairs(
        sources=np.array([[2, 3, 0], [4, 0, 0]], np.int32),
        source_lens=np.array([2, 1]),
        targets=np.array([[2, 0], [3, 0]], np.int32),
        target_lens=np.array([1, 1]),
        groups=np.array([0, 1]),
        weights=np.array([1.0, 2.0]),
    )
    values = np.array([[numpy_code(s) @ numpy_code(t) for t in ([5], [3])] for s in ([2, 3], [4])])
    probs = np.exp(values) / np.exp(values).sum(1, keepdims=True)
    found = contrast_losses(lambda batch: contrast(model.network, words, batch)).of_held_out(
        data, np.array([0, 1])
    )
    assert found.item() == pytest.approx(-np.log(probs[0, 0]) - 2 * np.log(probs[1, 1]), rel=1e-5)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Each word of a source has one translation."""
    path = tmp_path / "table"
    names = [f"{first} {second}" for first in "abcdefgh" for second in "abcdefgh"]
    path.write_text("".join(f"{name} ||| {name.upper()} ||| 1 1 1 1\n" for name in names))
    return path


def test_what_looks_at_a_whole_batch_is_not_cut(table: Path) -> None:
    prepared = prepare(Data(table), CptmTrainingConfig(n_held_out=6), 1)
    task: Any = prepared.task
    batch = task.batches(0)[0]
    assert len(task.parts(batch, 2)) == 1


def test_held_out_targets_are_told_from_others(table: Path, tmp_path: Path) -> None:
    """Their words are known, the pairs are not."""
    config = CptmTrainingConfig(
        n_held_out=6,
        batch_pairs=20,
        loop=LoopConfig(n_epochs=60, learning_rate=0.02, evaluations_per_epoch=1),
        model=CptmConfig(hidden_width=12, code_width=12),
    )
    torch.manual_seed(1)
    with torch.no_grad():
        before = prepare(Data(table), config, 1).task.held_out_loss()
    report = train("cptm", Data(table), tmp_path / "m", config)
    assert before is not None and report.held_out_loss is not None
    assert report.held_out_loss < 0.2 * before
