"""RNNsearch as plain PyTorch has it: torch.nn.GRU and GRUCell, attention by operations, padded batches.

Sizes are those of our network; the weights are others, since torch's unit resets after the product.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rescorer.scorers.rnnsearch import RnnSearchConfig

NONE = 0


class GruSearch(nn.Module):
    """p(target | source).

    Args:
        config: sizes.
        n_source_words: of the source.
        n_target_words: of the target.
    """

    def __init__(self, config: RnnSearchConfig, n_source_words: int, n_target_words: int) -> None:
        super().__init__()
        d, width = config.hidden_width, config.embedding_width
        self.source_embedding = nn.Embedding(n_source_words, width)
        self.encoder = nn.GRU(width, d, bidirectional=True, batch_first=True)
        self.start = nn.Linear(d, d)
        self.query = nn.Linear(d, config.attention_width, bias=False)
        self.key = nn.Linear(2 * d, config.attention_width)
        self.energy = nn.Linear(config.attention_width, 1, bias=False)
        self.target_embedding = nn.Embedding(n_target_words, width)
        self.decoder = nn.GRUCell(width + 2 * d, d)
        self.readout = nn.Linear(d + width + 2 * d, 2 * config.maxout_width)
        self.output = nn.Linear(config.maxout_width, n_target_words)

    def encode(self, ids: Tensor, lens: Tensor) -> Tensor:
        """Annotations of padded sources, *Shape:* (n, longest, 2 d)."""
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source_embedding(ids), lens, batch_first=True, enforce_sorted=False
        )
        states, _ = self.encoder(packed)
        return nn.utils.rnn.pad_packed_sequence(states, batch_first=True)[0]

    def forward(
        self, annotations: Tensor, lens: Tensor, target: Tensor, lens_out: Tensor
    ) -> Tensor:
        """Natural log p of each padded target.

        Args:
            annotations: *Shape:* (n, longest, 2 d).
            lens: places of each source, *Shape:* (n,).
            target: ids, </s> behind each, *Shape:* (n, steps).
            lens_out: words with </s>, *Shape:* (n,).
        """
        keys, d = self.key(annotations), self.decoder.hidden_size
        outside = torch.arange(annotations.shape[1]) >= lens.unsqueeze(1)
        hidden = torch.tanh(self.start(annotations[:, 0, d:]))
        vectors = self.target_embedding(target)
        vectors = torch.cat([torch.zeros_like(vectors[:, :1]), vectors[:, :-1]], dim=1)
        readouts = []
        for step in range(target.shape[1]):
            layer = torch.tanh(keys + self.query(hidden).unsqueeze(1))
            energies = self.energy(layer).squeeze(2).masked_fill(outside, -torch.inf)
            weights = torch.softmax(energies, dim=1)
            context = (weights.unsqueeze(1) @ annotations).squeeze(1)
            readouts.append(self.readout(torch.cat([hidden, vectors[:, step], context], dim=1)))
            hidden = self.decoder(torch.cat([vectors[:, step], context], dim=1), hidden)
        inside = torch.arange(target.shape[1]) < lens_out.unsqueeze(1)
        maxout = torch.stack(readouts, 1)[inside].unflatten(1, (-1, 2)).amax(2)  # type: ignore[no-untyped-call]
        log_probs = -nn.functional.cross_entropy(
            self.output(maxout), target[inside], reduction="none"
        )
        total = log_probs.new_zeros(inside.shape).masked_scatter(inside, log_probs)
        return total.sum(1)
