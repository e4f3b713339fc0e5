"""Training of an NNJM: examples a second, and seconds to a held-out loss, next to plain PyTorch.

Both learn the same windows with the same network (the default sizes), Adam, learning rate and warm-up, one
after the other. Ours takes the batches and the sampled softmax of `rescorer train`; the peer takes the full
softmax of torch.nn.functional.cross_entropy in float32 and a quarter of the windows an update. The loss to
reach is the peer's lowest in its time; held-out losses are exact and outside the clock.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from bench_training import ON_GPU, SEED, Conditions, product_types, trained
from results import Result, write_results
from torch import Tensor
from torch.nn.functional import cross_entropy

from moses_bridge.base.machine import keep_freed_memory
from rescorer.contract.choices import Precision
from rescorer.contract.compute import repeatable_sums
from rescorer.contract.training import Data
from rescorer.scorers.nnjm import Nnjm, NnjmTrainingConfig, prepare
from rescorer.training.loop_config import LoopConfig
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
        device: where the network is.
    """

    def __init__(self, task: WindowTask, device: str) -> None:
        self.task = task
        self.device = device
        self.held_out_loss = task.held_out_loss

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The windows of each update."""
        order = np.random.default_rng((SEED, epoch)).permutation(len(self.task.train_rows))
        parts = np.array_split(order, len(order) // PEER_BATCH)
        return [SeededBatch(rows, ()) for rows in parts]

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed loss and number of windows."""
        rows = torch.from_numpy(self.task.train_rows[batch.rows]).long().to(self.device)
        network = self.task.network
        first = network.first(network.embedding(rows[:, :-1]).flatten(1))
        logits = network.output(above_first(first, network.second))
        return cross_entropy(logits, rows[:, -1], reduction="sum"), float(len(rows))


def prepared(data: Data, product_type: Precision, device: str) -> tuple[Nnjm, WindowTask]:
    """A network with the weights that every training begins with, and its windows."""
    loop = LoopConfig(product_type=product_type)
    config = NnjmTrainingConfig(n_held_out=HELD_OUT_SENTENCES, loop=loop)
    torch.manual_seed(SEED)
    ready = prepare(data, config, SEED)
    assert isinstance(ready.network, Nnjm) and isinstance(ready.task, WindowTask)
    return ready.network.to(device), ready.task


def measure(data: Data, conditions: Conditions) -> Iterator[Result]:
    """Speed, then time to the goal, of each type of our products against the peer."""
    keep_freed_memory()  # as `rescorer train` does
    device = conditions.device
    network, task = prepared(data, "float32", device)
    peer_task, seconds = PlainTask(task, device), conditions.peer_seconds
    plain = trained(network, peer_task, LEARNING_RATE, seconds, -np.inf, conditions)
    work = "train an NNJM" if device == "cpu" else f"train an NNJM on {device}"
    peer, goal = "plain PyTorch, full softmax", min(loss for _, loss in plain.points)
    for product_type in product_types():
        own, limit = prepared(data, product_type, device), conditions.limit_seconds
        with repeatable_sums(torch.device(device)):
            ours = trained(*own, LEARNING_RATE, limit, goal, conditions)
        speeds = ours.pairs_per_second, plain.pairs_per_second
        yield Result(work, product_type, peer, *speeds, "examples/s")
        times = ours.seconds_to(goal), plain.seconds_to(goal)
        if times[0] is None or times[1] is None:
            print(f"{goal:.3f} nats/word not reached in {limit:.0f} s: {product_type}")
        else:
            title = f"{work} to {goal:.3f} nats/word"
            yield Result(title, product_type, peer, times[0], times[1], "s")


def main(target: Path, source: Path, links: Path, out: Path, device: str = "cpu") -> None:
    """Measure on linked parallel text."""
    conditions = ON_GPU if device == "cuda" else Conditions()
    write_results(list(measure(Data(target, source, links), conditions)), out)


if __name__ == "__main__":
    files = [Path(argument) for argument in sys.argv[1:5]]
    main(files[0], files[1], files[2], files[3], *sys.argv[5:6])
