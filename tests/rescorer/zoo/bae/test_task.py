from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError
from rescorer.contract.data import Data
from rescorer.training.loop import LoopConfig
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries.pooled_pair_task import PooledPairTask
from rescorer.zoo.bae.network import Bae
from rescorer.zoo.bae.task import BaeTrainingConfig, bae_loss, prepare


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reading": "reversed-sides"}, "reading: a cosine of two codes has no direction"),
        ({"merged_pairs": 0}, "merged_pairs"),
        ({"correlation_weight": -1.0}, "correlation_weight"),
        ({"loop": LoopConfig(accumulation=2)}, "loop.accumulation: .* of a whole batch"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BaeTrainingConfig(**settings)


def test_held_out_pairs_are_neither_merged_nor_rewarded(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(b"s%d u ||| t%d v ||| 1 1 1 1\n" % (n, n % 7) for n in range(60)))
    config = BaeTrainingConfig(
        n_held_out=6, merged_pairs=5, correlation_weight=4.0, loop=LoopConfig(n_epochs=1)
    )
    torch.manual_seed(1)
    prepared = prepare(Data(table), config, 1)
    network, pooled = cast(Bae, prepared.network), cast(PooledPairTask, prepared.task)
    task = pooled.pool(0)
    rows = task.held_out_rows
    with torch.no_grad():
        learned = float(task.loss(SeededBatch(rows, (0,)))[0])
        found = pooled.held_out_loss()
        plain = float(bae_loss(network, task.data, rows, 1, 0.0))
    n_words = float((task.data.target_lens[rows] + 1).sum())
    assert found == pytest.approx(plain / n_words, rel=1e-6)
    with torch.no_grad():
        assert learned == pytest.approx(float(bae_loss(network, task.data, rows, 5, 4.0)))
    assert len(rows) == 6 and not np.isclose(learned, plain)


@pytest.mark.parametrize(
    ("settings", "n_parts"),
    [
        ({}, 1),
        ({"correlation_weight": 0.0}, 2),
        ({"correlation_weight": 0.0, "merged_pairs": 3}, 1),
    ],
)
def test_what_looks_at_a_whole_batch_is_not_cut(
    tmp_path: Path, settings: dict[str, Any], n_parts: int
) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(b"s%d u ||| t%d v ||| 1 1 1 1\n" % (n, n % 7) for n in range(60)))
    prepared = prepare(Data(table), BaeTrainingConfig(n_held_out=6, **settings), 1)
    task: Any = prepared.task
    batch = task.batches(0)[0]
    parts = task.parts(batch, 2)
    assert len(parts) == n_parts
    with torch.no_grad():
        total = sum(float(task.loss(part)[0]) for part in parts)
        assert total == pytest.approx(float(task.loss(batch)[0]), rel=1e-5)
