"""Tuning runs with translations, and pages made of them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from tuning.compare.systems import CompareConfig, compare
from tuning.compare.translations import output_path
from tuning.loop.run_directory import Iteration, TuningRun, save_run
from tuning.report.page.inputs import ReportInputs
from tuning.report.write import write_comparison

WORDS = [
    "le",
    "fichier",
    "une",
    "liste",
    "de",
    "paquets",
    "pour",
    "installer",
    "serveur",
    "graphique",
    "petit",
]
RIGHT_TO_LEFT = "مرحبا بالعالم"
HOSTILE = [
    "<script>window.hacked = 1</script> <img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked = 2</script> <!-- ",
    '" onclick="window.hacked=3" \' &amp; &lt;b&gt; `${window.hacked=4}` {{ 7*7 }} {% raw %}',
    f"{RIGHT_TO_LEFT} \u202e abc \u2066 x",
    "w" * 10_000,
    "a " * 5_000 + "b",
    "\x00 \x0b \x85 \u2028 \ufeff",
    "",
]
NAME = "+RNN <b>&\"'</b>"


@dataclass(frozen=True)
class Experiment:
    """Files of an experiment that took place on paper only."""

    folder: Path
    source: Path
    reference: Path
    table: Path
    runs: list[Path]

    def inputs(self) -> ReportInputs:
        return ReportInputs(tables=[self.table], source=self.source, references=[self.reference])


def make_experiment(
    folder: Path, names: list[str], n_runs: int, n_sentences: int, hostile: bool
) -> Experiment:
    """Systems whose translations are the reference with some words replaced."""
    rng = random.Random(1)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(n_sentences)]
    if hostile:
        references[: len(HOSTILE)] = HOSTILE
    source, reference = folder / "test.en", folder / "test.fr"
    # TER takes minutes for a line of thousands of words, and for thousands of lines.
    short = folder / "short.fr"
    for path in (source, reference, short):
        _write(path, _shortened(references) if path == short else references)
    systems = {}
    for place, name in enumerate(names):
        systems[name] = [folder / f"system{place}-{number}" for number in range(n_runs)]
        for number, run in enumerate(systems[name]):
            _make_run(run, place, number)
            changed = [_changed(line, 0.3 - 0.04 * place, rng) for line in references]
            if hostile:  # whole, in texts without a changed word and behind one
                changed[: len(HOSTILE)] = [f"petit {line}" if place else line for line in HOSTILE]
            _write(output_path(run, source), changed)
            _write(output_path(run, short), _shortened(changed))
    comparison = compare(systems, short, [short], CompareConfig(n_samples=2))
    write_comparison(comparison, folder / "cmp")
    runs = [run for members in systems.values() for run in members]
    return Experiment(folder, source, reference, folder / "cmp" / "table.json", runs)


def _shortened(lines: list[str]) -> list[str]:
    return [line[:200] for line in lines[:40]]


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), newline="\n")


def _changed(line: str, share: float, rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) if rng.random() < share else word for word in line.split(" "))


def _make_run(run: Path, place: int, number: int) -> None:
    run.mkdir(parents=True)
    iterations = [
        Iteration({"LM0": [0.5], "T0": [0.1 * step, 0.2]}, 30.0 + place + step, 1.0, 50.0)
        for step in (1, 2, 3)
    ]
    decoder = {"stack_size": 100, "neural_lm": []}
    weights = iterations[-1].weights
    save_run(TuningRun(f"{run}/none.ini", weights, 33.0, number, 50, decoder, [], iterations), run)


class Maker:
    """Makes files that a page is made of."""

    @staticmethod
    def network(folder: Path, name: str) -> Path:
        directory = folder / name
        directory.mkdir(parents=True)
        points = [
            {
                "update": 100 * n,
                "epoch": n / 2,
                "minutes": n / 4,
                "training_loss": None if n == 0 else 5 / (n + 1),
                "held_out_loss": 6 / (n + 1),
                "learning_rate": 0.01,
            }
            for n in range(5)
        ]
        (directory / "training.jsonl").write_text(
            "".join(f"{json.dumps(each)}\n" for each in points)
        )
        (directory / "config.json").write_text('{"architecture": "cslm"}')
        return directory

    @staticmethod
    def map(path: Path, n_points: int) -> Path:
        rng = random.Random(2)
        points = [
            {
                "text": HOSTILE[n] if n < 3 else f"phrase {n}",
                "x": rng.gauss(0, 1),
                "y": rng.gauss(0, 1),
                "length": rng.randint(1, 5),
                "frequency": None if n == 3 else rng.randint(1, 1000),
                "counterpart": HOSTILE[n] if n < 3 else f"traduction {n}",
            }
            for n in range(n_points)
        ]
        purity = {"space": "map", "neighbors": "all", "together": "linked word"}
        shares = {"n_points": n_points, "share": 0.25, "chance": 0.03}
        drawn = {"kind": "phrases", "side": "source", "purity": [purity | shares]}
        path.write_text(json.dumps({"format_version": 1, **drawn, "points": points}))
        return path

    @staticmethod
    def scored_table(path: Path, n_rows: int) -> Path:
        rng = random.Random(3)
        path.write_text(
            "".join(
                f"<b>s{n} ||| t{n} ||| 0.1 0.2 {rng.uniform(0.01, 1):.4f} 0.3 {rng.uniform(1e-9, 1):.4g} "
                f"||| 0-0 ||| 5 6 {rng.choice([1, 2, 5, 20, 500])}\n"
                for n in range(n_rows)
            )
        )
        return path

    experiment = staticmethod(make_experiment)


@pytest.fixture(scope="session")
def maker() -> type[Maker]:
    return Maker


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Two systems, a text with all that HTML, JavaScript and templates could stumble over."""
    return make_experiment(tmp_path_factory.mktemp("hostile"), ["Baseline", NAME], 2, 40, True)
