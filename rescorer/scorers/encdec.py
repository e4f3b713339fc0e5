"""RNN Encoder-Decoder of Cho et al. (EMNLP 2014, arXiv 1406.1078v3).

The equations are those of the third arXiv version: the reset gate acts before the matrix product, and the
readout sees the updated state. GroundHog, the authors' code, differs slightly (z flipped, c = h_N, readout
from the state before). With unit = "lstm" LSTMs replace the gated units; the decoder starts with a hidden
state and a cell, each tanh of a product of c.

Notation: batch or n rows; d = hidden_width, r = embedding_width, m = maxout_width, V = shortlist with
</s> and <unk>. The first step has no previous word: the id `NO_WORD` has a zero embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, Limited
from rescorer.contract.architectures import Architecture, Summaries
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.object_reference import imported_when_called
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists
from rescorer.layers.compiled_gates import (
    MAXOUT_PIECES,
    compile_gates,
    maxout,
    maxout_of_sum,
    sum_of_rows,
)
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers, narrow_product, narrow_rows, with_same_weights
from rescorer.layers.step_linear import StepLinear
from rescorer.layers.units import UnitName, draw_weights, new_unit, scale_by_fan_in
from rescorer.training.loop_config import with_first_weights
from rescorer.tries.prefix_tree import PrefixTree, build_prefix_tree
from rescorer.tries.recurrent import (
    last_states,
    to_device,
    unit_states,
    word_vectors,
)
from rescorer.tries.scoring import (
    TrieScorer,
    WordTables,
    generator_with,
    summaries_by,
    with_no_word,
)
from rescorer.tries.settings import RecurrentTrainingConfig

# Standard deviation of the initial weights, Cho et al. (2014), section 4.1.
INITIAL_DEVIATION = 0.01


@dataclass(frozen=True)
class EncDecConfig(Limited):
    """Sizes of an encoder-decoder; the paper's are 1000, 100 and 500.

    Attributes:
        hidden_width: d, of the encoder and the decoder state.
        embedding_width: r, of the word vectors and of the output layer's factor.
        maxout_width: m, units of the readout, each the maximum of two.
        unit: recurrent unit of encoder and decoder: "gated" (the paper) or "lstm".
    """

    hidden_width: Annotated[int, AtLeast(1)] = 256
    embedding_width: Annotated[int, AtLeast(1)] = 100
    maxout_width: Annotated[int, AtLeast(1)] = 128
    unit: UnitName = "gated"


class EncodedSources(NamedTuple):
    """The decoder's inputs from the sources, one row each.

    Attributes:
        hidden: fields of the first state side by side, h'_0 first, *Shape:* (n, d), of an LSTM (n, 2 d).
        unit: C_r c, C_z c and C c side by side, *Shape:* (n, 3 d), of an LSTM (n, 4 d).
        readout: O_c c, *Shape:* (n, 2 m).
    """

    hidden: Tensor
    unit: Tensor
    readout: Tensor


class StepInputs(NamedTuple):
    """Decoder steps: inputs of the unit, (n, 3 d), of an LSTM (n, 4 d), and O_y e(y) + O_c c, (n, 2 m)."""

    unit: Tensor
    readout: Tensor


class EncoderDecoder(nn.Module):
    """log p(target | source) as a sum over the target's words and </s>, natural log.

    Numbers of words include </s> and <unk>.
    """

    def __init__(self, config: EncDecConfig, n_source_words: int, n_target_words: int) -> None:
        super().__init__()
        d, r, m = config.hidden_width, config.embedding_width, config.maxout_width
        self.config = config
        self.source_embedding = nn.Embedding(n_source_words, r)
        self.encoder = new_unit(config.unit, r, d)
        self.summary = StepLinear(d, d)
        self.target_embedding = nn.Embedding(n_target_words, r)
        # Weights are drawn in the order of the layers here: another order is another training.
        decoder = new_unit(config.unit, r, d)
        self.decoder_start_layer = StepLinear(d, decoder.state_width)
        self.decoder = decoder
        self.context_to_unit = StepLinear(d, self.decoder.input.out_features, bias=False)
        self.hidden_to_readout = StepLinear(d, MAXOUT_PIECES * m)
        self.word_to_readout = StepLinear(r, MAXOUT_PIECES * m, bias=False)
        self.context_to_readout = StepLinear(d, MAXOUT_PIECES * m, bias=False)
        self.readout_factor = StepLinear(m, r, bias=False)
        self.output = nn.Linear(r, n_target_words)
        self.initialise(INITIAL_DEVIATION)

    def initialise(self, deviation: float | None) -> None:
        """Draw the weights as in the paper's appendix: N(0, deviation^2), recurrent ones orthogonal.

        The paper's deviation is 0.01; None scales each matrix by its fan-in instead.
        """

        def draw(name: str, parameter: nn.Parameter) -> None:
            if deviation is None:
                scale_by_fan_in(name, parameter)
            else:
                nn.init.normal_(parameter, std=deviation)

        draw_weights(self, draw)
        self.encoder.reset_bias()
        self.decoder.reset_bias()

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> EncodedSources:
        """See `Recurrent.read`; equal prefixes of sources are computed once."""
        tree = build_prefix_tree(ids, lens + 1)
        vectors = self.source_embedding(to_device(tree.words, self.output.weight))
        return self.decoder_start(self.summarise(tree, self.encoder.inputs(vectors)))

    def summarise(self, tree: PrefixTree, inputs: Tensor) -> Tensor:
        """Summary c = tanh(V h_N) of each source of a tree, (n, d), from the unit's inputs of its nodes."""
        return torch.tanh(self.summary(last_states(self.encoder, tree, inputs).hidden))

    def start(self, source: EncodedSources) -> Any:
        """The first state of each source."""
        return self.decoder.state(source.hidden)

    def inputs(self, words: Tensor, source: EncodedSources, rows: Tensor) -> StepInputs:
        """See `Recurrent.inputs`."""
        vectors = word_vectors(self.target_embedding, words)
        return StepInputs(
            self.decoder.inputs(vectors) + source.unit.index_select(0, rows),
            self.word_to_readout(vectors) + source.readout.index_select(0, rows),
        )

    def carry(self, state: Any) -> Any:
        """See `Recurrent.carry`."""
        return self.decoder.carry(state)

    def step(self, carried: Any, inputs: StepInputs, source: EncodedSources) -> Any:
        """h'_t."""
        return self.decoder.step(carried, inputs.unit)

    def states(
        self,
        start: Any,
        parents: Sequence[NDArray[np.int64]],
        inputs: StepInputs,
        source: EncodedSources,
    ) -> Any:
        """See `StatesAtOnce.states`."""
        return unit_states(self.decoder, start, parents, inputs.unit)

    def factors(self, state: Any, inputs: StepInputs, source: EncodedSources) -> Tensor:
        """G_l s_t, *Shape:* (n, r)."""
        pieces = self.hidden_to_readout(state.hidden) + inputs.readout
        factors: Tensor = self.readout_factor(maxout(pieces))
        return factors

    def decoder_start(self, context: Tensor) -> EncodedSources:
        """h'_0 = tanh(V' c), of an LSTM c'_0 too, and the products of c (n, d) in all steps, once a source."""
        return EncodedSources(
            hidden=torch.tanh(self.decoder_start_layer(context)),
            unit=self.context_to_unit(context),
            readout=self.context_to_readout(context),
        )


@dataclass(frozen=True)
class EncDecTrainingConfig(RecurrentTrainingConfig):
    """Settings of the training of an encoder-decoder.

    Attributes:
        model: sizes.
    """

    model: EncDecConfig = field(default_factory=EncDecConfig)


def new_network(config: EncDecTrainingConfig, shortlists: Shortlists) -> EncoderDecoder:
    """A network with initial weights."""
    return with_first_weights(empty_network(config, shortlists), config, INITIAL_DEVIATION)


def empty_network(config: EncDecTrainingConfig, shortlists: Shortlists) -> EncoderDecoder:
    """A network before its weights are loaded."""
    source, target = shortlists
    return EncoderDecoder(config.model, len(source or ()), len(target))


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
