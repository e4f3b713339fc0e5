"""An RNN language model made ready for scoring: words looked up, the other products in a precision."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.compute import Compute
from rescorer.contract import TrainedModel
from rescorer.scorers.rnn_lm.network import NoSource, RnnLm, WordInputs
from rescorer.softmax.output_layer import output_layer
from rescorer.softmax.products import NarrowLinear
from rescorer.tries.scoring import TrieScorer

RnnLmScorer = TrieScorer[NoSource, Any, Any, WordInputs]


class WordTable:
    """An RNN language model that looks up what depends on one word alone; a `Recurrent`.

    Args:
        network: trained, on the device where it shall compute.
        dtype: of the products; sums, gates and softmax are float32 in either case.
    """

    @torch.inference_mode()
    def __init__(self, network: RnnLm, dtype: torch.dtype) -> None:
        self.output = network.output
        self._network = _in_precision(network, dtype)
        self._word_inputs = network.word_inputs()

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> NoSource:
        """See `Recurrent.read`."""
        return self._network.read(ids, lens)

    def start(self, source: NoSource) -> Any:
        """See `Recurrent.start`."""
        return self._network.start(source)

    def inputs(self, words: Tensor, source: NoSource, rows: Tensor) -> WordInputs:
        """See `Recurrent.inputs`; NO_WORD, which is -1, takes the last row: that of <s>."""
        return WordInputs(self._word_inputs[words])

    def carry(self, state: Any) -> Any:
        """See `Recurrent.carry`."""
        return self._network.carry(state)

    def step(self, carried: Any, inputs: WordInputs, source: NoSource) -> Any:
        """See `Recurrent.step`."""
        return self._network.step(carried, inputs, source)

    def factors(self, state: Any, inputs: WordInputs, source: NoSource) -> Tensor:
        """See `Recurrent.factors`."""
        return self._network.factors(state, inputs, source)


def _in_precision(network: RnnLm, dtype: torch.dtype) -> RnnLm:
    """The same network with the products of the steps in a type."""
    narrow = copy.deepcopy(network)
    for name in narrow.unit.recurrent_layers:
        setattr(narrow.unit, name, NarrowLinear(getattr(narrow.unit, name), dtype))
    if narrow.factor is not None:
        narrow.factor = NarrowLinear(narrow.factor, dtype)
    return narrow


def rnn_lm_scorer(model: TrainedModel[RnnLm], compute: Compute) -> RnnLmScorer:
    """Natural log p(target) under an RNN language model; the source is ignored.

    A phrase is scored as a sentence of its own, from its start to </s>: for a table's column that is an
    approximation, since the phrase will stand within other words.
    """
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(WordTable(network, compute.dtype), layer, model.shortlists)
