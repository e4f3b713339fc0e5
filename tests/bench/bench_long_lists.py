"""Memory and speed of `rescorer nbest` on lists of long sentences: 1,000 hypotheses of 200 words a sentence.

Sentences are put together from a parallel text; a hypothesis is the target with words replaced by others, its
first words being those of another one, as in the list of a decoder. Each case is a command of its own.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from results import Result, write_results

from moses_bridge.base.textio import read_lines, write_lines
from rescorer.contract.training import Data, Prepared
from rescorer.models.model_directory import save_model
from rescorer.scorers.rnnsearch import ARCHITECTURE, RnnSearchTrainingConfig

N_WORDS = 200
# Sentences, hypotheses of each, and whether the hypotheses are the sources.
CASES = ((4, 100, False), (1, 1000, False), (4, 1000, False), (1, 1000, True))
PROGRAM = """\
import atexit
from rescorer.cli import main
atexit.register(lambda: print(open("/proc/self/status").read()))
main()
"""


def main(source: Path, target: Path, out: Path) -> None:
    """Measure short and long lists, one sentence and several, and hypotheses that are the sources."""
    torch.set_num_threads(1)
    results = []
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        prepared = ARCHITECTURE.prepare(Data(target, source), RnnSearchTrainingConfig(), 1)
        for n_sentences, n_hypotheses, is_reversed in CASES:
            make_list(source, target, folder, n_sentences, n_hypotheses)
            mib, speed = measured(saved(prepared, is_reversed, folder / "model"), folder)
            sides = "sides reversed" if is_reversed else "sides as they are"
            work = f"{n_sentences} x {n_hypotheses} hypotheses of {N_WORDS} words, {sides}"
            results.append(Result(work, "peak memory", "", mib, None, "MiB"))
            results.append(Result(work, "with start", "", speed, None, "hypotheses/s"))
    write_results(results, out)


def saved(prepared: Prepared, is_reversed: bool, out: Path) -> Path:
    """A network of random weights: neither speed nor memory depends on them."""
    network, settings = (
        prepared.network,
        RnnSearchTrainingConfig(reading="reversed-sides" if is_reversed else "as-is"),
    )
    record = {"config": asdict(settings)}
    save_model(out, "rnnsearch", network, settings.model, prepared.shortlists, record)
    return out


def make_list(
    source: Path, target: Path, folder: Path, n_sentences: int, n_hypotheses: int
) -> None:
    """Write a source text and the n-best list of it."""
    rng = random.Random(1)
    pairs = [long_lines(path, n_sentences) for path in (source, target)]
    write_lines(folder / "source", [b" ".join(words) for words in pairs[0]])
    entries = []
    for number, words in enumerate(pairs[1]):
        hypotheses = [words]
        while len(hypotheses) < n_hypotheses:
            changed = list(rng.choice(hypotheses))
            for _ in range(3):
                changed[rng.randrange(N_WORDS)] = rng.choice(words)
            hypotheses.append(changed)
        entries += [b"%d ||| %s ||| LM0= 0 ||| 0" % (number, b" ".join(h)) for h in hypotheses]
    write_lines(folder / "nbest", entries)


def long_lines(path: Path, n_lines: int) -> list[list[bytes]]:
    """Lines of N_WORDS words."""
    words = [word for line in read_lines(path) for word in line.split()][: n_lines * N_WORDS]
    return [words[first : first + N_WORDS] for first in range(0, len(words), N_WORDS)]


def measured(model: Path, folder: Path) -> tuple[float, float]:
    """Peak memory in MiB, and hypotheses a second, the start of the command included."""
    options = ["--source", folder / "source", "--feature", "NN0", "--out", folder / "scored"]
    arguments = ["nbest", folder / "nbest", "--model", model, *options, "--precision", "bfloat16"]
    command = [sys.executable, "-P", "-c", PROGRAM, *map(str, arguments)]
    start = time.monotonic()
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = time.monotonic() - start
    peak = re.search(r"VmHWM:\s*(\d+) kB", told)
    assert peak
    return int(peak[1]) / 1024, sum(1 for _ in read_lines(folder / "nbest")) / seconds


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
