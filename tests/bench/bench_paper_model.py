"""The paper's model (d=1000) on a GPU: `rescorer score` from file to file, and a whole training.

Scoring is with random weights, on which speed does not depend. Training goes on until the held-out loss
stops falling or the minutes are over; the loss against time stands in OUT/model/training.jsonl. With the
device "cpu" the same runs on any machine, slowly.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from paper_sizes import PAPER_SIZES
from results import Result, write_results
from whole_command import measure_command

from moses_bridge.base.processors import n_processors
from moses_bridge.base.textio import read_lines
from rescorer.contract.data import Data
from rescorer.models.model_directory import save_model
from rescorer.runs.train import train
from rescorer.scorers.encdec.task import EncDecTrainingConfig, empty_network
from rescorer.training.loop import LoopConfig
from rescorer.training.pairs.pair_pools import open_pairs
from rescorer.training.shortlists import choose_shortlists

N_ROWS = 262_144
N_JOBS = n_processors()


def main(table: Path, out: Path, device: str, minutes: float) -> None:
    """Measure scoring and training on the rows of a table."""
    results = [scoring(table, device), training(table, out / "model", device, minutes)]
    write_results(results, out / "paper_model.json")


def scoring(table: Path, device: str) -> Result:
    """Rows a second from file to file; prints the host's share."""
    config = EncDecTrainingConfig()
    pairs = open_pairs(table, config.choice, config.pool_pairs)
    n_words = EncDecTrainingConfig.shortlist
    shortlists = choose_shortlists(pairs.word_counts(), n_words, 0.0).shortlists
    rows = list(islice(read_lines(table), N_ROWS))
    with TemporaryDirectory() as name:
        network = empty_network(EncDecTrainingConfig(model=PAPER_SIZES), shortlists)
        save_model(Path(name), "encdec", network, PAPER_SIZES, shortlists, {})
        whole = measure_command(rows, Path(name), shortlists, N_JOBS, device)
    print(whole)
    way = f"from file to file, {device}"
    return Result("score, d=1000", way, "none", whole.rows_per_second, None, "rows/s")


def training(table: Path, out: Path, device: str, minutes: float) -> Result:
    """Minutes until the held-out loss stopped falling."""
    loop = LoopConfig(max_minutes=minutes, product_type="fastest")
    config = EncDecTrainingConfig(model=PAPER_SIZES, loop=loop)
    report = train("encdec", Data(table), out, config, resume=True, device=device)
    print(report)
    return Result("train, d=1000", device, "none", 60 * report.minutes, None, "s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
