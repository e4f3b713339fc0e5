"""The peer of both benchmarks that does not have our gated unit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rescorer.layers.compiled_gates import MAXOUT_PIECES
from rescorer.scorers.encdec import EncoderDecoder

LogProbs = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class GruNetwork(nn.Module):
    """The same sizes with torch.nn.GRU: all steps of a side in one call."""

    def __init__(self, network: EncoderDecoder) -> None:
        super().__init__()
        config = network.config
        d, r, m = config.hidden_width, config.embedding_width, config.maxout_width
        self.network = network
        self.encoder = nn.GRU(r, d, batch_first=True)
        self.decoder = nn.GRU(r + d, d, batch_first=True)
        self.readout = nn.Linear(2 * d + r, MAXOUT_PIECES * m)

    def log_probs(
        self, source: Tensor, source_lens: Tensor, target: Tensor, target_lens: Tensor
    ) -> Tensor:
        """Natural log p of each pair, *Shape:* (batch,)."""
        network = self.network
        states, _ = self.encoder(network.source_embedding(source))
        numbers = torch.arange(len(source), device=source.device)
        summary = torch.tanh(network.summary(states[numbers, source_lens]))
        vectors = network.target_embedding(target).roll(1, dims=1)
        repeated = summary.unsqueeze(1).expand(-1, target.shape[1], -1)
        start = torch.tanh(network.decoder_start_layer(summary)).unsqueeze(0)
        hidden, _ = self.decoder(torch.cat([vectors, repeated], dim=2), start.contiguous())
        pieces = self.readout(torch.cat([hidden, vectors, repeated], dim=2))
        maxout = pieces.unflatten(2, (-1, MAXOUT_PIECES)).amax(dim=3)
        logits = network.output(network.readout_factor(maxout))
        chosen = torch.log_softmax(logits, dim=2).gather(2, target.unsqueeze(2)).squeeze(2)
        inside = torch.arange(target.shape[1], device=target.device) <= target_lens.unsqueeze(1)
        return (chosen * inside).sum(dim=1)
