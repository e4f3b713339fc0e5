"""What a continuous-space phrase model is started with: a pair's value against those of other targets.

The paper starts from a bilingual topic model. A contrast takes the pairs of the table instead, as they are:

    loss(s, t) = -log( e^v(s, t) / (e^v(s, t) + sum_u e^v(s, u)) )

where u are the targets of the batch that are no target of s in it. So v comes near to
log p(t | s) - log p(t), but for a constant of each source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from rescorer.scorers.cptm.network import Cptm, similarities
from rescorer.training.encoded_pairs import EncodedPairs

# Stands for the logarithm of 0: minus infinity has no gradient.
NEVER = -1e9


class _Phrases(NamedTuple):
    """The different phrases of one side of a batch.

    Attributes:
        ids: in the joint vocabulary, *Shape:* (n, max_len or more).
        lens: *Shape:* (n,).
        which: the phrase of each pair, *Shape:* (n_pairs,).
    """

    ids: NDArray[np.integer]
    lens: NDArray[np.int64]
    which: NDArray[np.int64]


def contrastive_loss(
    network: Cptm, data: EncodedPairs, rows: NDArray[np.int64], target_ids: NDArray[np.int64]
) -> Tensor:
    """Weighted sum of the losses of some pairs, natural log.

    Args:
        network: is trained.
        data: all pairs.
        rows: which of them make the batch, *Shape:* (n,).
        target_ids: of each target word in the joint vocabulary.

    Returns:
        *Shape:* ().
    """
    sources, targets = _sources(data, rows), _targets(data, rows, target_ids)
    source_codes = network.codes(sources.ids, sources.lens)
    target_codes = network.codes(targets.ids, targets.lens)
    device = source_codes.device
    which_source, which_target = (
        torch.from_numpy(side.which).to(device) for side in (sources, targets)
    )
    is_pair = torch.zeros(len(source_codes), len(target_codes), dtype=torch.bool, device=device)
    is_pair[which_source, which_target] = True
    others = (source_codes @ target_codes.T).masked_fill(is_pair, NEVER).logsumexp(1)
    values = similarities(source_codes[which_source], target_codes[which_target])
    weights = torch.from_numpy(data.weights[rows]).to(values)
    return softplus(others[which_source] - values) @ weights


def _sources(data: EncodedPairs, rows: NDArray[np.int64]) -> _Phrases:
    groups, which = np.unique(data.groups[rows], return_inverse=True)
    return _Phrases(data.sources[groups], data.source_lens[groups], which)


def _targets(
    data: EncodedPairs, rows: NDArray[np.int64], target_ids: NDArray[np.int64]
) -> _Phrases:
    """Targets with the same ids are one, whichever unknown words they have."""
    ids, lens = data.targets[rows], data.target_lens[rows]
    _, first, which = np.unique(
        np.column_stack([ids, lens]), axis=0, return_index=True, return_inverse=True
    )
    return _Phrases(target_ids[ids[first]], lens[first], which.reshape(-1))
