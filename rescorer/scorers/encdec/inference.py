"""The encoder-decoder made ready for scoring: products of words looked up, the others in a precision."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rescorer.compute import Compute
from rescorer.contract import TrainedModel
from rescorer.scorers.encdec.network import EncodedSources, EncoderDecoder, StepInputs
from rescorer.softmax.output_layer import output_layer
from rescorer.softmax.products import NarrowLinear
from rescorer.tries.prefix_tree import build_prefix_tree
from rescorer.tries.recurrent import to_device
from rescorer.tries.scoring import TrieScorer

EncDecScorer = TrieScorer[EncodedSources, Any, Any, StepInputs]


class WordTables:
    """An encoder-decoder that looks up what depends on one word alone.

    Args:
        network: trained, on the device where it shall compute.
        dtype: of the products; sums, gates and softmax are float32 in either case.
    """

    @torch.inference_mode()
    def __init__(self, network: EncoderDecoder, dtype: torch.dtype) -> None:
        self.output = network.output
        self._network = _in_precision(network, dtype)
        vectors = network.target_embedding.weight
        # NO_WORD is -1, so the last row is that of no word: its vector is 0.
        with_none = torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
        self._source_inputs = network.encoder.inputs(network.source_embedding.weight)
        self._unit_inputs = network.decoder.inputs(with_none)
        self._readout_inputs: Tensor = network.word_to_readout(with_none)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> EncodedSources:
        """See `Recurrent.read`."""
        tree = build_prefix_tree(ids, lens + 1)
        words = to_device(tree.words, self._source_inputs)
        return self._network.read_tree(tree, self._source_inputs[words])

    def start(self, source: EncodedSources) -> Any:
        """See `Recurrent.start`."""
        return self._network.start(source)

    def inputs(self, words: Tensor, source: EncodedSources, rows: Tensor) -> StepInputs:
        """See `Recurrent.inputs`."""
        return StepInputs(
            self._unit_inputs[words] + source.unit[rows],
            self._readout_inputs[words] + source.readout[rows],
        )

    def carry(self, state: Any) -> Any:
        """See `Recurrent.carry`."""
        return self._network.carry(state)

    def step(self, carried: Any, inputs: StepInputs, source: EncodedSources) -> Any:
        """See `Recurrent.step`."""
        return self._network.step(carried, inputs, source)

    def factors(self, state: Any, inputs: StepInputs, source: EncodedSources) -> Tensor:
        """See `Recurrent.factors`."""
        return self._network.factors(state, inputs, source)


def _in_precision(network: EncoderDecoder, dtype: torch.dtype) -> EncoderDecoder:
    """The same network with the products of the steps in a type; the others are few."""
    narrow = copy.deepcopy(network)
    for module, names in (
        (narrow.encoder, narrow.encoder.recurrent_layers),
        (narrow.decoder, narrow.decoder.recurrent_layers),
        (narrow, ("hidden_to_readout", "readout_factor")),
    ):
        for name in names:
            layer: nn.Linear = getattr(module, name)
            setattr(module, name, NarrowLinear(layer, dtype))
    return narrow


def encdec_scorer(model: TrainedModel[EncoderDecoder], compute: Compute) -> EncDecScorer:
    """Natural log p(target | source) under an encoder-decoder, for whole tables."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(WordTables(network, compute.dtype), layer, model.shortlists)
