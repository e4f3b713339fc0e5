"""Training: pairs a second, and seconds to a held-out loss, next to padded batches in plain PyTorch.

All ways learn the same pairs with the same Adam, warm-up and pairs an update, one after the other. Ours takes
the batches of `rescorer train`: parts of sources, targets as tries, a softmax over a sample of the words. The
first peer is the same network pair by pair: batches of equal lengths as far as possible, padded, float32. The
second has torch.nn.GRU, of equal sizes, in the place of the gated units. Sizes: the default, and the paper's
(d=1000). The loss to reach is the lowest of the first peer in its time. Held-out losses are exact, and
measured outside the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from gru_network import GruNetwork, LogProbs
from numpy.typing import NDArray
from paper_sizes import PAPER_SIZES
from results import Result, write_results
from torch import Tensor, nn

from moses_bridge.base.progress import Progress
from rescorer.contract.choices import Precision
from rescorer.contract.compute import known_precision, repeatable_sums
from rescorer.contract.training import Batches
from rescorer.scorers.encdec import (
    EncDecConfig,
    EncDecTrainingConfig,
    EncoderDecoder,
    empty_network,
)
from rescorer.training.loop_config import LoopConfig
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.training.pairs.pair_pools import PairPools, open_pairs
from rescorer.training.pairs.phrase_pairs import PairChoice
from rescorer.training.seeded_batch import SeededBatch
from rescorer.training.word_counts import choose_shortlists
from rescorer.tries.phrase_pairs import PairWords, PhrasePairs, pair_losses
from rescorer.tries.task import TrieTask

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed packages
from tests.rescorer.plain_networks import log_probs

# By hidden width; it does not fall here, so it is lower than the peak of `rescorer train`.
LEARNING_RATES = {256: 2e-3, 1000: 5e-4}
HELD_OUT_PAIRS = 500
SEED = 1

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Conditions:
    """Where and how long is trained.

    Attributes:
        device: "cpu" or "cuda".
        batch_pairs: of an update.
        peer_seconds: of the first peer.
        limit_seconds: of the others, if they do not reach its loss before.
        evaluation_seconds: between two measurements of the held-out loss.
        warmup_seconds: in which the learning rate rises.
    """

    device: str = "cpu"
    batch_pairs: int = 256
    peer_seconds: float = 45.0
    limit_seconds: float = 75.0
    evaluation_seconds: float = 3.0
    warmup_seconds: float = 5.0


# A GPU learns as much in a second as two processors in a minute.
ON_GPU = Conditions("cuda", 512, 5.0, 10.0, 0.5, 1.0)


class Task(Protocol):
    """Batches and losses of a training, ours or a peer's."""

    def batches(self, epoch: int) -> Batches[SeededBatch]:
        """The items of each update of an epoch."""

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed loss of a batch, and the number of its words."""

    def held_out_loss(self) -> float | None:
        """Nats per word; None if nothing is held out."""


@dataclass
class Curve:
    """How a training went.

    Attributes:
        points: seconds of updates, and held-out loss in nats per word.
        n_pairs: learned from, repeated ones counted.
    """

    points: list[tuple[float, float]]
    n_pairs: int = 0

    @property
    def pairs_per_second(self) -> float:
        """Speed of the updates."""
        return self.n_pairs / self.points[-1][0]

    def seconds_to(self, loss: float) -> float | None:
        """When the loss was reached, between two measurements by a straight line; None if never."""
        for (start, before), (end, after) in pairwise(self.points):
            if after <= loss < before:
                return start + (end - start) * (before - loss) / (before - after)
        return None


class PaddedTask:
    """What the peers learn from: the pairs of ours, in batches of equal lengths as far as possible.

    Args:
        log_probs: natural log p of each pair of a batch.
        ours: has the pairs, and says which are held out.
        conditions: of the training.
    """

    def __init__(self, log_probs: LogProbs, ours: PhrasePairs, conditions: Conditions) -> None:
        self.log_probs = log_probs
        self.conditions = conditions
        self.data, self.train_rows = ours.pool(0), ours.train_rows(0)
        self.held_out_rows = np.setdiff1d(np.arange(len(self.data)), self.train_rows)

    def batches(self, epoch: int) -> list[SeededBatch]:
        """The pairs of each update of an epoch."""
        rng = np.random.default_rng((SEED, epoch))
        batches = self._sorted_batches(rng.permutation(self.train_rows))
        return [SeededBatch(batches[number], ()) for number in rng.permutation(len(batches))]

    def _sorted_batches(self, rows: Rows) -> list[Rows]:
        source_lens = self.data.source_lens[self.data.groups[rows]]
        order = np.lexsort((self.data.target_lens[rows], source_lens))
        return np.array_split(rows[order], max(1, len(rows) // self.conditions.batch_pairs))

    def loss(self, batch: SeededBatch) -> tuple[Tensor, float]:
        """Summed loss of the pairs of a batch, and the number of their words."""
        return self._loss(batch.rows)

    def _loss(self, rows: Rows) -> tuple[Tensor, float]:
        n_words = int((self.data.target_lens[rows] + 1).sum())
        given = (ids.to(self.conditions.device) for ids in padded(self.data, rows))
        return -self.log_probs(*given).sum(), float(n_words)

    def held_out_loss(self) -> float:
        """Nats per word."""
        losses = [self._loss(rows) for rows in self._sorted_batches(self.held_out_rows)]
        return sum(float(loss) for loss, _ in losses) / sum(n_words for _, n_words in losses)


def padded(data: EncodedPairs, rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source ids, their lengths, target ids and lengths of some pairs, no wider than they need."""
    groups = data.groups[rows]
    source_lens, target_lens = data.source_lens[groups], data.target_lens[rows]
    return (
        torch.from_numpy(data.sources[groups, : source_lens.max() + 1]).long(),
        torch.from_numpy(source_lens),
        torch.from_numpy(data.targets[rows, : target_lens.max() + 1]).long(),
        torch.from_numpy(target_lens),
    )


