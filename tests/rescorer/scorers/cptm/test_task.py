from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from moses_bridge.errors import ConfigError
from rescorer.contract import Data
from rescorer.scorers.cptm.network import CptmConfig
from rescorer.scorers.cptm.task import CptmTrainingConfig, prepare
from rescorer.training.loop import LoopConfig
from rescorer.training.run import train


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reverse_sides": True}, "reverse_sides: a similarity has no direction"),
        ({"loop": LoopConfig(accumulation=2)}, "loop.accumulation: .* of a whole batch"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CptmTrainingConfig(**settings)


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
