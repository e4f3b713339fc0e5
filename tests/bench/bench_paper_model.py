"""Networks on a GPU, the paper's (d=1000) above all: next to plain PyTorch there, and as commands.

Scoring and training stand next to the peers of `bench_scoring` and `bench_training`, on the same device. Beside
them `rescorer score` from file to file with random weights, on which speed does not depend, and a whole
training, until the held-out loss stops falling or the minutes are over; the loss against time stands in
OUT/model/training.jsonl. With the device "cpu" the same runs on any machine, slowly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

import bench_scoring
import bench_training
import numpy as np
import torch
from paper_sizes import PAPER_SIZES
from results import Result, write_results
from whole_command import measure_command

from moses_bridge.base.machine import n_processors
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.phrase_table import read_blocks
from rescorer.contract.choices import Device, Precision
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists
from rescorer.models.model_directory import save_model
from rescorer.runs.train import train
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig, empty_network
from rescorer.training.loop_config import LoopConfig

ProductType = Precision | Literal["fastest"]

N_ROWS = 262_144
PEER_ROWS = {"cpu": 2_000, "cuda": 65_536}
# What a peer gains by larger batches it shall have.
PEER_BATCH = {"cpu": 512, "cuda": 4096}
N_JOBS = n_processors()
SIZES = (EncDecTrainingConfig().model, PAPER_SIZES)
# Pairs of an update, without and with a setting.
UPDATES = (512, 4096)
# Pairs of an update, the highest rate, and the type of products. 30 s of a GPU came to 2.77 nats a word with
# 512 pairs and 0.002, to 1.58 with these.
WHOLE_TRAINING: dict[Device, tuple[int, float, ProductType]] = {
    "cpu": (512, 2e-3, "fastest"),
    "cuda": (4096, 4e-3, "float32"),
}


def main(table: Path, out: Path, device: Device, minutes: float) -> None:
    """Measure all on the rows of a table."""
    conditions = bench_training.ON_GPU if device == "cuda" else bench_training.Conditions()
    work = replace(bench_training.work_of(table, PAPER_SIZES), conditions=conditions)
    shortlists = work.words.shortlists
    results = [from_file_to_file(table, shortlists, device)]
    results += [each for sizes in SIZES for each in scoring(table, sizes, shortlists, device)]
    results += [each for sizes in SIZES for each in training(replace(work, sizes=sizes))]
    results.append(whole_training(table, out / "model", device, minutes))
    write_results(results, out / "paper_model.json")


def from_file_to_file(table: Path, shortlists: Shortlists, device: Device) -> Result:
    """Rows a second of the command; prints the host's share."""
    rows = list(islice(read_lines(table), N_ROWS))
    with TemporaryDirectory() as name:
        network = empty_network(EncDecTrainingConfig(model=PAPER_SIZES), shortlists)
        save_model(Path(name), "encdec", network, PAPER_SIZES, shortlists, {})
        whole = measure_command(rows, Path(name), shortlists, N_JOBS, device)
    print(whole)
    way = f"from file to file, {device}"
    return Result("score, d=1000", way, "none", whole.rows_per_second, None, "rows/s")


def scoring(
    table: Path, sizes: EncDecConfig, shortlists: Shortlists, device: Device
) -> list[Result]:
    """The engine next to peers."""
    source, target = shortlists
    assert source is not None
    network = empty_network(EncDecTrainingConfig(model=sizes), shortlists).eval()
    block_rows = bench_scoring.BLOCK_ROWS
    blocks = list(islice(read_blocks(table, block_rows), N_ROWS // block_rows))
    n_rows = sum(map(len, blocks))
    sample = np.random.default_rng(1).permutation(n_rows)[: PEER_ROWS[device]]
    work = bench_scoring.Work(network, source, target, blocks, sample, device, PEER_BATCH[device])
    peaks = {dtype: bench_scoring.peak(dtype, device) for dtype in (torch.float32, torch.bfloat16)}
    return [on(device, result) for result in bench_scoring.measure(work, peaks)]


def training(work: bench_training.Work) -> Iterator[Result]:
    """Updates next to peers."""
    device = work.conditions.device
    for batch_pairs in UPDATES:
        one = replace(work, conditions=replace(work.conditions, batch_pairs=batch_pairs))
        for result in bench_training.measure(one):
            yield on(device, replace(result, work=f"{result.work}, {batch_pairs} an update"))


def on(device: str, result: Result) -> Result:
    """With the device in the name of the work."""
    return replace(result, work=f"{result.work}, {device}")


def whole_training(table: Path, out: Path, device: Device, minutes: float) -> Result:
    """Minutes until the held-out loss stopped falling."""
    batch_pairs, rate, product_type = WHOLE_TRAINING[device]
    loop = LoopConfig(max_minutes=minutes, learning_rate=rate, product_type=product_type)
    config = EncDecTrainingConfig(model=PAPER_SIZES, batch_pairs=batch_pairs, loop=loop)
    report = train("encdec", Data(table), out, config, resume=True, device=device)
    print(report)
    return Result("train, d=1000", device, "none", 60 * report.minutes, None, "s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), cast(Device, sys.argv[3]), float(sys.argv[4]))
