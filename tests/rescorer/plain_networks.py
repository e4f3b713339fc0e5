"""Plain paths of networks, step by step and without trees: what their fast paths are compared with."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from rescorer.scorers.encdec import EncoderDecoder
from rescorer.scorers.rnn_lm import NoSource, RnnLm
from rescorer.scorers.zoo.cstm import Cstm
from rescorer.tries.recurrent import NO_WORD
from rescorer.windows.feed_forward import FeedForward


@singledispatch
def log_probs(network: nn.Module, *arrays: Tensor) -> Tensor:
    """Natural log p of each pair, sentence or word, *Shape:* (batch,)."""
    raise TypeError(network)


@log_probs.register
def _(
    network: EncoderDecoder,
    source: Tensor,
    source_lens: Tensor,
    target: Tensor,
    target_lens: Tensor,
) -> Tensor:
    """Of ids with </s> after the last word, (batch, len + 1), and words without </s>, (batch,)."""
    sources = network.decoder_start(encode(network, source, source_lens))
    return _recurrent_log_probs(network, sources, target, target_lens)


@log_probs.register
def _(network: RnnLm, target: Tensor, target_lens: Tensor) -> Tensor:
    source = NoSource(network.output.weight.new_zeros(len(target), 0))
    return _recurrent_log_probs(network, source, target, target_lens)


@log_probs.register
def _(network: Cstm, windows: Tensor, targets: Tensor, target_lens: Tensor) -> Tensor:
    """`windows` are those of `Cstm.hidden`."""
    hidden, total = network.hidden(windows), windows.new_zeros(len(windows), dtype=torch.float32)
    for place, layer in enumerate(network.outputs[: targets.shape[1]]):
        words = targets[:, place : place + 1]
        found = torch.log_softmax(layer(hidden), dim=1).gather(1, words).squeeze(1)
        total = total + torch.where(place <= target_lens, found, 0.0)
    return total


@log_probs.register
def _(network: FeedForward, windows: Tensor, words: Tensor) -> Tensor:
    """Of words after windows of numbers of words, (n,) and (n, k)."""
    logits = network.output(network.hidden(windows))
    return -nn.functional.cross_entropy(logits, words, reduction="none")


def encode(network: EncoderDecoder, source: Tensor, source_lens: Tensor) -> Tensor:
    """Summary c of each source, *Shape:* (batch, d)."""
    state = network.encoder.start(len(source))
    for position in range(source.shape[1]):
        inside = (position <= source_lens).unsqueeze(1)
        inputs = network.encoder.inputs(network.source_embedding(source[:, position]))
        stepped = network.encoder.step(network.encoder.carry(state), inputs)
        state = type(state)(
            *(torch.where(inside, *pair) for pair in zip(stepped, state, strict=True))
        )
    return torch.tanh(network.summary(state.hidden))


def _recurrent_log_probs(network: Any, source: Any, target: Tensor, target_lens: Tensor) -> Tensor:
    """Target by target; one source for each."""
    rows = torch.arange(len(target), device=target.device)
    state, previous = network.start(source), torch.full_like(rows, NO_WORD)
    total = torch.zeros(len(target), device=target.device)
    for position in range(target.shape[1]):
        inputs = network.inputs(previous, source, rows)
        state = network.step(network.carry(state), inputs, source)
        logits = network.output(network.factors(state, inputs, source))
        previous = target[:, position]
        step = -nn.functional.cross_entropy(logits, previous, reduction="none")
        total = total + step * (position <= target_lens)
    return total