def trained(
    network: nn.Module,
    task: Task,
    learning_rate: float,
    seconds: float,
    goal: float,
    conditions: Conditions,
) -> Curve:
    """Train for so long, or until the held-out loss is as low as the goal."""
    optimizer = torch.optim.Adam(network.parameters(), betas=(0.9, 0.99), fused=True)
    # Compiles what there is to compile.
    task.loss(task.batches(0)[0])[0].backward()  # type: ignore[no-untyped-call]
    curve, clock = Curve([(0.0, held_out_loss(task))]), 0.0
    with Progress("train and measure", int(seconds), "seconds") as progress:
        for batch in endless(task):
            started = time.perf_counter()
            optimizer.param_groups[0]["lr"] = learning_rate * min(
                1, clock / conditions.warmup_seconds
            )
            update(network, optimizer, *task.loss(batch))
            clock += time.perf_counter() - started
            curve.n_pairs += len(batch.rows)
            measured = curve.points[-1][0]
            if clock >= min(seconds, measured + conditions.evaluation_seconds):
                curve.points.append((clock, held_out_loss(task)))
                note = f"held-out {curve.points[-1][1]:.3f} nats/word"
                progress.update(int(clock) - int(measured), note)
                if clock >= seconds or curve.points[-1][1] <= goal:
                    break
    return curve


def endless(task: Task) -> Iterator[SeededBatch]:
    """Epoch after epoch."""
    for epoch in count():
        batches = task.batches(epoch)
        yield from (batches[number] for number in range(len(batches)))


def update(
    network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, n_words: float
) -> None:
    """One update with the loss per word, as `rescorer train` makes it."""
    optimizer.zero_grad(set_to_none=True)
    (loss / n_words).backward()  # type: ignore[no-untyped-call]
    float(loss.detach())  # a GPU is waited for, as there
    nn.utils.clip_grad_norm_(network.parameters(), LoopConfig.clip_norm)
    optimizer.step()


@torch.no_grad()
def held_out_loss(task: Task) -> float:
    """Nats per word."""
    loss = task.held_out_loss()
    assert loss is not None
    return loss


class OnePool(PairPools):
    """Pairs in memory."""

    def __init__(self, data: EncodedPairs) -> None:
        self.sizes, self._data = [len(data)], data

    def load(self, pool: int) -> EncodedPairs:
        """All pairs."""
        return self._data


