"""An RNN language model made ready for scoring: words looked up, the other products in a precision."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers
from rescorer.scorers.rnn_lm.network import NoSource, RnnLm, WordInputs
from rescorer.tries.scoring import TrieScorer
from rescorer.tries.word_tables import WordTables

RnnLmScorer = TrieScorer[NoSource, Any, Any, WordInputs]


class RnnLmTables(WordTables[NoSource, Any, Any, WordInputs]):
    """An RNN language model that looks up what depends on one word alone; a `Recurrent`.

    Args:
        network: trained, on the device where it shall compute.
        dtype: of the products; sums, gates and softmax are float32 in either case.
    """

    @torch.inference_mode()
    def __init__(self, network: RnnLm, dtype: torch.dtype) -> None:
        super().__init__(_in_precision(network, dtype), network.output)
        self._word_inputs = network.word_inputs()

    def inputs(self, words: Tensor, source: NoSource, rows: Tensor) -> WordInputs:
        """See `Recurrent.inputs`; NO_WORD, which is -1, takes the last row: that of <s>."""
        return WordInputs(self._word_inputs[words])


def _in_precision(network: RnnLm, dtype: torch.dtype) -> RnnLm:
    """The same network with the products of the steps in a type."""
    narrow = copy.deepcopy(network)
    narrow_layers(narrow.unit, narrow.unit.recurrent_layers, dtype)
    if narrow.factor is not None:
        narrow_layers(narrow, ["factor"], dtype)
    return narrow


def rnn_lm_scorer(model: TrainedModel[RnnLm], compute: Compute) -> RnnLmScorer:
    """Natural log p(target) under an RNN language model; the source is ignored.

    A phrase is scored as a sentence of its own, from its start to </s>: for a table's column that is an
    approximation, since the phrase will stand within other words.
    """
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(RnnLmTables(network, compute.dtype), layer, model.shortlists)
