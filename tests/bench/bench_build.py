"""Time and memory of `moses-bridge build` for 1, 3 and 10 times a corpus.

The larger ones are copies of it in which 15 % of the running words are others, drawn from the running words
of the same side; one in fifty of those is a word that is in no other copy. So n-grams, phrase pairs and
vocabulary grow. The settings that say how much is in memory at a time are small, so that each corpus needs
several parts. With word links of the corpus, which are those of its copies too, words are not aligned and the
settings are the default ones.

    bench_build.py CORPUS SOURCE TARGET PAIRS RESULTS.json [LINKS]
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from results import Result, write_results

from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin.build import (
    LANGUAGE_MODEL_NAME,
    LINKS_NAME,
    REORDERING_NAME,
)

COPIES = (1, 3, 10)
CHANGED, NEW = 0.15, 0.02
SEED = 1
POLL_SECONDS = 0.05
SETTINGS = "pairs_at_once = {}\noccurrences_at_once = 65536\nngrams_at_once = 65536\n"
STAGES = {LINKS_NAME: "word links", REORDERING_NAME: "tables", LANGUAGE_MODEL_NAME: "n-grams"}
COMMAND = (sys.executable, "-P", "-c", "from moses_bridge.cli import main; main()", "build")


@dataclass(frozen=True)
class Sample:
    """What the processes of a command have at one time.

    Attributes:
        time: seconds since the epoch.
        resident: memory with mapped files, MiB.
        own: memory that the system cannot take back, MiB.
    """

    time: float
    resident: float
    own: float


def perturbed(lines: list[list[bytes]], copy: int, draw: random.Random) -> list[bytes]:
    """A copy of a text with some other words; copy 0 is the text itself."""
    if copy == 0:
        return [b" ".join(line) for line in lines]
    running = [word for line in lines for word in line]

    def changed(word: bytes) -> bytes:
        if draw.random() >= CHANGED:
            return word
        other = running[int(draw.random() * len(running))]
        return b"%b~%d" % (other, copy) if draw.random() < NEW else other

    return [b" ".join(map(changed, line)) for line in lines]


def write_copies(texts: dict[str, list[list[bytes]]], n_copies: int, prefix: Path) -> int:
    """Write the parallel text PREFIX.LANGUAGE; the number of its running words on both sides."""
    n_words = 0
    for language, lines in texts.items():
        draw = random.Random(SEED)
        rows = [row for copy in range(n_copies) for row in perturbed(lines, copy, draw)]
        n_words += sum(row.count(b" ") + 1 for row in rows)
        write_lines(f"{prefix}.{language}", rows)
    return n_words


def measure(command: list[str]) -> tuple[list[Sample], float]:
    """Run a command; its memory over time, and seconds of the processor."""
    before = os.times()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    samples: list[Sample] = []
    watcher = threading.Thread(target=watch, args=(process.pid, samples))
    watcher.start()
    if process.wait():
        raise SystemExit(f"{command}: status {process.returncode}")
    watcher.join()
    after = os.times()
    used = after.children_user + after.children_system
    return samples, used - before.children_user - before.children_system


def watch(pid: int, samples: list[Sample]) -> None:
    """Look at the memory of a process and its descendants until it ends."""
    while True:
        found = [memory for memory in map(memory_of, family(pid)) if memory is not None]
        if not found:
            return
        resident, own = (sum(column) / 1024 for column in zip(*found, strict=True))
        samples.append(Sample(time.time(), resident, own))
        time.sleep(POLL_SECONDS)


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(other for child in children for other in family(int(child)))]


def memory_of(pid: int) -> tuple[int, int] | None:
    """Resident memory and that without files, KiB; None if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = [re.search(rf"{name}:\s*(\d+) kB", status) for name in ("VmRSS", "RssAnon")]
    return (int(found[0][1]), int(found[1][1])) if found[0] and found[1] else None


def results_of(title: str, samples: list[Sample], processor: float, out: Path) -> list[Result]:
    """Seconds and highest memory of the command and its stages, which end when a file is there."""
    begin, end = samples[0].time, samples[-1].time
    results = [
        Result(title, "processor", "-", processor, None, "s"),
        Result(title, "clock", "-", end - begin, None, "s"),
    ]
    for name, stage in STAGES.items():
        if not (out / name).exists():
            continue
        until = (out / name).stat().st_mtime
        some = [sample for sample in samples if begin <= sample.time <= until]
        begin = until
        results += [
            Result(title, f"{stage}, clock", "-", until - some[0].time, None, "s"),
            Result(title, f"{stage}, own", "-", max(s.own for s in some), None, "MiB"),
            Result(title, f"{stage}, resident", "-", max(s.resident for s in some), None, "MiB"),
        ]
    return results


def main() -> None:
    """Measure and write the results."""
    corpus, source, target, n_pairs, path, *given = sys.argv[1:]
    texts = {
        language: [
            line.split() for line in islice(read_lines(f"{corpus}.{language}"), int(n_pairs))
        ]
        for language in (source, target)
    }
    links = [line for name in given for line in islice(read_lines(name), int(n_pairs))]
    results = []
    with TemporaryDirectory() as name:
        for n_copies in COPIES:
            folder = Path(name) / str(n_copies)
            folder.mkdir()
            n_words = write_copies(texts, n_copies, folder / "train")
            options = ["--corpus", folder / "train", "--out", folder / "model"]
            if links:
                write_lines(folder / "links", links * n_copies)
                options += ["--links", folder / "links"]
            else:
                (folder / "settings.toml").write_text(SETTINGS.format(int(n_pairs) * 4 // 5))
                options += ["--config", folder / "settings.toml"]
            command = [
                *COMMAND,
                "--source-language",
                source,
                "--target-language",
                target,
                *map(str, options),
            ]
            samples, processor = measure(command)
            title = f"build, {n_copies} times, {n_words:,} words"
            results += results_of(title, samples, processor, folder / "model")
    write_results(results, Path(path))


if __name__ == "__main__":
    main()