@dataclass(frozen=True)
class Work:
    """Pairs to learn, and a way to begin with the same weights each time.

    Attributes:
        data: the pairs.
        words: of both sides.
        sizes: of the network.
        conditions: of each training.
    """

    data: EncodedPairs
    words: PairWords
    sizes: EncDecConfig
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def title(self) -> str:
        """What is done."""
        return f"train on phrase pairs, d={self.sizes.hidden_width}"

    @property
    def learning_rate(self) -> float:
        """Of all ways."""
        return LEARNING_RATES[self.sizes.hidden_width]

    def network(self) -> EncoderDecoder:
        """A network with the weights that every training begins with."""
        torch.manual_seed(SEED)
        network = empty_network(EncDecTrainingConfig(model=self.sizes), self.words.shortlists)
        network.initialise(None)
        return network.to(self.conditions.device)

    def config(self, product_type: Precision) -> EncDecTrainingConfig:
        """Settings of our way."""
        loop = LoopConfig(product_type=product_type)
        batch_pairs = self.conditions.batch_pairs
        return EncDecTrainingConfig(n_held_out=HELD_OUT_PAIRS, batch_pairs=batch_pairs, loop=loop)

    def source(self) -> PhrasePairs:
        """Our batches."""
        return PhrasePairs(OnePool(self.data), self.config("float32"), SEED)

    def ours(self, product_type: Precision, goal: float) -> Curve:
        """Train in our way."""
        network = self.network()
        losses = pair_losses(network, self.config(product_type), self.words)
        task = TrieTask(self.source(), losses)
        with repeatable_sums(torch.device(self.conditions.device)):
            return self._trained(network, task, self.conditions.limit_seconds, goal)

    def plain(self) -> Curve:
        """Train pair by pair."""
        network = self.network()
        task = PaddedTask(partial(log_probs, network), self.source(), self.conditions)
        return self._trained(network, task, self.conditions.peer_seconds, -np.inf)

    def gru(self, goal: float) -> Curve:
        """Train with torch.nn.GRU."""
        network = GruNetwork(self.network()).to(self.conditions.device)
        task = PaddedTask(network.log_probs, self.source(), self.conditions)
        return self._trained(network, task, self.conditions.limit_seconds, goal)

    def _trained(self, network: nn.Module, task: Task, seconds: float, goal: float) -> Curve:
        return trained(network, task, self.learning_rate, seconds, goal, self.conditions)


def main(table: Path, out: Path) -> None:
    """Measure all ways on the pairs of a table, at both sizes."""
    works = [work_of(table, sizes) for sizes in (EncDecTrainingConfig().model, PAPER_SIZES)]
    write_results([result for work in works for result in measure(work)], out)


def work_of(table: Path, sizes: EncDecConfig) -> Work:
    """The pairs of a table for a network of these sizes."""
    pairs = open_pairs(table, PairChoice(EncDecTrainingConfig.max_phrase_words), sys.maxsize)
    n_words = EncDecTrainingConfig.shortlist
    counts, n_pairs = pairs.word_counts(), sum(pairs.sizes)
    shortlists = choose_shortlists(counts, n_words, 0.0).shortlists
    data = PairPools(pairs, shortlists, "distinct").load(0)
    return Work(data, PairWords.of(shortlists, counts[1], n_pairs), sizes)


def measure(work: Work) -> Iterator[Result]:
    """Speed, then time to the goal, of each way of ours against each peer."""
    plain = work.plain()
    goal = min(loss for _, loss in plain.points)
    peers = {"padded batches": plain, "torch.nn.GRU": work.gru(goal)}
    for product_type in product_types():
        name, curve = f"tries, {product_type}", work.ours(product_type, goal)
        for peer, other in peers.items():
            speeds = curve.pairs_per_second, other.pairs_per_second
            yield Result(work.title, name, peer, *speeds, "pairs/s")
            ours, theirs = curve.seconds_to(goal), other.seconds_to(goal)
            if ours is None or theirs is None:
                seconds = f"{name}: {ours}, {peer}: {theirs}"
                print(
                    f"{goal:.3f} nats/word not reached in {work.conditions.limit_seconds:.0f} s; {seconds}"
                )
            else:
                title = f"{work.title}, to {goal:.3f} nats/word"
                yield Result(title, name, peer, ours, theirs, "s")


def product_types() -> list[Precision]:
    """float32, and bfloat16 where the processor has instructions for it."""
    if known_precision("fastest") == "bfloat16":
        return ["float32", "bfloat16"]
    print("no instructions for bfloat16 here: only float32 is measured")
    return ["float32"]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
