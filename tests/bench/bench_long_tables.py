"""How long and in how much memory `rescorer train` reads a phrase table, until the first batch has its loss.

    python bench_long_tables.py N_ROWS FOLDER OUT.json

The table is made: phrases of 3.6 words in the mean from a million words with a Zipf-like distribution, one row
of ten equal to an earlier one, every second block of a million rows in no order. It takes 20 bytes a
row in FOLDER, which keeps it for the next time, and the rows and pairs on their way to the network some 80 more
in the folder for temporary files.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from results import Result, write_results

from moses_bridge.base.progress import track
from moses_bridge.base.textio import open_write

BLOCK_ROWS = 1_000_000
N_WORDS = 1_000_000
MIN_WORDS, MAX_WORDS = 1, 7
MEAN_WORDS = 3.6
REPEATED = 0.1
KEPT = 100  # one of so many rows may come again
PROGRAM = """\
import sys
from pathlib import Path
from rescorer.contract.architectures import load
from rescorer.contract.training import Data
entry = load("encdec")
prepared = entry.prepare(Data(Path(sys.argv[1])), entry.settings(), 1)
batch = next(iter(prepared.task.batches(0)))
loss, n_words = prepared.task.loss(batch)
print(sum(prepared.task.source.sizes), loss.item() / n_words)
"""


def phrases(rng: np.random.Generator, words: list[bytes], n: int) -> list[bytes]:
    """Random phrases: the k-th word of n is about as frequent as 1 / k."""
    mean = (MEAN_WORDS - MIN_WORDS) / (MAX_WORDS - MIN_WORDS)
    lengths = MIN_WORDS + rng.binomial(MAX_WORDS - MIN_WORDS, mean, n)
    ends = np.cumsum(lengths)
    ids = np.exp(rng.uniform(0, np.log(len(words)), ends[-1])).astype(np.int64)
    text = [words[i] for i in ids.tolist()]
    starts = (ends - lengths).tolist()
    return [b" ".join(text[start:end]) for start, end in zip(starts, ends.tolist(), strict=True)]


def blocks(n_rows: int, seed: int = 1) -> Iterator[list[bytes]]:
    """The rows, some at a time."""
    rng = np.random.default_rng(seed)
    sides = [[b"%b%d" % (letter, i) for i in range(N_WORDS)] for letter in (b"s", b"t")]
    earlier: list[bytes] = []
    for number, start in enumerate(range(0, n_rows, BLOCK_ROWS)):
        n = min(BLOCK_ROWS, n_rows - start)
        rows = [
            b"%b ||| %b ||| 0.5 0.25 0.5 0.125 ||| 0-0 ||| 2 4 1\n" % pair
            for pair in zip(*(phrases(rng, words, n) for words in sides), strict=True)
        ]
        if earlier:
            for place in rng.choice(n, int(REPEATED * n), replace=False).tolist():
                rows[place] = earlier[rng.integers(len(earlier))]
        if number % 2 == 0:
            rows.sort()
        earlier += rows[::KEPT]
        yield rows


def make_table(path: Path, n_rows: int) -> None:
    """Write the table unless it is there."""
    if path.exists():
        return
    n_blocks = -(-n_rows // BLOCK_ROWS)
    with open_write(path) as stream:
        for rows in track(blocks(n_rows), f"make {path.name}", n_blocks, "blocks"):
            stream.writelines(rows)


def main() -> None:
    """Make the table, read it, write the results."""
    n_rows, folder, out = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    table = folder / f"rows-{n_rows}.gz"
    make_table(table, n_rows)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-P", "-c", PROGRAM, str(table)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = sum(used[:2]) - sum(before[:2])
    work = f"a table of {n_rows:,} rows, {int(printed[0]):,} pairs, until the first loss"
    results = [
        Result(work, "clock", "", seconds, None, "s"),
        Result(work, "processor", "", processor, None, "s"),
        Result(work, "highest memory", "", used.ru_maxrss / 1024, None, "MiB"),
    ]
    write_results(results, out)


if __name__ == "__main__":
    main()
