"""The RNN Encoder-Decoder of Cho et al. (2014) for scoring: log p(target phrase | source phrase).

Products of single words are looked up; the other products have the chosen precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.contract.architectures import Architecture, Summaries
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.object_reference import imported_when_called
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.compiled_gates import compile_gates, maxout_of_sum, sum_of_rows
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers, narrow_product, narrow_rows, with_same_weights
from rescorer.scorers.encdec.network import (
    EncDecTrainingConfig,
    EncodedSources,
    EncoderDecoder,
    StepInputs,
    empty_network,
    new_network,
)
from rescorer.tries.prefix_tree import build_prefix_tree
from rescorer.tries.recurrent import to_device
from rescorer.tries.scoring import (
    TrieScorer,
    WordTables,
    generator_with,
    summaries_by,
    with_no_word,
)

EncDecScorer = TrieScorer[EncodedSources, Any, Any, StepInputs]


class EncoderDecoderTables(WordTables[EncodedSources, Any, Any, StepInputs]):
    """An encoder-decoder with lookup tables for products of single words.

    Products have the type `dtype`; sums, gates and softmax are always float32.
    """

    @torch.inference_mode()
    def __init__(self, network: EncoderDecoder, dtype: torch.dtype) -> None:
        self._narrow = _in_precision(network, dtype)
        super().__init__(self._narrow, network.output)
        with_none = with_no_word(network.target_embedding.weight)
        self._source_inputs = network.encoder.inputs(network.source_embedding.weight)
        self._unit_inputs = network.decoder.inputs(with_none)
        readout = network.word_to_readout(with_none) + network.hidden_to_readout.bias
        self._readout_inputs: Tensor = readout

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> EncodedSources:
        """See `Recurrent.read`."""
        return self._narrow.decoder_start(self.summarise(ids, lens))

    def summarise(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Tensor:
        """Summary c of each source, *Shape:* (n, d); arguments as of `Recurrent.read`."""
        tree = build_prefix_tree(ids, lens + 1)
        words = to_device(tree.words, self._source_inputs)
        return self._narrow.summarise(tree, self._source_inputs[words])

    def inputs(self, words: Tensor, source: EncodedSources, rows: Tensor) -> StepInputs:
        """See `Recurrent.inputs`."""
        return StepInputs(
            sum_of_rows(self._unit_inputs, words, source.unit, rows),
            sum_of_rows(self._readout_inputs, words, source.readout, rows),
        )

    def factors(self, state: Any, inputs: StepInputs, source: EncodedSources) -> Tensor:
        """See `Recurrent.factors`; the bias of the readout is among its inputs."""
        narrow, n_rows = self._narrow, len(state.hidden)
        if state.hidden.device.type != "cpu":
            return narrow.factors(state, inputs, source)
        rows = narrow_rows(state.hidden, narrow.hidden_to_readout.weight.dtype)
        products = narrow_product(narrow.hidden_to_readout, rows)
        rows = maxout_of_sum(products, inputs.readout)
        return narrow_product(narrow.readout_factor, rows)[:n_rows].float()


def _in_precision(network: EncoderDecoder, dtype: torch.dtype) -> EncoderDecoder:
    """The same network with step products of a type; products of sources stay float32."""
    narrow = with_same_weights(network)
    narrow.hidden_to_readout.register_parameter("bias", None)  # is added to what is looked up
    for module, names in (
        (narrow.encoder, narrow.encoder.recurrent_layers),
        (narrow.decoder, narrow.decoder.recurrent_layers),
        (narrow, ("hidden_to_readout", "readout_factor")),
    ):
        narrow_layers(module, names, dtype)
    of_sources = ("summary", "decoder_start_layer", "context_to_unit", "context_to_readout")
    narrow_layers(narrow, of_sources, torch.float32)
    compile_gates(narrow)
    return narrow


def encdec_scorer(model: TrainedModel[EncoderDecoder], compute: Compute) -> EncDecScorer:
    """Natural log p(target | source) under an encoder-decoder, for whole tables."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(EncoderDecoderTables(network, compute.dtype), layer, model.shortlists)


def encdec_embeddings(model: TrainedModel[EncoderDecoder]) -> dict[Side, NDArray[np.float32]]:
    """The word vectors read by encoder and decoder."""
    network = model.network
    return {
        "source": network.source_embedding.weight.detach().cpu().numpy(),
        "target": network.target_embedding.weight.detach().cpu().numpy(),
    }


def encdec_summaries(model: TrainedModel[EncoderDecoder], compute: Compute) -> Summaries:
    """The summary c of source phrases (Cho et al. 2014, section 2.2)."""
    vocabulary = model.shortlists.source_words
    tables = EncoderDecoderTables(model.network.to(compute.place), compute.dtype)
    return summaries_by(lambda phrases: tables.summarise(*vocabulary.encode_phrases(phrases)))


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=EncDecTrainingConfig,
    prepare=imported_when_called("rescorer.tries.phrase_pairs:prepare_recurrent", new_network),
    network=empty_network,
    scorer=encdec_scorer,
    generator=generator_with(encdec_scorer),
    embeddings=encdec_embeddings,
    summaries=encdec_summaries,
    phrase_values=imported_when_called("rescorer.tries.phrase_values:phrase_values"),
)
