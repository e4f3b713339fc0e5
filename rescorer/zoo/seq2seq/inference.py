"""A deep LSTM encoder-decoder made ready for scoring: its large products in a precision."""

from __future__ import annotations

import copy

import torch

from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.output_layer import output_layer
from rescorer.layers.products import narrow_layers
from rescorer.layers.units import LstmCarried, LstmState
from rescorer.tries.scoring import TrieScorer
from rescorer.zoo.seq2seq.network import Seq2Seq, WordInputs
from rescorer.zoo.seq2seq.stack import LstmStack

Seq2SeqScorer = TrieScorer[LstmState, LstmState, LstmCarried, WordInputs]


def seq2seq_scorer(model: TrainedModel[Seq2Seq], compute: Compute) -> Seq2SeqScorer:
    """Natural log p(target | source) under a deep LSTM encoder-decoder."""
    network = model.network.to(compute.place)
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return TrieScorer(in_precision(network, compute.dtype), layer, model.shortlists)


def in_precision(network: Seq2Seq, dtype: torch.dtype) -> Seq2Seq:
    """The same network with the products of states in a type; those of words are few."""
    if dtype == torch.float32:
        return network
    narrow = copy.deepcopy(network)
    for stack in (narrow.encoder, narrow.decoder):
        _narrow(stack, dtype)
    return narrow


def _narrow(stack: LstmStack, dtype: torch.dtype) -> None:
    for number, unit in enumerate(stack.units):
        narrow_layers(unit, ("recurrent", "input") if number else ("recurrent",), dtype)
