"""The deep LSTM encoder-decoder of Sutskever et al. (2014): log p(target sentence | source sentence)."""

from __future__ import annotations

import copy

import torch

from rescorer.contract.architectures import Architecture
from rescorer.contract.compute import Compute
from rescorer.contract.object_reference import imported_when_called
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers
from rescorer.layers.units import LstmCarried, LstmState
from rescorer.scorers.zoo.seq2seq.network import (
    LstmStack,
    Seq2Seq,
    Seq2SeqTrainingConfig,
    WordInputs,
    empty_network,
    new_network,
)
from rescorer.tries.scoring import TrieScorer, generator_with

Seq2SeqScorer = TrieScorer[LstmState, LstmState, LstmCarried, WordInputs]


def seq2seq_scorer(model: TrainedModel[Seq2Seq], compute: Compute) -> Seq2SeqScorer:
    """Natural log p(target | source) under a deep LSTM encoder-decoder."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(in_precision(network, compute.dtype), layer, model.shortlists)


def in_precision(network: Seq2Seq, dtype: torch.dtype) -> Seq2Seq:
    """The same network with the products of states of a type; products of words are few."""
    if dtype == torch.float32:
        return network
    narrow = copy.deepcopy(network)
    for stack in (narrow.encoder, narrow.decoder):
        _narrow(stack, dtype)
    return narrow


def _narrow(stack: LstmStack, dtype: torch.dtype) -> None:
    for number, unit in enumerate(stack.units):
        narrow_layers(unit, ("recurrent", "input") if number else ("recurrent",), dtype)


ARCHITECTURE = Architecture(
    data="parallel text",
    settings=Seq2SeqTrainingConfig,
    prepare=imported_when_called("rescorer.tries.sentences:prepare_sentences", new_network),
    network=empty_network,
    scorer=seq2seq_scorer,
    generator=generator_with(seq2seq_scorer),
)
