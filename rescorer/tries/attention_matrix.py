"""Attention matrices of a network for given targets: one matrix a sentence pair.

Row i is of the step that predicts word i of the target, as when the pair is scored.

Notation: n pairs; I words of a target, J words of a source, both without </s>.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.contract.batch import Batch
from rescorer.contract.vocabulary import Vocabulary
from rescorer.tries.recurrent import NO_WORD, take, to_device

# Annotations of 64 sentences of 100 words and 1,000 units are 26 MB in float32.
PAIRS_AT_ONCE = 64


class AttentionReader:
    """Attention matrices of sentence pairs, by a `Recurrent` that is `Attentive`, on its device."""

    def __init__(self, network: Any, source: Vocabulary, target: Vocabulary) -> None:
        self.network, self._source, self._target = network, source, target

    def matrices(self, pairs: Batch) -> Iterator[NDArray[np.float32]]:
        """Yield the weights of each pair, independent of its neighbours, *Shape:* (I + 1, J + 1).

        Rows are the words of the target and </s>, columns those of the source and </s>; a row sums to 1.
        Words outside a shortlist are <unk>.
        """
        for first in range(0, len(pairs), PAIRS_AT_ONCE):
            part = slice(first, first + PAIRS_AT_ONCE)
            yield from self._block(pairs.sources[part], pairs.targets[part])

    @torch.inference_mode()
    def _block(
        self, sources: Sequence[bytes], targets: Sequence[bytes]
    ) -> list[NDArray[np.float32]]:
        ids, source_lens = self._source.encode_phrases(sources)
        words, lens = self._target.encode_phrases(targets)
        source = self.network.read(ids, source_lens)
        state = self.network.start(source)
        # Long targets first, so that the ended ones are the last rows of a step.
        order = np.argsort(-lens, kind="stable")
        state = take(state, to_device(order, self.network.output.weight))
        result = np.zeros((len(lens), words.shape[1], ids.shape[1]), np.float32)
        for number in range(words.shape[1]):
            rows = order[: np.count_nonzero(lens >= number)]
            before = words[rows, number - 1] if number else np.full(len(rows), NO_WORD)
            weights, state = self._step(state, before, source, rows)
            result[rows, number] = weights.cpu().numpy()
        return [
            matrix[: n_target + 1, : n_source + 1]
            for matrix, n_target, n_source in zip(result, lens, source_lens, strict=True)
        ]

    def _step(
        self,
        state: Any,
        before: NDArray[np.int32] | NDArray[np.int64],
        source: Any,
        rows: NDArray[np.int64],
    ) -> tuple[Tensor, Any]:
        """The weights of a step of some pairs, and their next states; `state` may have more rows."""
        network = self.network
        on_device = to_device(rows, network.output.weight)
        state = take(state, torch.arange(len(rows), device=on_device.device))
        inputs = network.inputs(to_device(before, on_device), source, on_device)
        carried = network.carry(state)
        weights = network.attention(carried, inputs, source)
        return weights, network.step(carried, inputs, source)
