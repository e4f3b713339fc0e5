"""RNNsearch and RNNenc (Bahdanau et al. 2015) for scoring: log p(target sentence | source sentence).

Products of target words are looked up; the other products have the chosen precision.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rescorer.contract.architectures import Architecture
from rescorer.contract.compute import Compute
from rescorer.contract.object_reference import imported_when_called
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.compiled_gates import compile_gates
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers, with_same_weights
from rescorer.layers.step_linear import StepLinear
from rescorer.scorers.rnnsearch.context import Attention
from rescorer.scorers.rnnsearch.network import (
    DecoderCarried,
    DecoderState,
    ReadSources,
    RnnSearch,
    RnnSearchTrainingConfig,
    StepInputs,
    empty_network,
    new_network,
)
from rescorer.tries.scoring import TrieScorer, WordTables, generator_with, with_no_word

RnnSearchScorer = TrieScorer[ReadSources, DecoderState, DecoderCarried, StepInputs]


class RnnSearchTables(WordTables[ReadSources, DecoderState, DecoderCarried, StepInputs]):
    """An RNNsearch with lookup tables for products of target words.

    Products have the type `dtype`; sums, gates, attention and softmax are always float32.
    """

    @torch.inference_mode()
    def __init__(self, network: RnnSearch, dtype: torch.dtype) -> None:
        self._narrow = in_precision(network, dtype)
        super().__init__(self._narrow, network.output)
        with_none = with_no_word(network.target_embedding.weight)
        self._unit_inputs = network.decoder.inputs(with_none)
        self._readout_inputs: Tensor = network.word_to_readout(with_none)

    def inputs(self, words: Tensor, source: ReadSources, rows: Tensor) -> StepInputs:
        """See `Recurrent.inputs`."""
        return StepInputs(self._unit_inputs[words], self._readout_inputs[words], rows)


class AttentiveTables(RnnSearchTables):
    """Tables of a network with attention, which also gives the attention of its steps."""

    def attention(self, carried: DecoderCarried, inputs: StepInputs, source: ReadSources) -> Tensor:
        """See `tries.generation.Attentive`: of the state before the step, which predicts the next word."""
        context = self._narrow.context
        assert isinstance(context, Attention)
        return context.weights(carried.hidden, source.places, inputs.rows)


def in_precision(network: RnnSearch, dtype: torch.dtype) -> RnnSearch:
    """The same network with step products of a type; products of words are few."""
    narrow = with_same_weights(network)
    for module in list(narrow.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, StepLinear) and name != "input":
                narrow_layers(module, [name], dtype)
    compile_gates(narrow)
    return narrow


def rnnsearch_scorer(model: TrainedModel[RnnSearch], compute: Compute) -> RnnSearchScorer:
    """Natural log p(target | source) under an RNNsearch, for whole n-best lists."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    attends = network.config.context == "attention"
    tables = (AttentiveTables if attends else RnnSearchTables)(network, compute.dtype)
    return TrieScorer(tables, layer, model.shortlists)


ARCHITECTURE = Architecture(
    data="parallel text",
    settings=RnnSearchTrainingConfig,
    prepare=imported_when_called("rescorer.tries.sentences:prepare_sentences", new_network),
    network=empty_network,
    scorer=rnnsearch_scorer,
    generator=generator_with(rnnsearch_scorer),
)
