"""Training by contrast: a pair's value against those of other targets.

What is trained for whole translations has to start somewhere; Gao et al. (2014) start from a bilingual topic
model. A contrast takes the pairs of the table instead, as they are:

    loss(s, t) = -log( e^v(s, t) / (e^v(s, t) + sum_u e^v(s, u)) )

where u are the targets of the batch that s does not have in it. So v comes near to
log p(t | s) - log p(t), but for a constant of each source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from moses_bridge.base.errors import ConfigError
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.settings import Batching, PairTrainingConfig
from rescorer.tries.task import Losses

# Stands for the logarithm of 0: minus infinity has no gradient.
NEVER = -1e9


@dataclass(frozen=True)
class ContrastTrainingConfig(PairTrainingConfig):
    """Settings of a training by contrast.

    Losses are those of telling a pair's target from other targets, in nats for each target word; they compare
    with no other model's, and depend on the pairs of a batch. One process computes a whole batch.

    Attributes:
        batching: "pairs" draws pairs at random, "sources" all targets of a source at once, "parts" four of
            them, "auto" what the recipe says.
        reading: "as-is" alone: a similarity has no direction.
    """

    batching: Batching | Literal["auto"] = "pairs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading != "as-is":
            raise ConfigError("reading: a similarity has no direction: leave it out")
        if self.loop.accumulation > 1:
            raise ConfigError(
                "loop.accumulation: a target is told from those of a whole batch: leave it at 1"
            )


class BatchPhrases(NamedTuple):
    """The different phrases of one side of a batch.

    Their ids have the *Shape:* (n, max_len or more), their lengths (n,), the phrase of each pair (n_pairs,).
    """

    ids: NDArray[np.int32]
    lens: NDArray[np.int64]
    which: NDArray[np.int64]


class ContrastBatch(NamedTuple):
    """Weighted pairs, *Shape:* (n_pairs,), whose T targets are told from each other, with their S sources.

    Targets with the same ids are one, whichever unknown words they have.
    """

    sources: BatchPhrases
    targets: BatchPhrases
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, data: EncodedPairs, rows: NDArray[np.int64]) -> ContrastBatch:
        """Some of the pairs."""
        groups, which = np.unique(data.groups[rows], return_inverse=True)
        sources = BatchPhrases(data.sources[groups], data.source_lens[groups], which)
        ids, lens = data.targets[rows], data.target_lens[rows]
        _, first, which = np.unique(
            np.column_stack([ids, lens]), axis=0, return_index=True, return_inverse=True
        )
        targets = BatchPhrases(ids[first], lens[first], which.reshape(-1))
        return cls(sources, targets, data.weights[rows])


# v of each source of a batch with each target, *Shape:* (S, T), and of the pairs, *Shape:* (n_pairs,).
ContrastValues = tuple[Tensor, Tensor]


def contrastive_loss(batch: ContrastBatch, values: ContrastValues) -> Tensor:
    """Weighted sum of the losses of the pairs, natural log, *Shape:* ()."""
    table, of_pairs = values
    which_source, which_target = (
        torch.from_numpy(side.which).to(table.device) for side in (batch.sources, batch.targets)
    )
    is_pair = torch.zeros(table.shape, dtype=torch.bool, device=table.device)
    is_pair[which_source, which_target] = True
    others = table.masked_fill(is_pair, NEVER).logsumexp(1)
    losses = softplus(others[which_source] - of_pairs)
    return losses @ torch.from_numpy(batch.weights).to(losses)


def contrast_losses(values_of: Callable[[ContrastBatch], ContrastValues]) -> Losses:
    """Both losses are those of the values of a batch under the model in training."""

    def of_rows(data: EncodedPairs, rows: NDArray[np.int64]) -> Tensor:
        batch = ContrastBatch.of(data, rows)
        return contrastive_loss(batch, values_of(batch))

    return Losses(lambda data, batch: of_rows(data, batch.rows), of_rows)
