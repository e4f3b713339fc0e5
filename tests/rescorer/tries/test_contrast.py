"""The contrastive loss against its definition, pair by pair in NumPy float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.training.loop_config import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.tries.contrast import (
    ContrastBatch,
    ContrastTrainingConfig,
    ContrastValues,
    contrast_losses,
    contrastive_loss,
)

# The targets of the second and fourth pair are the same; what stands behind a target's length does not count.
TARGETS = [(2,), (3, 4), (1,), (3, 4), ()]
PAIRS = EncodedPairs(
    sources=np.array([[2, 3, 0], [4, 0, 0]], np.int32),
    source_lens=np.array([2, 1]),
    targets=np.array([[2, 0, 0], [3, 4, 0], [1, 0, 0], [3, 4, 0], [0, 0, 0]], np.int32),
    target_lens=np.array([1, 2, 1, 2, 0]),
    groups=np.array([0, 0, 1, 1, 1]),
    weights=np.array([1.0, 2.0, 0.5, 3.0, 1.5]),
)
ALL = [0, 1, 2, 3, 4]


def value(group: int, target: tuple[int, ...]) -> float:
    """Any function of a source and a target."""
    return float(np.sin(3 * group + 1) * (1 + sum(target)) - 0.3 * len(target))


def table_of(batch: ContrastBatch) -> NDArray[np.float64]:
    groups = [0 if words[0] == 2 else 1 for words in batch.sources.ids]
    targets = [
        tuple(words[:n].tolist())
        for words, n in zip(batch.targets.ids, batch.targets.lens, strict=True)
    ]
    return np.array([[value(group, target) for target in targets] for group in groups])


def loss_of(rows: list[int], table: NDArray[np.float64] | None = None) -> torch.Tensor:
    batch = ContrastBatch.of(PAIRS, np.array(rows))
    tensor = torch.from_numpy(table_of(batch) if table is None else table)
    pairs = tensor[batch.sources.which, batch.targets.which]
    return contrastive_loss(batch, (tensor, pairs))


def plain_loss(rows: list[int]) -> float:
    """Each pair's target against every other target of the batch that is none of its source's."""
    pairs = {(PAIRS.groups[row], TARGETS[row]) for row in rows}
    total = 0.0
    for row in rows:
        group, own = PAIRS.groups[row], TARGETS[row]
        others = {target for _, target in pairs if (group, target) not in pairs}
        sums = sum(np.exp(value(group, target)) for target in others)
        own_value = np.exp(value(group, own))
        total -= PAIRS.weights[row] * np.log(own_value / (own_value + sums))
    return float(total)


@pytest.mark.parametrize("rows", [ALL, [4, 2, 0], [1, 3]])
def test_the_loss_is_its_definition(rows: list[int]) -> None:
    assert loss_of(rows).item() == pytest.approx(plain_loss(rows), rel=1e-9)


def test_equal_phrases_of_a_batch_are_one() -> None:
    batch = ContrastBatch.of(PAIRS, np.array(ALL))
    assert len(batch.sources.ids) == 2 and len(batch.targets.ids) == 4
    assert batch.targets.which[1] == batch.targets.which[3]
    np.testing.assert_array_equal(batch.sources.which, PAIRS.groups)


def test_pairs_without_other_targets_teach_nothing() -> None:
    assert loss_of([0, 1]).item() == 0


def test_values_far_apart_stay_finite() -> None:
    """Softmax in the logarithm: e^1000 is no float."""
    table = np.array([[1000.0, 0.0, -1000.0, 5.0], [0.0, 1000.0, 3.0, -1000.0]])
    assert np.isfinite(loss_of(ALL, table).item())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reading": "reversed-sides"}, "reading: a similarity has no direction"),
        ({"loop": LoopConfig(accumulation=2)}, "loop.accumulation: .* of a whole batch"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ContrastTrainingConfig(**settings)


def test_by_default_pairs_are_drawn_at_random() -> None:
    assert ContrastTrainingConfig().batching == "pairs"


def test_updates_and_held_out_pairs_have_the_same_loss() -> None:
    def values_of(batch: ContrastBatch) -> ContrastValues:
        table = torch.from_numpy(table_of(batch))
        return table, table[batch.sources.which, batch.targets.which]

    losses, rows = contrast_losses(values_of), np.array([4, 2, 0])
    expected = pytest.approx(plain_loss([4, 2, 0]), rel=1e-9)
    assert losses.of_held_out(PAIRS, rows).item() == expected
    assert losses.of_update(PAIRS, SeededBatch(rows, (1, 0, 0))).item() == expected
