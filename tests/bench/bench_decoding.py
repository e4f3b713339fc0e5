"""Words a second of the built-in decoder, one process, loading and compilation left out.

The peer is `moses` on the same lines. For the stored system of a Moses run (MOSES_GOLDEN) the speed of
that run stands beside it where `moses` is not installed. With a neural model in the search,
the peer is the search without it. What the first lines ask of a model is remembered, so other lines are timed
than those that compile and load. As in a tuning, lines are also translated again, by one process and by two.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from golden import GOLDEN
from results import Result, write_results

from moses_bridge.base.choices import DecoderKind
from moses_bridge.base.programs import find_program
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig, Weights
from moses_bridge.formats.weights import read_weights

N_FIRST_LINES, N_LINES, N_ROUNDS = 200, 800, 3
# Neural models and how they are asked: the CSLM for exact values, the NNJM for raw ones.
SERVICES = {"CSLM0": "", "NNJM0": " --unnormalized"}
RESCORER = Path(sys.executable).with_name("rescorer")
STACK, POP_LIMIT = 200, 400


@dataclass(frozen=True)
class Work:
    """A system, a text, lines translated before it, which compile and load, and weights."""

    ini: Path
    first_lines: Path
    source: Path
    weights: Weights | None = None

    def words_per_second(self, options: DecoderConfig, jobs: int = 1) -> float:
        """Speed on the text."""
        n_words = sum(len(line.split()) for line in read_lines(self.source))
        with TemporaryDirectory() as folder, open_decoder(self.ini, options, jobs) as decoder:
            decoder.decode(self.first_lines, Path(folder) / "first", self.weights, None, 1)
            started = time.perf_counter()
            decoder.decode(self.source, Path(folder) / "second", self.weights, None, 1)
            return n_words / (time.perf_counter() - started)


def speeds_in_turn(*runs: tuple[Work, DecoderConfig, int]) -> list[float]:
    """The median speed of each, measured in turn, since a machine has slow and fast minutes."""
    rounds = [
        [work.words_per_second(options, jobs) for work, options, jobs in runs]
        for _ in range(N_ROUNDS)
    ]
    return [median(speeds) for speeds in zip(*rounds, strict=True)]


def next_to_moses(work: Work, title: str, stored: float | None) -> Result:
    """The search against `moses`, or against a stored speed of it."""
    (ours,) = speeds_in_turn((work, _options("builtin"), 1))
    theirs = work.words_per_second(_options("moses")) if find_program("moses") else stored
    return Result(title, "built-in, 1 process", "moses", ours, theirs, "words/s")


def with_neural_model(work: Work, name: str, service: str) -> Result:
    """The search with a neural model against that without."""
    assert work.weights
    base = {feature: value for feature, value in work.weights.items() if feature != name}
    neural, plain = speeds_in_turn(
        (work, _options("builtin", f"{name}={service}"), 1),
        (replace(work, weights=base), _options("builtin"), 1),
    )
    title = f"decode {N_LINES} lines, {name} in the search"
    shown = " ".join(Path(word).name for word in service.split())
    return Result(title, shown, "the search without it", neural, plain, "words/s")


def again_by_two(work: Work, name: str, service: str) -> Result:
    """Translating a text again by two processes against one."""
    again = replace(work, first_lines=work.source)
    options = _options("builtin", f"{name}={service}")
    one, two = speeds_in_turn((again, options, 1), (again, options, 2))
    title = f"decode {N_LINES} lines again, {name} in the search"
    return Result(title, "two processes", "one process", two, one, "words/s")


def _options(kind: DecoderKind, neural_lm: str | tuple[str, ...] = ()) -> DecoderConfig:
    return DecoderConfig(STACK, POP_LIMIT, neural_lm=neural_lm, kind=kind)


def stored_speed(folder: Path) -> float:
    """Words a second of Moses at the same stack and pop limit."""
    lines = (folder / "timing.txt").read_text().splitlines()
    line = next(line for line in lines if f"pop limit {POP_LIMIT}, stack {STACK}" in line)
    found = re.search(r"(\d+) words/s", line)
    assert found, line
    return float(found[1])


def main(source: Path, out: Path, runs: Sequence[Path], models: Sequence[str]) -> None:
    """Measure on lines of a text, with the systems and the weights of tuning runs.

    Args:
        source: the text.
        out: results.
        runs: a run directory for each of SERVICES.
        models: as many model directories.
    """
    settings = f"stack {STACK}, pop limit {POP_LIMIT}"
    with TemporaryDirectory() as folder:
        first_lines, lines = Path(folder) / "first", Path(folder) / "source"
        text = list(read_lines(source))
        write_lines(first_lines, text[:N_FIRST_LINES])
        write_lines(lines, text[N_FIRST_LINES : N_FIRST_LINES + N_LINES])
        plain = Work(runs[0] / "moses.ini", first_lines, lines)
        results = [next_to_moses(plain, f"decode {N_LINES} lines, {settings}", None)]
        for (name, options), run, model in zip(SERVICES.items(), runs, models, strict=True):
            work = Work(run / "moses.ini", first_lines, lines, read_weights(run / "weights.json"))
            for precision in ("float32", "bfloat16"):
                service = f"{RESCORER} serve {model} --precision {precision}{options}"
                results.append(with_neural_model(work, name, service))
            results.append(again_by_two(work, name, service))
    if (golden := GOLDEN / "decode").is_dir():
        # Without a model nothing is remembered, and the stored speed is that of all lines.
        stored = Work(golden / "moses.ini", golden / "input.en", golden / "input.en")
        title = f"decode the lines of a Moses run, {settings}"
        results.append(next_to_moses(stored, title, stored_speed(golden)))
    write_results(results, out)


if __name__ == "__main__":
    text, results_file, *rest = sys.argv[1:]
    folders = [Path(argument) for argument in rest[: len(SERVICES)]]
    main(Path(text), Path(results_file), folders, rest[len(SERVICES) :])
