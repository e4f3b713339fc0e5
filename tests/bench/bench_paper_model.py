"""Networks of two sizes on a GPU, next to plain PyTorch there: eight minutes, and everything as JSON.

First scores in tiles are compared with a CPU's, and with themselves; nothing is measured if they differ. Then
scoring and training stand next to the peers of `bench_scoring` and `bench_training`, in turn on the same
device, beside them `rescorer score` from file to file with random weights, on which speed does not depend, and
the share of the time in which the GPU computes. With minutes above 0 a whole training follows, until the
held-out loss stops falling or the minutes are over; the loss against time stands in OUT/model/training.jsonl.
With the device "cpu" the same runs in small: a rehearsal, which scores in tiles as a GPU does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

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
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Device, Precision
from rescorer.contract.compute import Compute, repeatable_sums
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists
from rescorer.models.model_directory import save_model
from rescorer.runs.train import train
from rescorer.scorers.encdec import EncDecConfig, EncDecScorer, EncDecTrainingConfig, empty_network
from rescorer.training.loop_config import LoopConfig
from rescorer.tries.phrase_pairs import pair_losses
from rescorer.tries.settings import GPU_PAIRS
from rescorer.tries.task import TrieTask
from rescorer.tries.tiles import Tiles


@dataclass(frozen=True)
class Amount:
    """How much is measured on a device.

    Attributes:
        rows: that ours scores.
        peer_rows: that each peer scores.
        checked_rows: whose scores are compared.
        peer_batch: what a peer gains by larger batches it shall have.
        updates: pairs of an update, of each training.
        conditions: of each training.
        profiled_updates: of a training, in which the GPU's time is measured.
        rounds: of scoring, all ways in turn.
    """

    rows: int
    peer_rows: int
    checked_rows: int
    peer_batch: int
    updates: tuple[int, ...]
    conditions: bench_training.Conditions
    profiled_updates: int
    rounds: int


REHEARSAL = bench_training.Conditions("cpu", 64, 2.0, 2.0, 1.0, 1.0)
AMOUNTS: dict[Device, Amount] = {
    "cpu": Amount(512, 32, 100, 16, (64,), REHEARSAL, 2, rounds=1),
    "cuda": Amount(262_144, 65_536, 3_000, 4096, (GPU_PAIRS,), bench_training.ON_GPU, 20, rounds=5),
}
N_JOBS = n_processors()
SIZES = (EncDecTrainingConfig().model, PAPER_SIZES)
# Nats between a score in tiles and a CPU's in float32: the largest, and in bfloat16 the mean.
LARGEST_DIFFERENCE: dict[Precision, float] = {"float32": 2e-3, "bfloat16": 0.2}


def main(table: Path, out: Path, device: Device, minutes: float) -> None:
    """Compare and measure all on the rows of a table."""
    amount = AMOUNTS[device]
    work = bench_training.work_of(table, PAPER_SIZES)
    shortlists, results = work.words.shortlists, list[Result]()
    for sizes in SIZES:
        results += comparison(table, sizes, shortlists, device)
    for sizes in SIZES:
        results += scoring(table, sizes, shortlists, device)
        write_results(
            results, out / "paper_model.json"
        )  # so much is there if the device is taken away
    results.append(from_file_to_file(table, shortlists, device))
    for sizes in SIZES:
        results += training(replace(work, sizes=sizes, conditions=amount.conditions))
        write_results(results, out / "paper_model.json")
    if minutes:
        results.append(whole_training(table, out / "model", device, minutes))
        write_results(results, out / "paper_model.json")


def scorer_of(
    sizes: EncDecConfig, shortlists: Shortlists, device: Device, precision: Precision, tiles: bool
) -> EncDecScorer:
    """Ours with random weights, always the same ones; a CPU scores in tiles if it is asked to."""
    torch.manual_seed(bench_training.SEED)
    network = empty_network(EncDecTrainingConfig(model=sizes), shortlists)
    network.initialise(None)
    source, target = shortlists
    assert source is not None
    work = bench_scoring.Work(network.eval(), source, target, [], np.empty(0, np.int64), device)
    scorer = bench_scoring.scorer_of(work, Compute(precision, device))
    if tiles and scorer.tiles is None:
        scorer.tiles = Tiles(scorer.network, scorer.layer)
    return scorer


def comparison(
    table: Path, sizes: EncDecConfig, shortlists: Shortlists, device: Device
) -> Iterator[Result]:
    """Scores in tiles next to a CPU's; ends the program if they differ by more than rounding."""
    blocks = list(islice(read_blocks(table, 1000), 3))
    rows = [pair for b in blocks for pair in zip(b.sources, b.targets, strict=True)]
    rows = rows[: AMOUNTS[device].checked_rows]
    batch = Batch([source for source, _ in rows], [target for _, target in rows])
    expected = scorer_of(sizes, shortlists, "cpu", "float32", tiles=False).values(batch)
    for precision, largest in LARGEST_DIFFERENCE.items():
        scorer = scorer_of(sizes, shortlists, device, precision, tiles=True)
        found, again = scorer.values(batch), scorer.values(batch)
        difference = np.abs(found - expected)
        worst = float(difference.max() if precision == "float32" else difference.mean())
        if not worst <= largest or found.tobytes() != again.tobytes():
            sys.exit(f"tiles are wrong on {device} in {precision}: {worst:.3g} nats")
        title = f"score phrase pairs, d={sizes.hidden_width}, tiles, {device}"
        kind = "largest" if precision == "float32" else "mean"
        yield Result(title, f"{precision}, {kind} difference", "CPU, float32", worst, None, "nats")


