"""How often systems without a true difference are called different: real tunings of columns of noise.

Each of some columns of noise, and the table without one, is tuned with some seeds on the first sentences of the
dev text; then tunings of one column are compared with others of it, columns with columns, and groups of
three columns, one tuning each, with other groups. Comparisons share runs, so there are fewer than it looks.
Runs that are there are taken as they are, so an interrupted call can be repeated.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.decoding.interface import DecoderConfig
from tuning.compare.significance import compare_outputs
from tuning.compare.system_outputs import SystemOutputs
from tuning.compare.translations import translate_all
from tuning.loop.fingerprints import ParallelText
from tuning.loop.run_directory import load_run
from tuning.loop.settings import TuningConfig
from tuning.loop.tuning_loop import TunedSystem, tune
from tuning.metrics.bleu import References, Statistics
from tuning.optimisers.contract import MertConfig, OptimizerConfig

N_DEV, N_TEST = 200, 400
N_TUNINGS = 8
COLUMNS = range(9)  # 0 stands for the table without a column of noise
CONFIG = TuningConfig(
    optimizer="mert",
    keep="best",
    nbest_size=50,
    max_iterations=5,
    patience=2,
    start_spread=0.3,
    search=OptimizerConfig(mert=MertConfig(n_restarts=6, n_directions=4)),
    decoder=DecoderConfig(stack_size=50, pop_limit=100),
)

Outputs = dict[tuple[int, int], Statistics]
Pair = tuple[SystemOutputs, SystemOutputs]


def main(ini: Path, start: Path, dev: Path, test: Path, target: str, out: Path) -> None:
    """Tune, compare, and print what share of p-values is below 0.05.

    Args:
        ini: the moses.ini.
        start: weights around which the runs start.
        dev: dev source text; the reference has the suffix `target`.
        test: test source text.
        target: suffix of the references.
        out: directory for the runs and calibration.json.
    """
    out.mkdir(parents=True, exist_ok=True)
    for text, n_lines in ((dev, N_DEV), (test, N_TEST)):
        for path in (text, text.with_suffix(f".{target}")):
            write_lines(out / path.name, list(read_lines(path))[:n_lines])
    dev, test = out / dev.name, out / test.name
    references = References.read([test.with_suffix(f".{target}")], test)
    outputs: Outputs = {}
    for column in COLUMNS:
        own_ini = _with_noise(ini, column, out) if column else ini
        for seed in range(1, N_TUNINGS + 1):
            run = out / f"noise{column}-{seed}"
            texts = dev, [dev.with_suffix(f".{target}")]
            system = TunedSystem(own_ini, init_weights=start)
            tune(system, ParallelText(*texts), run, CONFIG, seed, resume=True)
            translated = translate_all({run: load_run(run)}, test, jobs=1)
            outputs[column, seed] = references.output_statistics(translated[run])
    kinds = {
        "three tunings of a column and three others of it": _of_one_column(outputs),
        "three tunings of a column of noise and three of another": _of_two_columns(outputs),
        "three columns of noise, one tuning each, and three others": _of_groups(outputs),
    }
    shares = {kind: _shares(pairs) for kind, pairs in kinds.items()}
    (out / "calibration.json").write_text(json.dumps(shares, indent=1) + "\n")
    print(json.dumps(shares, indent=1))


def _with_noise(ini: Path, seed: int, out: Path) -> Path:
    """The ini of the table with a column of noise."""
    folder = out / f"table{seed}"
    if not (folder / "moses.ini").exists():
        rescorer = str(Path(sys.executable).with_name("rescorer"))
        table = [str(ini.with_name("phrase-table.gz")), "--out", str(folder / "phrase-table.gz")]
        inis = ["--ini", str(ini), "--ini-out", str(folder / "moses.ini")]
        noise = ["--control", "random", "--seed", str(seed)]
        subprocess.run([rescorer, "score", *table, *inis, *noise], check=True)
    return folder / "moses.ini"


def _of_one_column(outputs: Outputs) -> Iterator[Pair]:
    for column in COLUMNS:
        for first, second in _splits():
            yield _system(outputs, column, first), _system(outputs, column, second)


def _of_two_columns(outputs: Outputs) -> Iterator[Pair]:
    for column, other in combinations(COLUMNS[1:], 2):
        for first, second in list(_splits())[::20]:
            yield _system(outputs, column, first), _system(outputs, other, second)


def _of_groups(outputs: Outputs) -> Iterator[Pair]:
    rng = np.random.default_rng(1)
    for first in combinations(COLUMNS[1:], 3):
        for second in combinations(sorted(set(COLUMNS[1:]) - set(first)), 3):
            if first < second:
                seeds = 1 + rng.permutation(N_TUNINGS)[:6]
                yield _group(outputs, first, seeds[:3]), _group(outputs, second, seeds[3:])


def _splits() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Two groups of three seeds without a common one."""
    seeds = range(1, N_TUNINGS + 1)
    for first in combinations(seeds, 3):
        for second in combinations(sorted(set(seeds) - set(first)), 3):
            if first < second:
                yield first, second


def _system(outputs: Outputs, column: int, seeds: Iterable[int]) -> SystemOutputs:
    runs = [outputs[column, seed] for seed in seeds]
    return SystemOutputs(np.array(runs), [0] * len(runs))


def _group(outputs: Outputs, columns: Iterable[int], seeds: Iterable[int]) -> SystemOutputs:
    runs = [outputs[column, int(seed)] for column, seed in zip(columns, seeds, strict=True)]
    return SystemOutputs(np.array(runs), range(len(runs)))


def _shares(pairs: Iterable[Pair]) -> dict[str, float]:
    differences = [compare_outputs(*pair) for pair in pairs]
    p_values = np.array([difference.p_value for difference in differences])
    return {
        "comparisons": len(p_values),
        "p < 0.05": float((p_values < 0.05).mean()),
        "p < 0.1": float((p_values < 0.1).mean()),
        "smallest found, median": float(np.median([each.smallest_found for each in differences])),
    }


if __name__ == "__main__":
    ini, start, dev, test = map(Path, sys.argv[1:5])
    main(ini, start, dev, test, sys.argv[5], Path(sys.argv[6]))
