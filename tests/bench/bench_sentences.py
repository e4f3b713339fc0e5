"""Hypotheses a second of an n-best list under an RNNsearch, and target words a second of its training.

The peer is plain PyTorch (gru_search.py) of equal sizes in padded batches ordered by length, which encodes the
source of each hypothesis, or each source once. Weights are random: speed does not depend on them. One thread,
and its processor time, so that other work beside does not change the ratios.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gru_search import GruSearch
from results import Result, write_results

from moses_bridge.base.config import from_mapping
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.nbest import read_nbest
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists
from rescorer.scorers.rnnsearch import (
    ARCHITECTURE,
    RnnSearch,
    RnnSearchTrainingConfig,
    rnnsearch_scorer,
)
from rescorer.tables.nbest import ENTRIES_AT_ONCE
from rescorer.tries.prefix_tree import build_prefix_tree
from rescorer.tries.sentences import SentencePairs
from rescorer.tries.task import TrieTask

PEER_BATCH = 64
# Hypotheses that all ways score: the peers take longer.
N_HYPOTHESES = ENTRIES_AT_ONCE
N_UPDATES = 12


def main(nbest: Path, source: Path, train_source: Path, train_target: Path, out: Path) -> None:
    """Measure scoring and training."""
    torch.set_num_threads(1)
    data = Data(train_target, train_source)
    prepared = ARCHITECTURE.prepare(data, RnnSearchTrainingConfig(), 1)
    network, shortlists = prepared.network.eval(), prepared.shortlists
    assert isinstance(network, RnnSearch)
    results = scoring(network, shortlists, read_hypotheses(nbest, source))
    write_results([*results, *training(data)], out)


def read_hypotheses(nbest: Path, source: Path) -> Batch:
    """The first hypotheses of a list with their sources."""
    sentences = list(read_lines(source))
    entries = list(itertools.islice(read_nbest(str(nbest)), N_HYPOTHESES))
    return Batch([sentences[e.sentence_id] for e in entries], [e.words for e in entries])


def scoring(network: RnnSearch, shortlists: Shortlists, batch: Batch) -> list[Result]:
    """Ours in both precisions against both peers, and the steps that are left."""
    print(
        f"decoder steps avoided: {steps_avoided(shortlists, batch):.1%} of {len(batch)} hypotheses"
    )
    model = TrainedModel("rnnsearch", network, shortlists, {})
    ours = {
        f"tries, {precision}": rnnsearch_speed(model, Compute(precision, "cpu"), batch)
        for precision in ("float32", "bfloat16")
    }
    peer = GruSearch(network.config, *(len(words or ()) for words in shortlists)).eval()
    peers = {
        "padded, a source a hypothesis": peer_speed(peer, shortlists, batch, shares=False),
        "padded, sources shared": peer_speed(peer, shortlists, batch, shares=True),
    }
    title = f"score an n-best list, d={network.config.hidden_width}, V={len(shortlists.target)}"
    return [
        Result(title, name, peer_name, speed, peer_value, "hypotheses/s")
        for name, speed in ours.items()
        for peer_name, peer_value in peers.items()
    ]


def steps_avoided(shortlists: Shortlists, batch: Batch) -> float:
    """Share of the decoder's steps, one a word and </s>, that tries do without."""
    numbers = {source: number for number, source in enumerate(dict.fromkeys(batch.sources))}
    groups = np.array([numbers[source] for source in batch.sources])
    ids, lens = shortlists.target.encode_phrases(batch.targets)
    tree = build_prefix_tree(ids, lens, groups, len(numbers))
    return float(1 - (tree.n_nodes + tree.n_groups) / (lens + 1).sum())


def rnnsearch_speed(model: TrainedModel[RnnSearch], compute: Compute, batch: Batch) -> float:
    """Hypotheses a second, as many at once as `rescorer nbest` has in a block."""
    scorer = rnnsearch_scorer(model, compute)
    scorer.values(Batch(batch.sources[:50], batch.targets[:50]))
    return len(batch) / seconds(lambda: scorer.values(batch))


