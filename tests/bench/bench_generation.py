"""Targets of source phrases a second: beam search of a phrase network, against the same search written plainly.

    python tests/bench/bench_generation.py PHRASE-TABLE MODEL RESULTS.json

The phrases are distinct sources of the table, drawn by a seed. The peer is a beam search in plain PyTorch over
the network's own methods, one phrase at a time, as a script beside a model would have it; both must find the
same targets. One thread, seconds of the processor, the best of three runs. Every log p that the search gives is
compared with that of the scoring engine.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import Result, write_results

from moses_bridge.formats.phrase_table import read_blocks
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.target_generation import Generated, GenerationConfig
from rescorer.models.model_directory import generator_of_model, load_model, scorer_of_model

N_PHRASES, N_PLAIN, RUNS = 1000, 100, 3
SEARCHES = {"best 1 of a beam of 1": (1, 1), "best 10 of a beam of 10": (10, 10)}


def drawn_sources(table: Path, n: int) -> list[bytes]:
    """Distinct sources of a table, drawn at random."""
    sources = {source for block in read_blocks(table, 1000) for source in block.sources}
    return random.Random(1).sample(sorted(sources), n)


def speed(work: Callable[[], Any], n: int) -> float:
    """Phrases a second of the processor, the best of some runs."""
    seconds = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return n / min(seconds)


@torch.inference_mode()
def plain_search(model: Any, phrase: bytes, n: int, width: int) -> list[tuple[float, list[int]]]:
    """The n best targets of a phrase; a live hypothesis is dropped when n ended ones are better."""
    network = model.network
    ids, lens = model.shortlists.source.encode_phrases([phrase])
    source = network.read(ids, lens)
    longest = 3 * (int(lens[0]) + 1)
    live, state, ended = (
        [(0.0, list[int]())],
        network.start(source),
        list[tuple[float, list[int]]](),
    )
    while live:
        words = torch.tensor([words[-1] if words else -1 for _, words in live])
        inputs = network.inputs(words, source, torch.zeros(len(live), dtype=torch.long))
        state = network.step(network.carry(state), inputs, source)
        steps = torch.log_softmax(network.output(network.factors(state, inputs, source)), dim=1)
        ended += [
            (total + float(step), words)
            for (total, words), step in zip(live, steps[:, 0], strict=True)
        ]
        ended = sorted(ended, key=lambda one: -one[0])[:n]
        if len(live[0][1]) == longest:
            break
        totals = torch.tensor([total for total, _ in live])[:, None] + steps
        totals[:, 0] = -torch.inf
        best = totals.flatten().topk(width)
        floor = ended[-1][0] if len(ended) == n else -np.inf
        chosen = [(t, i) for t, i in zip(*map(torch.Tensor.tolist, best), strict=True) if t > floor]
        parents = [i // totals.shape[1] for _, i in chosen]
        live = [
            (t, [*live[p][1], i % totals.shape[1]])
            for (t, i), p in zip(chosen, parents, strict=True)
        ]
        state = type(state)(*(field[parents] for field in state))
    return ended


def largest_difference(
    directory: Path, sources: Sequence[bytes], targets: Sequence[Sequence[Generated]]
) -> float:
    """Between the log p of the search and that of the scoring engine."""
    pairs = [(s, one) for s, ones in zip(sources, targets, strict=True) for one in ones]
    batch = Batch([s for s, _ in pairs], [b" ".join(one.words) for _, one in pairs])
    values = scorer_of_model(directory, Compute(device="cpu")).scorer.values(batch)
    return float(np.abs(values - [one.log_prob for _, one in pairs]).max())


def measure(name: str, directory: Path, sources: list[bytes]) -> Result:
    """A search both ways."""
    n, width = SEARCHES[name]
    config = GenerationConfig(n=n, beam=width)
    generator, model = generator_of_model(directory, Compute(device="cpu")), load_model(directory)
    targets = list(generator.generate(sources, config))
    words = model.shortlists.target.words
    n_same = 0
    for phrase, found in zip(sources[:N_PLAIN], targets, strict=False):
        plain = plain_search(model, phrase, n, width)
        n_same += [one.words for one in found] == [tuple(words[i] for i in ids) for _, ids in plain]
    mean = np.mean([len(one.words) for ones in targets for one in ones])
    print(
        f"{name}: {mean:.2f} words a target, {n_same} of {N_PLAIN} lists the same both ways,"
        f" log p from that of scoring by at most {largest_difference(directory, sources, targets):.1e}"
    )
    return Result(
        name,
        "generation engine",
        "plain PyTorch",
        speed(lambda: list(generator.generate(sources, config)), len(sources)),
        speed(lambda: [plain_search(model, one, n, width) for one in sources[:N_PLAIN]], N_PLAIN),
        "phrases/s",
    )


def main(table: Path, directory: Path, out: Path) -> None:
    """Measure on the sources of a table."""
    torch.set_num_threads(1)
    sources = drawn_sources(table, N_PHRASES)
    generator = generator_of_model(directory, Compute(device="cpu"))
    draws = GenerationConfig(n=50, sample=True)
    drawn = speed(lambda: list(generator.generate(sources[:N_PLAIN], draws)), N_PLAIN)
    results = [measure(name, directory, sources) for name in SEARCHES]
    results.append(Result("50 draws", "generation engine", "none", drawn, None, "phrases/s"))
    write_results(results, out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
