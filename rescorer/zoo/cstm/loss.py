"""The loss of a CSTM over a batch of phrase pairs: a source is computed once, for all its targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.layers.predicted import Predicted, output_loss
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.seeded_batch import SeededBatch
from rescorer.zoo.cstm.network import Cstm, source_windows


@dataclass(frozen=True)
class CstmLosses:
    """See `PairLosses`.

    Attributes:
        network: is trained.
        product_type: type of the output layers' products in updates.
    """

    network: Cstm
    product_type: torch.dtype

    def of_update(self, data: EncodedPairs, batch: SeededBatch) -> Tensor:
        """See `PairLosses`."""
        return cstm_loss(self.network, data, batch.rows, self.product_type)

    def of_held_out(self, data: EncodedPairs, rows: NDArray[np.int64]) -> Tensor:
        """See `PairLosses`."""
        return cstm_loss(self.network, data, rows, torch.float32)


def cstm_loss(
    network: Cstm,
    data: EncodedPairs,
    rows: NDArray[np.int64],
    product_type: torch.dtype,
) -> Tensor:
    """Weighted sum of -log p(target | source), natural log.

    Args:
        network: is trained.
        data: all pairs.
        rows: which of them, *Shape:* (n,).
        product_type: type of the output layers' products.

    Returns:
        *Shape:* ().
    """
    sources, groups = np.unique(data.groups[rows], return_inverse=True)
    ids, lens = data.sources[sources], data.source_lens[sources]
    windows = source_windows(ids, lens, network.config.phrase_words, network.empty_id)
    device = network.embedding.weight.device
    hidden = network.hidden(torch.from_numpy(windows).long().to(device))
    targets, target_lens = data.targets[rows], data.target_lens[rows]
    losses = []
    # The place behind the last one has no layer: </s> is sure there.
    for place, layer in enumerate(network.output_layers[: int(target_lens.max(initial=0)) + 1]):
        pairs = np.flatnonzero(target_lens >= place)
        here, predicted = predicted_at(
            groups[pairs], targets[pairs, place], data.weights[rows[pairs]]
        )
        chosen = hidden[torch.from_numpy(here).to(device)]
        losses.append(output_loss(layer, chosen, predicted, product_type))
    return torch.stack(losses).sum()


def predicted_at(
    groups: NDArray[np.int64], words: NDArray[np.int32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], Predicted]:
    """What a place's softmax predicts: each word of a source once, with the weight of all its targets.

    Args:
        groups: the source of each pair, *Shape:* (n,).
        words: of each pair in this place, *Shape:* (n,).
        weights: of the pairs, *Shape:* (n,).

    Returns:
        The sources that have a word here, rising, *Shape:* (n_here,), and the words behind them.
    """
    n_words = int(words.max(initial=0)) + 1
    keys, which = np.unique(groups * n_words + words, return_inverse=True)
    here, rows = np.unique(keys // n_words, return_inverse=True)
    return here, Predicted(rows, keys % n_words, np.bincount(which, weights).astype(np.float64))