def seconds(work: Callable[[], object]) -> float:
    """Processor time of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


@torch.inference_mode()
def peer_speed(peer: GruSearch, shortlists: Shortlists, batch: Batch, shares: bool) -> float:
    """Hypotheses a second of plain PyTorch."""
    source, target = shortlists
    assert source is not None
    ids, lens = (torch.from_numpy(part).long() for part in source.encode_phrases(batch.sources))
    words, n_words = (
        torch.from_numpy(part).long() for part in target.encode_phrases(batch.targets)
    )
    order = sorted(range(len(batch)), key=lambda i: (int(lens[i]), int(n_words[i])))

    def work() -> None:
        known: dict[bytes, torch.Tensor] = {}
        for start in range(0, len(order), PEER_BATCH):
            rows = torch.tensor(order[start : start + PEER_BATCH])
            longest = int(lens[rows].max()) + 1
            if shares:
                annotations = torch.stack(
                    [padded(encoded(row, known), longest) for row in rows.tolist()]
                )
            else:
                annotations = peer.encode(ids[rows, :longest], lens[rows] + 1)
            steps = int(n_words[rows].max()) + 1
            peer(annotations, lens[rows] + 1, words[rows, :steps], n_words[rows] + 1)

    def encoded(row: int, known: dict[bytes, torch.Tensor]) -> torch.Tensor:
        if batch.sources[row] not in known:
            own = slice(row, row + 1)
            found = peer.encode(ids[own, : int(lens[row]) + 1], lens[own] + 1)
            known[batch.sources[row]] = found[0]
        return known[batch.sources[row]]

    return len(batch) / seconds(work)


def padded(annotations: torch.Tensor, longest: int) -> torch.Tensor:
    """The annotations with zeros behind them."""
    return torch.nn.functional.pad(annotations, (0, 0, 0, longest - len(annotations)))


def training(data: Data) -> list[Result]:
    """Target words a second, our ways against plain PyTorch."""
    ways: dict[str, dict[str, Any]] = {
        "float32, whole softmax": {"n_sampled": 0, "loop": {"product_type": "float32"}},
        "bfloat16, whole softmax": {"n_sampled": 0, "loop": {"product_type": "bfloat16"}},
        "bfloat16, sampled softmax": {"loop": {"product_type": "bfloat16"}},
    }
    results = []
    peer_value = None
    for name, changes in ways.items():
        config = from_mapping(RnnSearchTrainingConfig, changes, name)
        prepared = ARCHITECTURE.prepare(data, config, 1)
        task, network = prepared.task, prepared.network
        assert isinstance(task, TrieTask) and isinstance(network, RnnSearch)
        assert isinstance(task.source, SentencePairs)
        if peer_value is None:
            peer = GruSearch(network.config, *(len(words or ()) for words in prepared.shortlists))
            peer_value = training_speed(peer, task.source, peer_loss(peer, task.source))
        ours = training_speed(network, task.source, lambda batch, task=task: task.loss(batch)[0])
        title = f"train on sentence pairs, d={network.config.hidden_width}"
        results.append(Result(title, name, "padded torch.nn.GRU", ours, peer_value, "words/s"))
    return results


def peer_loss(peer: GruSearch, source: SentencePairs) -> Callable[[object], torch.Tensor]:
    """The loss of plain PyTorch on the same batches, with the whole softmax in float32."""
    data = source.data

    def loss(batch: object) -> torch.Tensor:
        rows = batch.rows  # type: ignore[attr-defined]
        lens = torch.from_numpy(data.source_lens[rows] + 1)
        n_words = torch.from_numpy(data.target_lens[rows] + 1)
        source = torch.from_numpy(data.sources[rows, : int(lens.max())]).long()
        target = torch.from_numpy(data.targets[rows, : int(n_words.max())]).long()
        log_probs: torch.Tensor = peer(peer.encode(source, lens), lens, target, n_words)
        return -log_probs.sum()

    return loss


def training_speed(
    network: torch.nn.Module, source: SentencePairs, loss: Callable[..., torch.Tensor]
) -> float:
    """Target words a second of whole updates with Adam."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    batches = source.batches(0)[: N_UPDATES + 1]

    def updates(batches: Iterable[object]) -> None:
        for batch in batches:
            optimizer.zero_grad(set_to_none=True)
            (loss(batch) / 2048).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()

    updates(batches[:1])
    n_words = sum(int((source.data.target_lens[batch.rows] + 1).sum()) for batch in batches[1:])
    return n_words / seconds(lambda: updates(batches[1:]))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
