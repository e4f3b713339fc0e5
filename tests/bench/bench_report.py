"""The page of `tuning report` with 2,000 sentences of five systems: written, and opened in Chromium.

    python bench_report.py SOURCE REFERENCE OUT.json

The translations are the references with a share of their words replaced, so all texts are of real length.
Opened means that tables, sentences and the charts in sight stand there; drawn, that those further down do too.
Times are given as a clock has them and as the processor spent; the second one does not hang on other work.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from playwright.sync_api import sync_playwright
from results import Result, write_results

from moses_bridge.base.textio import read_lines, write_lines
from tuning.compare.translations import output_path
from tuning.loop.run_directory import Iteration, TuningRun, save_run
from tuning.report.page.inputs import ReportInputs
from tuning.report.page.write import write_report

N_SENTENCES, N_SYSTEMS = 2000, 5
BROWSER = "/usr/bin/chromium"
READY = "document.documentElement.dataset.ready === 'true'"
DRAWN = "document.documentElement.dataset.drawn === 'true'"


def make_runs(folder: Path, source: Path, references: list[bytes]) -> list[Path]:
    """Run directories with translations of the text."""
    rng = random.Random(1)
    words = [word for line in references for word in line.split()]
    runs = []
    for number in range(N_SYSTEMS):
        run = folder / f"system{number}"
        run.mkdir()
        weights = {"LM0": [0.5], "TranslationModel0": [0.1, 0.2, 0.3, 0.4]}
        iterations = [Iteration(weights, 30.0 + step, 1.0, 50.0) for step in range(6)]
        save_run(TuningRun("moses.ini", weights, 35.0, 1, 100, {}, [], iterations), run)
        share = 0.4 - 0.05 * number
        lines = [
            b" ".join(rng.choice(words) if rng.random() < share else word for word in line.split())
            for line in references
        ]
        write_lines(output_path(run, source), lines)
        runs.append(run)
    return runs


def open_page(path: Path) -> dict[str, tuple[float, str]]:
    """Seconds until the page is ready and all is drawn, by the clock and of the page's process."""
    measured = {}
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=BROWSER, args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        start = time.perf_counter()
        page.goto(path.as_uri(), wait_until="commit")
        for name, state in {"open": READY, "draw all": DRAWN}.items():
            page.wait_for_function(state)
            measured[f"{name}, clock"] = (time.perf_counter() - start, "s")
            metrics = session.send("Performance.getMetrics")["metrics"]
            used = next(each["value"] for each in metrics if each["name"] == "ProcessTime")
            measured[f"{name}, processor"] = (used, "s")
        browser.close()
    return measured


def main() -> None:
    """Write the page, open it, and record both."""
    source_text, reference_text, out = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, reference = folder / "source", folder / "reference"
        write_lines(source, list(islice(read_lines(source_text), N_SENTENCES)))
        references = list(islice(read_lines(reference_text), N_SENTENCES))
        write_lines(reference, references)
        runs = make_runs(folder, source, references)
        page = folder / "report.html"
        start, used = time.perf_counter(), time.process_time()
        write_report(ReportInputs(runs=runs, source=source, references=[reference]), page)
        written = time.perf_counter() - start, time.process_time() - used
        opened = open_page(page)
        size = page.stat().st_size / 1e6
    text = f"{N_SENTENCES:,} sentences, {N_SYSTEMS} systems"
    measured = {
        "write, clock": (written[0], "s"),
        "write, processor": (written[1], "s"),
        **opened,
        "size": (size, "MB"),
    }
    results = [
        Result(f"report: {text}", name, "-", value, None, unit)
        for name, (value, unit) in measured.items()
    ]
    write_results(results, out)


if __name__ == "__main__":
    main()