def from_file_to_file(table: Path, shortlists: Shortlists, device: Device) -> Result:
    """Rows a second of the command; prints the host's share."""
    rows = list(islice(read_lines(table), AMOUNTS[device].rows))
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
    """The engine next to peers, and the share of the time in which the GPU computes."""
    source, target = shortlists
    assert source is not None
    network = empty_network(EncDecTrainingConfig(model=sizes), shortlists).eval()
    amount = AMOUNTS[device]
    block_rows = min(amount.rows, bench_scoring.BLOCK_ROWS)
    blocks = list(islice(read_blocks(table, block_rows), amount.rows // block_rows))
    n_rows = sum(map(len, blocks))
    sample = np.random.default_rng(1).permutation(n_rows)[: amount.peer_rows]
    work = bench_scoring.Work(network, source, target, blocks, sample, device, amount.peer_batch)
    peaks = dict.fromkeys([torch.float32, torch.bfloat16], np.nan)  # none in a rehearsal
    if device == "cuda":
        peaks = {dtype: bench_scoring.peak(dtype, device) for dtype in peaks}
    measured = bench_scoring.measure(work, peaks, amount.rounds)
    results = [on(device, result) for result in measured]
    for name, _, scorer in bench_scoring.scorers(work)[:2]:
        results.append(
            busy(f"{work.title}, {device}", name, partial(bench_scoring.timed, work, scorer))
        )
    return results


def training(work: bench_training.Work) -> Iterator[Result]:
    """Updates next to peers, and the share of the time in which the GPU computes."""
    device = cast(Device, work.conditions.device)
    for batch_pairs in AMOUNTS[device].updates:
        one = replace(work, conditions=replace(work.conditions, batch_pairs=batch_pairs))
        for result in bench_training.measure(one):
            yield on(device, replace(result, work=f"{result.work}, {batch_pairs} an update"))
        title = f"{work.title}, {batch_pairs} an update, {device}"
        yield busy(title, "tries, float32", updates(one, AMOUNTS[device].profiled_updates))


def updates(work: bench_training.Work, n_updates: int) -> Callable[[], None]:
    """Some updates of ours, after one in which kernels are chosen."""
    network = work.network()
    task = TrieTask(work.source(), pair_losses(network, work.config("float32"), work.words))
    optimizer = torch.optim.Adam(network.parameters(), fused=True)

    def run(n_updates: int) -> None:
        with repeatable_sums(torch.device(work.conditions.device)):
            for batch in islice(bench_training.endless(task), n_updates):
                bench_training.update(network, optimizer, *task.loss(batch))

    run(1)
    return partial(run, n_updates)


def busy(title: str, ours: str, compute: Callable[[], object]) -> Result:
    """The share of a computation's time in which the GPU computes, of a CPU 0; prints the longest kernels."""
    from torch.profiler import ProfilerActivity, profile

    compute()  # graphs are captured
    on_gpu = torch.cuda.is_available()
    kinds = [ProfilerActivity.CUDA] if on_gpu else [ProfilerActivity.CPU]
    with profile(activities=kinds) as profiler:
        started = time.perf_counter()
        compute()
        if on_gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
    kernels = [event for event in profiler.events() if event.device_type.name == "CUDA"]
    busy_seconds, end = 0.0, 0.0
    for event in sorted(kernels, key=lambda one: one.time_range.start):
        last = max(end, event.time_range.end)
        busy_seconds += (last - max(end, event.time_range.start)) / 1e6
        end = last
    print(f"{title}, {ours}: {len(kernels):,} kernels, busy {busy_seconds:.2f} of {seconds:.2f} s")
    order = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    print(profiler.key_averages().table(sort_by=order, row_limit=12, max_name_column_width=60))
    return Result(title, ours, "none", busy_seconds / seconds, None, "of the time a GPU is busy")


def on(device: str, result: Result) -> Result:
    """With the device in the name of the work."""
    return replace(result, work=f"{result.work}, {device}")


def whole_training(table: Path, out: Path, device: Device, minutes: float) -> Result:
    """Minutes until the held-out loss stopped falling."""
    config = EncDecTrainingConfig(model=PAPER_SIZES, loop=LoopConfig(learning_rate=2e-3))
    if device == "cuda":
        config = replace(EncDecTrainingConfig.of_gpu(), model=PAPER_SIZES)
    config = replace(config, loop=replace(config.loop, n_epochs=0, max_minutes=minutes))
    report = train("encdec", Data(table), out, config, resume=True, device=device)
    print(report)
    return Result("train, d=1000", device, "none", 60 * report.minutes, None, "s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), cast(Device, sys.argv[3]), float(sys.argv[4]))
