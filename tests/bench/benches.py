"""The benchmarks of `make bench` and its like: scripts of this folder, on files of the default build.

The Makefile says in the environment where these are. Peers that are not on the PATH are left out.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent


def main(goal: str) -> None:
    """Make what a benchmark reads, and run it."""
    build, model, corpus = (Path(os.environ[name]).absolute() for name in ("B", "MODEL", "CORPUS"))
    results = Path(os.environ["BUILD"]).absolute() / "bench"
    source, target = os.environ["SOURCE"], os.environ["TARGET"]
    links = os.environ.get("LINKS") or model / "aligned.grow-diag-final-and.gz"
    filtered, encdec = build / "filtered/phrase-table.gz", build / "encdec"
    dev, train = corpus / f"dev.{source}", [corpus / f"train.{source}", corpus / f"train.{target}"]
    lists = build / "runs/baseline-1/iter01.nbest.gz"
    rows = _given("ROWS", "10000000")

    def bench(name: str, *files: object, more: Sequence[object] = ()) -> None:
        _run(name, *files, results / f"{name}.json", *more)

    match goal:
        case "bench":
            _make("tables/rnn/moses.ini", *_runs("baseline", "cslm", "nnjm"))
            bench("scoring", filtered, encdec)
            bench("generation", filtered, encdec)
            bench("phrase_models", filtered, more=[f"encdec={encdec}"])
            bench("training", filtered)
            searches = [build / name for name in ("runs/cslm-1", "runs/nnjm-1", "cslm", "nnjm")]
            bench("decoding", dev, more=searches)
            bench("window_training", *reversed(train), links)
            bench("sentences", lists, dev, *train)
            for name in ("long_lists", "lookups", "report"):
                bench(name, *train)
            bench("busy_machine", filtered, encdec)
            bench("tuning", lists, corpus / f"dev.{target}")
            bench("tables", model / "phrase-table.gz", more=rows if "ROWS" in os.environ else [])
            bench("extraction", *train, links)
        case "bench-build":
            _make(f"corpus/train.{source}")
            pairs = _given("PAIRS", "10000")
            _run("build", corpus / "train", source, target, *pairs, results / "build.json")
        case "bench-false-positives":
            bench("false_positives")
        case "bench-significance":  # an hour
            bench("false_positives")
            _make("filtered/moses.ini", "runs/start/weights.json")
            texts = [dev, corpus / f"test.{source}", target]
            start = build / "runs/start/weights.json"
            _run("significance", build / "filtered/moses.ini", start, *texts, results / goal[6:])
        case "bench-long-tables":  # 100,000,000 rows take 15 GB of disk
            results.mkdir(parents=True, exist_ok=True)
            _run("long_tables", *rows, results, results / "long_tables.json")
        case "bench-optimizers":
            _make("optimizers/table.json")
        case "bench-nbest-lists":
            _make("tables/rnn/moses.ini")
            bench("nbest_lists", *_given("LISTS", ""), *_given("TEXT", ""), encdec)
        case "bench-pretrained":  # of OPUS-MT's sizes, with random weights; needs the extra ct2
            _make(*_runs("baseline"))
            bench("pretrained", lists, dev, *train)
            bench("lines", dev, corpus / f"dev.{target}", lists)
        case "bench-paper-model":  # needs a GPU: DEVICE=cuda, for eight minutes and MINUTES
            _make("model/moses.ini")
            device, table = _given("DEVICE", "cpu")[0], model / "phrase-table.gz"
            _run("paper_model", table, results, device, *_given("MINUTES", "0"))
            if device == "cuda":
                written = results / f"window_training_{device}.json"
                _run("window_training", *reversed(train), links, written, device)


def _runs(*systems: str) -> list[str]:
    return [f"runs/{name}-1/weights.json" for name in systems]


def _given(name: str, default: str) -> list[str]:
    """The words of a variable."""
    return (os.environ.get(name) or default).split()


def _make(*files: str) -> None:
    goals = [word for name in files for word in ("--goal", name)]
    command = [*shlex.split(os.environ["RUN"]), "--out", os.environ["B"], *goals]
    subprocess.run(command, check=True)


def _run(name: str, *arguments: object) -> None:
    command = [sys.executable, f"bench_{name}.py", *map(str, arguments)]
    print(shlex.join(command), flush=True)
    subprocess.run(command, cwd=FOLDER, check=True)


if __name__ == "__main__":
    main(sys.argv[1])
