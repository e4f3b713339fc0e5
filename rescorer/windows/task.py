"""Training of a feed-forward network on windows of words: settings, mapped windows, batches and losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.array_file import ArrayFile, parts, temporary_arrays
from moses_bridge.base.config import AtLeast, Below, Limited
from rescorer.contract.scorer import LogZ
from rescorer.layers.log_sum_exp import log_sum_exp
from rescorer.layers.output_layer import flatten_log_z
from rescorer.layers.predicted import Predicted, UpdateLoss, WordSampler, output_loss
from rescorer.training.loop_config import LoopConfig
from rescorer.training.seeded_batch import SeededBatch, with_dropout

# Held-out windows scored at a time, so that memory does not grow with their number.
HELD_OUT_BATCH = 8192
# Windows of the training data from which the linear part of log Z is found: seconds of work.
LOG_Z_WINDOWS = 20_000
COUNTED_AT_ONCE = 1 << 18  # windows whose predicted words are counted together


class WindowRows(NamedTuple):
    """Windows to learn from and held-out ones, each followed by the predicted word, *Shape:* (n, width + 1)."""

    train: NDArray[np.int32]
    held_out: NDArray[np.int32]


def mapped_rows(
    parts: Iterable[tuple[NDArray[np.int32], NDArray[np.int64]]], held_out: NDArray[np.bool_]
) -> WindowRows:
    """Write windows into anonymous files in TMPDIR, deleted with the arrays; the system reads them on demand.

    Parts are windows of consecutive sentences, with the sentence of each, counted from 0 in each part; every
    sentence has a window. The held-out ones have the *Shape:* (n_sentences,).

    Raises:
        OSError: the disk is full.
    """
    with temporary_arrays() as files:
        train, rest = files.new(np.int32), files.new(np.int32)
        n_before, width = 0, 1
        for rows, sentences in parts:
            width = rows.shape[1]
            is_held_out = held_out[n_before + sentences]
            train.append(rows[~is_held_out].ravel())
            rest.append(rows[is_held_out].ravel())
            n_before += int(sentences[-1]) + 1
        return WindowRows(_rows(train, width), _rows(rest, width))


def _rows(values: ArrayFile[np.int32], width: int) -> NDArray[np.int32]:
    return values.mapped().reshape(-1, width)


@dataclass(frozen=True)
class WindowTrainingConfig(Limited):
    """Settings of a training on windows of words.

    Attributes:
        shortlist: words, </s> and <unk> not counted.
        n_held_out: sentences not learned from.
        batch_words: predicted words of an update.
        n_sampled: words beside those of the batch over which the softmax of an update is taken, drawn
            anew each time; 0 takes the whole shortlist. Held-out losses are always exact.
        dropout: share of the hidden units left out in training.
        self_normalisation: weight alpha of log^2 Z in the loss (Devlin et al. 2014, section 2.3, use
            0.1), with which `rescorer score --unnormalized` can leave the denominator Z out; 0 for none.
        loop: recipe and limits; by default 3 passes.
    """

    shortlist: Annotated[int, AtLeast(1)] = 15_000
    n_held_out: Annotated[int, AtLeast(0)] = 1_000
    batch_words: Annotated[int, AtLeast(1)] = 1024
    n_sampled: Annotated[int, AtLeast(0)] = 1500
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.0
    self_normalisation: Annotated[float, AtLeast(0)] = 0.0
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(n_epochs=3))


class WindowTask:
    """The batches and losses of windows; the network is a `Windowed`, the seed of the order and the samples."""

    def __init__(
        self, network: Any, rows: WindowRows, config: WindowTrainingConfig, seed: int
    ) -> None:
        self.network = network
        self.config = config
        self.seed = seed
        self.train_rows, self.held_out_rows = rows
        self.n_held_out, self.batch_size = len(rows.held_out), config.batch_words
        self._product_type = config.loop.product_dtype
        n_words = network.output.out_features
        counts = np.zeros(n_words, np.int64)
        for first, end in parts(len(rows.train), COUNTED_AT_ONCE):
            counts += np.bincount(rows.train[first:end, -1], minlength=n_words)
        shares = counts / (len(rows.train) + len(rows.held_out))
        self._sampler = WordSampler(shares, config.batch_words, config.n_sampled)
        self._update_loss = UpdateLoss(
            network.output,
            self._sampler if config.n_sampled else None,
            self._product_type,
            config.self_normalisation,
        )

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The windows of each update of an epoch."""
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.train_rows))
        parts = np.array_split(order, max(1, len(order) // self.config.batch_words))
        return [SeededBatch(rows, (self.seed, epoch, number)) for number, rows in enumerate(parts)]

    def parts(self, batch: SeededBatch, n_parts: int) -> list[SeededBatch]:
        """See `SeededBatch.parts`."""
        return batch.parts(n_parts)

    def n_words(self, batch: SeededBatch) -> float:
        """The number of windows in a batch."""
        return len(batch.rows)

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed loss of the windows of a batch, and their number."""
        rng = np.random.default_rng(batch.seed)
        rows = self.train_rows[batch.rows]
        device, dtype = self.network.output.weight.device.type, self._product_type
        # Products in the output layer's type halve the work.
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            hidden = self._hidden(rows).float()
        hidden = with_dropout(hidden, self.config.dropout, rng, batch.part)
        others = self.train_rows[batch.others, -1]
        return self._update_loss.of(hidden, _predicted(rows), rng, others), self.n_words(batch)

    def held_out_loss(self) -> float | None:
        """Nats per word, </s> included; None if nothing is held out."""
        total = 0.0
        for rows in _parts(self.held_out_rows):
            hidden = self._hidden(rows)
            total += float(
                output_loss(self.network.output, hidden, _predicted(rows), torch.float32)
            )
        return total / self.n_held_out if self.n_held_out else None

    @torch.no_grad()
    def finish(self) -> LogZ | None:
        """Bring log Z nearer to 0 without changing a probability; see `rescorer.layers.output_layer`.

        Returns log Z over the held-out windows; None if there are none.
        """
        rng = np.random.default_rng((self.seed, len(self.train_rows)))
        n_chosen = min(LOG_Z_WINDOWS, len(self.train_rows))
        flatten_log_z(
            self.network.output,
            map(self._hidden, _parts(rng.choice(self.train_rows, n_chosen, replace=False, axis=0))),
        )
        output = self.network.output
        parts = [
            log_sum_exp(self._hidden(rows), output.weight, output.bias).double().cpu()
            for rows in _parts(self.held_out_rows)
        ]
        log_z = torch.cat(parts) if parts else None
        return None if log_z is None else LogZ(float(log_z.mean()), float(log_z.std(correction=0)))

    def _hidden(self, rows: NDArray[np.int32]) -> Tensor:
        windows = torch.from_numpy(rows[:, :-1].astype(np.int64))
        hidden: Tensor = self.network.hidden(windows.to(self.network.output.weight.device))
        return hidden


def _parts(rows: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for start in range(0, len(rows), HELD_OUT_BATCH):
        yield rows[start : start + HELD_OUT_BATCH]


def _predicted(rows: NDArray[np.int32]) -> Predicted:
    """The words after windows, one from each, *Shape:* (n, width + 1) -> k = n."""
    n = len(rows)
    return Predicted(np.arange(n), rows[:, -1].astype(np.int64), np.ones(n))
