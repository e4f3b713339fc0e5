"""Training of an NNJM: examples a second, and seconds to a held-out loss, next to plain PyTorch.

Both learn the same windows with the same network (the default sizes), Adam, learning rate and warm-up, one
after the other. Ours takes the batches and the sampled softmax of `rescorer train`; the peer takes the full
softmax of torch.nn.functional.cross_entropy in float32 and a quarter of the windows an update. The loss to
reach is the peer's lowest in PEER_SECONDS; held-out losses are exact and outside the clock.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from bench_training import LIMIT_SECONDS, PEER_SECONDS, SEED, product_types, trained
from results import Result, write_results
from torch import Tensor
from torch.nn.functional import cross_entropy

from rescorer.contract.choices import Precision
from rescorer.contract.data import Data
from rescorer.contract.parallel import keep_freed_memory
from rescorer.scorers.nnjm.network import Nnjm
from rescorer.scorers.nnjm.task import NnjmTrainingConfig, prepare
from rescorer.training.loop import LoopConfig
from rescorer.training.seeded_batch import SeededBatch
from rescorer.windows.feed_forward import above_first
from rescorer.windows.task import WindowTask

LEARNING_RATE = 2e-3
PEER_BATCH = 256
HELD_OUT_SENTENCES = 500


class PlainTask:
    """The windows of a training of ours, with a full softmax.

    Args:
        task: has them.
    """

    def __init__(self, task: WindowTask) -> None:
        self.task = task
        self.held_out_loss = task.held_out_loss

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The windows of each update."""
        order = np.random.default_rng((SEED, epoch)).permutation(len(self.task.train_rows))
        parts = np.array_split(order, len(order) // PEER_BATCH)
        return [SeededBatch(rows, ()) for rows in parts]

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed loss and number of windows."""
        rows = torch.from_numpy(self.task.train_rows[batch.rows]).long()
        network = self.task.network
        first = network.first(network.embedding(rows[:, :-1]).flatten(1))
        logits = network.output(above_first(first, network.second))
        return cross_entropy(logits, rows[:, -1], reduction="sum"), float(len(rows))


def prepared(data: Data, product_type: Precision) -> tuple[Nnjm, WindowTask]:
    """A network with the weights that every training begins with, and its windows."""
    loop = LoopConfig(product_type=product_type)
    config = NnjmTrainingConfig(n_held_out=HELD_OUT_SENTENCES, loop=loop)
    torch.manual_seed(SEED)
    ready = prepare(data, config, SEED)
    assert isinstance(ready.network, Nnjm) and isinstance(ready.task, WindowTask)
    return ready.network, ready.task


def measure(data: Data) -> Iterator[Result]:
    """Speed, then time to the goal, of each type of our products against the peer."""
    keep_freed_memory()  # as `rescorer train` does
    network, task = prepared(data, "float32")
    plain = trained(network, PlainTask(task), LEARNING_RATE, PEER_SECONDS, -np.inf)
    peer, goal = "plain PyTorch, full softmax", min(loss for _, loss in plain.points)
    for product_type in product_types():
        ours = trained(*prepared(data, product_type), LEARNING_RATE, LIMIT_SECONDS, goal)
        speeds = ours.pairs_per_second, plain.pairs_per_second
        yield Result("train an NNJM", product_type, peer, *speeds, "examples/s")
        seconds, peer_seconds = ours.seconds_to(goal), plain.seconds_to(goal)
        if seconds is None or peer_seconds is None:
            print(f"{goal:.3f} nats/word not reached in {LIMIT_SECONDS:.0f} s: {product_type}")
        else:
            title = f"train an NNJM to {goal:.3f} nats/word"
            yield Result(title, product_type, peer, seconds, peer_seconds, "s")


def main(target: Path, source: Path, links: Path, out: Path) -> None:
    """Measure on linked parallel text."""
    write_results(list(measure(Data(target, source, links))), out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
