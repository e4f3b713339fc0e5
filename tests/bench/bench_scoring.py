"""Rows a second of `rescorer score`'s engine next to padded batches in plain PyTorch.

The first peer has the same weights: pairs sorted by length, 512 a batch, log_softmax over the shortlist.
The second has torch.nn.GRU, of equal sizes but other weights, in the place of the gated units. The third is the
first as an ONNX graph in onnxruntime, where that is installed. Sizes: the model's own, and the paper's (d=1000)
with random weights, on which speed does not depend. For the model's own, `rescorer score` from file to file
as well: what is around the network, and the memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import torch
from gru_network import GruNetwork, LogProbs
from layer_speed import printed_layer_speeds
from numpy.typing import NDArray
from paper_sizes import PAPER_SIZES
from results import Result, write_results
from scipy.stats import spearmanr
from whole_command import measure_command

from moses_bridge.base.blocks import map_in_order
from moses_bridge.base.machine import n_processors
from moses_bridge.formats.phrase_table import Block, read_blocks
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Device
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.compiled_gates import MAXOUT_PIECES
from rescorer.models.model_directory import load_model
from rescorer.scorers.encdec import EncDecScorer, EncoderDecoder, encdec_scorer
from rescorer.tries.prefix_tree import build_prefix_tree

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed packages
from tests.rescorer.plain_networks import log_probs

N_ROWS = {256: 65_536, 1000: 32_768}
PEER_ROWS = {256: 6_000, 1000: 1_000}
BLOCK_ROWS = 8192
# A single pass over so few rows varies by a tenth and more.
N_ROUNDS = 5
PEAK_SIZE: dict[Device, int] = {"cpu": 2048, "cuda": 8192}
N_JOBS = n_processors()
BY_LAYER = ("tries, float32", "tries, bfloat16")

# Gives natural log p of rows, and rows a second.
Run = Callable[[], tuple[NDArray[np.float64], float]]


@dataclass(frozen=True)
class Work:
    """Rows to score under a network, and some of them for the peers, which take longer.

    Attributes:
        network: whose values are wanted.
        source: its words.
        target: its words.
        blocks: rows of a table.
        sample: numbers of the peers' rows.
        device: where all is computed.
        peer_batch: pairs that a peer computes at once.
    """

    network: EncoderDecoder
    source: Vocabulary
    target: Vocabulary
    blocks: list[Block]
    sample: NDArray[np.int64]
    device: Device = "cpu"
    peer_batch: int = 512

    @property
    def title(self) -> str:
        """What is done."""
        return f"score phrase pairs, d={self.network.config.hidden_width}, V={len(self.target)}"

    @property
    def pairs(self) -> tuple[list[bytes], list[bytes]]:
        """Sources and targets of all rows."""
        return (
            [source for block in self.blocks for source in block.sources],
            [target for block in self.blocks for target in block.targets],
        )


def main(table: Path, model_directory: Path, out: Path) -> None:
    """Measure all ways on rows of a table."""
    loaded = load_model(model_directory)
    source, target = loaded.shortlists
    assert source is not None
    peaks = {dtype: peak(dtype) for dtype in (torch.float32, torch.bfloat16)}
    blocks = list(read_blocks(table, BLOCK_ROWS))
    networks = (loaded.network, EncoderDecoder(PAPER_SIZES, len(source), len(target)).eval())
    works = [picked(network, source, target, blocks) for network in networks]
    results = [result for work in works for result in measure(work, peaks)]
    results.append(from_file_to_file(works[0], model_directory))
    write_results(results, out)


def picked(
    network: EncoderDecoder, source: Vocabulary, target: Vocabulary, blocks: list[Block]
) -> Work:
    """As many rows as the size of the network allows, from all parts of the table."""
    width = min(N_ROWS, key=lambda known: abs(known - network.config.hidden_width))
    n_blocks = max(1, N_ROWS[width] // BLOCK_ROWS)
    chosen = [blocks[i] for i in np.linspace(0, len(blocks) - 1, n_blocks).astype(int)]
    n_rows = sum(map(len, chosen))
    sample = np.random.default_rng(1).permutation(n_rows)[: PEER_ROWS[width]]
    return Work(network, source, target, chosen, sample)


def measure(work: Work, peaks: dict[torch.dtype, float], n_rounds: int = N_ROUNDS) -> list[Result]:
    """Ours in each way against each peer."""
    ways = scorers(work)
    peers: dict[str, LogProbs] = {
        "padded batches": partial(log_probs, work.network.to(work.device)),
        "torch.nn.GRU": GruNetwork(work.network).to(work.device).log_probs,
    }
    if work.device == "cpu":
        peers |= onnx_peer(work)
    runs = {name: partial(timed_peer, work, log_probs) for name, log_probs in peers.items()}
    values, speeds = in_turn(
        runs | {name: partial(timed, work, way) for name, _, way in ways}, n_rounds
    )
    exact = values["padded batches"]
    if "onnxruntime" in values:
        print(f"onnxruntime: {np.abs(values['onnxruntime'] - exact).max():.2g} nats off at most")
    needed, done = n_products(work), n_products_padded(work)
    print(f"{work.title}: {needed / 1e6:.1f}M multiply-adds a row needed, {done / 1e6:.1f}M padded")
    for name, dtype, scorer in ways:
        found = values[name][work.sample]
        share = 2 * needed * speeds[name] / peaks[dtype]
        print(
            f"{name}: {np.abs(found - exact).mean():.2g} nats from the peer,"
            f" Spearman {spearmanr(found, exact).statistic:.6f},"
            f" {share:.0%} of the {peaks[dtype] / 1e9:.0f} GFLOP/s of a large product"
        )
        if name in BY_LAYER and work.device == "cpu":
            with printed_layer_speeds(scorer):
                scorer.values(Batch(work.blocks[0].sources, work.blocks[0].targets))
    return [
        Result(work.title, name, peer, speeds[name], speeds[peer], "rows/s")
        for name, _, _ in ways
        for peer in peers
    ]


def in_turn(
    runs: Mapping[str, Run], n_rounds: int
) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
    """Values of each run, and the median of its speeds; what the machine does beside meets all runs alike."""
    rounds = [{name: run() for name, run in runs.items()} for _ in range(n_rounds)]
    return (
        {name: rounds[0][name][0] for name in runs},
        {name: median(one[name][1] for one in rounds) for name in runs},
    )


def onnx_peer(work: Work) -> dict[str, LogProbs]:
    """onnxruntime by its name; nothing where it is not installed."""
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        print("onnxruntime is left out: it needs the packages onnx and onnxruntime")
        return {}
    from onnx_network import OnnxNetwork

    return {"onnxruntime": OnnxNetwork(work.network).log_probs}


def from_file_to_file(work: Work, model_directory: Path) -> Result:
    """The command against its network alone, in float32."""
    rows = [line for block in work.blocks for line in block.lines]
    whole = measure_command(rows, model_directory, Shortlists(work.source, work.target), N_JOBS)
    print(whole)
    _, alone = timed(work, scorer_of(work, Compute(device="cpu")))
    return Result(
        work.title, "from file to file", "network alone", whole.rows_per_second, alone, "rows/s"
    )


def scorers(work: Work) -> list[tuple[str, torch.dtype, EncDecScorer]]:
    """Our ways; the last one has other values, unless the network is self-normalised."""
    ways = {
        "tries, float32": Compute("float32", work.device),
        "tries, bfloat16": Compute("bfloat16", work.device),
        "tries, unnormalised": Compute("float32", work.device, unnormalized=True),
    }
    return [(name, compute.dtype, scorer_of(work, compute)) for name, compute in ways.items()]


def scorer_of(work: Work, compute: Compute) -> EncDecScorer:
    """Ours in one way."""
    shortlists = Shortlists(work.source, work.target)
    return encdec_scorer(TrainedModel("encdec", work.network, shortlists, {}), compute)


def timed(work: Work, scorer: EncDecScorer) -> tuple[NDArray[np.float64], float]:
    """Log-probabilities of all rows, scored as `rescorer score` does, and rows a second."""
    scorer.values(Batch(work.blocks[0].sources[:500], work.blocks[0].targets[:500]))
    started = time.perf_counter()
    found = list(
        map_in_order(lambda b: scorer.values(Batch(b.sources, b.targets)), work.blocks, N_JOBS)
    )
    result = np.concatenate(found)
    return result, len(result) / (time.perf_counter() - started)


@torch.inference_mode()
def timed_peer(work: Work, log_probs: LogProbs) -> tuple[NDArray[np.float64], float]:
    """Natural log p of the sampled pairs, batch by batch, and rows a second."""
    all_sources, all_targets = work.pairs
    sources = [all_sources[i] for i in work.sample]
    targets = [all_targets[i] for i in work.sample]
    started = time.perf_counter()
    order = sorted(
        range(len(sources)), key=lambda i: (sources[i].count(b" "), targets[i].count(b" "))
    )
    result = np.empty(len(sources))
    for start in range(0, len(order), work.peer_batch):
        rows = order[start : start + work.peer_batch]
        source_ids, source_lens = work.source.encode_phrases([sources[i] for i in rows])
        target_ids, target_lens = work.target.encode_phrases([targets[i] for i in rows])
        given = (source_ids, source_lens, target_ids, target_lens)
        tensors = (torch.from_numpy(numbers).long().to(work.device) for numbers in given)
        result[rows] = log_probs(*tensors).cpu().numpy()
    return result, len(result) / (time.perf_counter() - started)


def n_products(work: Work) -> float:
    """Multiply-adds a row that are left after sharing."""
    total = 0.0
    for block in work.blocks:
        numbers = {source: number for number, source in enumerate(dict.fromkeys(block.sources))}
        groups = np.array([numbers[source] for source in block.sources])
        ids, lens = work.target.encode_phrases(block.targets)
        targets = build_prefix_tree(ids, lens, groups, len(numbers))
        source_ids, source_lens = work.source.encode_phrases(list(numbers))
        sources = build_prefix_tree(source_ids, source_lens + 1)
        total += products(work, sources.n_nodes, len(numbers), len(numbers) + targets.n_nodes)
    return total / sum(map(len, work.blocks))


def n_products_padded(work: Work) -> float:
    """Multiply-adds a row if each pair is computed alone, padding not counted."""
    sources, targets = work.pairs
    source_steps = float(np.mean([source.count(b" ") + 2 for source in sources]))
    target_steps = float(np.mean([len(target.split()) + 1 for target in targets]))
    return products(work, source_steps, 1, target_steps)


def products(work: Work, source_steps: float, n_sources: float, target_steps: float) -> float:
    """Multiply-adds of so many steps; inputs of words are looked up."""
    config, n_words = work.network.config, len(work.target)
    d, r, m = config.hidden_width, config.embedding_width, config.maxout_width
    readout = MAXOUT_PIECES * m * d
    a_target_step = 3 * d * d + readout + m * r + r * n_words
    return (
        source_steps * 3 * d * d + n_sources * (5 * d * d + readout) + target_steps * a_target_step
    )


def peak(dtype: torch.dtype, device: Device = "cpu") -> float:
    """Floating-point operations a second of a large product."""
    size = PEAK_SIZE[device]
    one, other = (torch.randn(size, size).to(dtype).to(device) for _ in range(2))
    best = 0.0
    for _ in range(8):
        started = time.perf_counter()
        (one @ other)[0, 0].item()  # a GPU is waited for
        best = max(best, 2 * size**3 / (time.perf_counter() - started))
    return best


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
