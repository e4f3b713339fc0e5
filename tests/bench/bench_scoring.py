"""Rows a second of `rescorer score`'s engine next to padded batches in plain PyTorch.

The peer has the same weights: pairs sorted by length, 512 a batch, log_softmax over the shortlist.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from results import Result, write_results

from moses_bridge.formats.phrase_table import read_blocks
from rescorer.checkpoint import load_model
from rescorer.models.encdec import EncoderDecoder
from rescorer.scoring import EncDecScorer
from rescorer.vocabulary import Vocabulary

OUR_ROWS = 60_000
PEER_ROWS = 8_000
PEER_BATCH = 512


def main(table: Path, model_directory: Path, out: Path) -> None:
    """Measure both on the first rows of a table."""
    loaded = load_model(model_directory)
    network, source, target = loaded.network, loaded.source_vocabulary, loaded.target_vocabulary
    assert isinstance(network, EncoderDecoder)
    assert source is not None
    block = next(iter(read_blocks(table, OUR_ROWS)))
    picked = np.random.default_rng(1).permutation(len(block))[:PEER_ROWS]
    started = time.perf_counter()
    expected = peer_log_probs(
        network,
        source,
        target,
        [block.sources[i] for i in picked],
        [block.targets[i] for i in picked],
    )
    peer = len(picked) / (time.perf_counter() - started)
    results = []
    for precision in ("float32", "bfloat16"):
        scorer = EncDecScorer(network, source, target, precision)
        scorer.log_probs(block.sources[:500], block.targets[:500])
        started = time.perf_counter()
        found = scorer.log_probs(block.sources, block.targets)
        ours = len(block) / (time.perf_counter() - started)
        print(f"{precision}: largest difference {np.abs(found[picked] - expected).max():.2g} nats")
        work = f"score phrase pairs, d={network.config.hidden_width}, V={len(target)}"
        results.append(Result(work, f"tries, {precision}", "padded batches", ours, peer, "rows/s"))
    write_results(results, out)


@torch.inference_mode()
def peer_log_probs(
    network: EncoderDecoder,
    source: Vocabulary,
    target: Vocabulary,
    sources: list[bytes],
    targets: list[bytes],
) -> np.ndarray:
    """Natural log p of each pair, batch by batch."""
    order = sorted(
        range(len(sources)), key=lambda i: (sources[i].count(b" "), targets[i].count(b" "))
    )
    log_probs = np.empty(len(sources))
    for start in range(0, len(order), PEER_BATCH):
        rows = order[start : start + PEER_BATCH]
        source_ids, source_lens = source.encode_phrases([sources[i] for i in rows])
        target_ids, target_lens = target.encode_phrases([targets[i] for i in rows])
        log_probs[rows] = network.log_probs(
            torch.from_numpy(source_ids).long(),
            torch.from_numpy(source_lens),
            torch.from_numpy(target_ids).long(),
            torch.from_numpy(target_lens),
        ).numpy()
    return log_probs


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
