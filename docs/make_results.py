"""Write the tables of results into README.md and the pages, from docs/results/*.json.

A page names a table between two comments, `<!-- results: NAME -->` and `<!-- end -->`; what stands between them
is made here. `--take BUILD` first takes the results of a finished build into docs/results, reduced to what is
shown and to what says where they come from.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json
from tuning.compare.pooling import fixed_effect

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
PAGES = (DOCS.parent / "README.md", DOCS / "results.md", DOCS / "benchmarks.md")
BLOCK = re.compile(r"<!-- results: ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
LINE_WIDTH = 120  # of a page's prose
NORMAL_95 = 1.96  # standard errors from the middle of a 95% interval to its end

# Where a build has the tables; "*" is part of the name of the result.
TAKEN = {
    "table1": "table1/table.json",
    "controls": "table1/controls/table.json",
    "full": "table1-full/table.json",
    "full-controls": "table1-full/controls/table.json",
    "german": "table1-en-de/table.json",
    "domain-without": "domain/without/table1/domain/table.json",
    "domain-with": "domain/with/table1/domain/table.json",
    "regime-*": "regimes/*/table1/regime/table.json",
    "bench-*": "bench/*.json",
}
# Experiments in which the phrase network's column is added to a baseline, each with a network of its own. The
# regime 60000-pairs is the default table, so it is counted once if both are of the same corpus.
COLUMN_EXPERIMENTS = ("table1", "full", "german", "regime-*")

Json = dict[str, Any]


# --- From a build -----------------------------------------------------------------------------------


def take(build: Path, results: Path) -> list[str]:
    """Write what a build has into a directory of results.

    Returns:
        The names of the results taken.

    Raises:
        InputError: a table does not say how it was made.
    """
    taken = dict(_reduced(build))
    for name, result in taken.items():
        text = json.dumps(result, indent=1, ensure_ascii=False)
        (results / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return [*taken]


def _reduced(build: Path) -> Iterator[tuple[str, Json]]:
    for name, pattern in TAKEN.items():
        before = len(pattern.split("*")[0].split("/")) - 1
        for path in sorted(build.glob(pattern)):
            part = path.relative_to(build).parts[before].removesuffix(".json")
            found = read_json(path)
            if not isinstance(found, dict) or not found.get("made"):
                hint = "make it again with this version"
                raise InputError(path, None, "no key 'made'", "results that say how", hint)
            reduce = _reduced_bench if name.startswith("bench") else _reduced_table
            yield name.replace("*", part), _rounded({"made": found["made"], **reduce(found)})


def _reduced_table(table: Json) -> Json:
    """A table.json without weights, directories and what no page shows."""
    return {
        **{key: table.get(key) for key in ("n_sentences", "n_far", "near_copies", "n_documents")},
        **{key: table[key] for key in ("control", "signature")},
        "rows": [_reduced_row(row) for row in table["rows"]],
    }


def _reduced_row(row: Json) -> Json:
    measures = ("test_bleu", "test_sd", "dev_bleu", "dev_sd", "chrf", "ter", "length_ratio")
    contrasts = ("against_baseline", "against_control")
    counts = ("n_runs", "n_networks")
    runs = [{key: run[key] for key in ("dev_bleu", "test_bleu")} for run in row["runs"]]
    far = row.get("far")
    if far is not None:
        far = {key: far[key] for key in ("test_bleu", "test_sd", *contrasts)}
    named = {key: row[key] for key in ("system", *measures, *contrasts, *counts)}
    return named | {"far": far, "runs": runs}


def _reduced_bench(bench: Json) -> Json:
    return {"results": bench["results"]}


def _rounded(value: Any) -> Any:
    """Numbers to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


# --- Into the pages ---------------------------------------------------------------------------------


def rendered(page: Path, text: str, results: Path = RESULTS) -> str:
    """A page with its tables made anew.

    Args:
        page: its path, for the message of an error.
        text: what it has now.
        results: the directory of results.

    Raises:
        InputError: a table is not known, has no end, or its results are missing.
    """

    def block(match: re.Match[str]) -> str:
        name = match[1]
        if name not in TABLES:
            raise InputError(page, None, f"results: {name}", f"one of {', '.join(TABLES)}")
        return f"<!-- results: {name} -->\n\n{TABLES[name](results)}\n\n<!-- end -->"

    made, n_blocks = BLOCK.subn(block, text)
    if n_blocks != text.count("<!-- results:"):
        raise InputError(page, None, "a table without its end", "<!-- end --> behind each table")
    return made


def _short_table(results: Path) -> str:
    """The default table: each system, its BLEU and what it gains; the same far from the training text."""
    table = _read(results, "table1")
    header: tuple[str, ...] = ("system", "test BLEU", "delta", "95%", "p, Holm")
    sizes = f"{table['n_sentences']:,} test sentences"
    rows = [[row["system"], *_scores(row)] for row in table["rows"]]
    if table.get("n_far"):
        header += ("far: BLEU", "delta", "95%", "p, Holm")
        sizes += f"; far: the {table['n_far']:,} below 0.5 of similarity to any training sentence"
        rows = [
            [*cells, *_scores(row["far"])] for cells, row in zip(rows, table["rows"], strict=True)
        ]
    made = textwrap.fill(f"{_made(table['made'])} {sizes}.", LINE_WIDTH, break_on_hyphens=False)
    return f"{_table(header, rows)}\n\n{made}"


def _scores(row: Json) -> Sequence[str]:
    """BLEU of a row's system, and what it gains."""
    spread = "" if row["test_sd"] is None else f" ({row['test_sd']:.2f})"
    gain = row["against_baseline"]
    bleu = f"{row['test_bleu']:.2f}{spread}"
    if gain is None:
        return bleu, "", "", ""
    p_value = _p_value(gain["corrected_p_value"])
    return bleu, f"{gain['delta']:+.2f}", _interval(gain["interval"]), p_value


def _gains(results: Path) -> str:
    """What gains where: rows of tables, and what stands in the journal alone."""
    header = ("what is added", "how", "where", "gain", "95%", "measured")
    return _table(header, (_gain_row(row, results) for row in _read(results, "gains")["rows"]))


def _gain_row(row: Json, results: Path) -> Sequence[str]:
    start = (row["what"], row["how"], row["where"])
    if row.get("pooled"):
        pooled = pooled_column(results)
        return *start, f"{pooled.mean:+.2f}", _interval(pooled.interval), ""
    if "table" not in row:
        day = f"[{_day(row['date'])}]({row['page']})"
        delta = f"{row['delta']:+.2f}" if "delta" in row else "none"
        return *start, delta, _interval(row.get("interval")), day
    table = _read(results, row["table"])
    gain = _contrast(table, row["system"])
    delta, interval = f"{gain['delta']:+.2f}", _interval(gain["interval"])
    return *start, delta, interval, _day(table["made"]["date"])


class Pooled(NamedTuple):
    """What the phrase network's column gains in the mean over all experiments, weighted by their errors.

    Attributes:
        n_experiments: their number.
        mean: in BLEU.
        interval: its 95% interval.
        q: Cochran's Q of the experiments.
    """

    n_experiments: int
    mean: float
    interval: tuple[float, float]
    q: float


def pooled_column(results: Path = RESULTS) -> Pooled:
    """The pooled gain of the column; equal figures of two experiments are of one that has two names."""
    names = {
        path.stem for pattern in COLUMN_EXPERIMENTS for path in results.glob(f"{pattern}.json")
    }
    found = [_contrast(_read(results, name), "+RNN") for name in names]
    gains = np.array(sorted({(gain["delta"], *gain["interval"]) for gain in found}))
    mean, q = fixed_effect(gains[:, 0], (gains[:, 2] - gains[:, 1]) / (2 * NORMAL_95))
    return Pooled(len(gains), mean.delta, mean.interval, q)


def _pooled(results: Path) -> str:
    """The pooled gain of the column as a sentence."""
    pooled = pooled_column(results)
    gain = f"{pooled.mean:+.2f} BLEU ({_interval(pooled.interval)})"
    q = f"Cochran's Q {pooled.q:.1f} on {pooled.n_experiments - 1} degrees of freedom"
    sentence = f"The {pooled.n_experiments} experiments pooled: {gain}, {q}."
    return textwrap.fill(sentence, LINE_WIDTH, break_on_hyphens=False)


def _benchmarks(results: Path) -> str:
    """Ours against peers, the newest figures of each benchmark."""
    benches = [_read(results, path.stem) for path in sorted(results.glob("bench-*.json"))]
    rows = [
        (*_bench_row(result), bench["made"]["date"])
        for bench in benches
        for result in bench["results"]
        if result["ratio"] is not None
    ]
    return _table(("work", "ours", "peer", "ratio", "date"), rows)


def _bench_row(result: Json) -> Sequence[str]:
    unit = result["unit"]
    return (
        result["work"],
        f"{result['ours']}: {_numbers(result['ours_value'])} {unit}",
        f"{result['peer']}: {_numbers(result['peer_value'])} {unit}",
        _numbers(result["ratio"], 2, " to "),
    )


def _machines(results: Path) -> str:
    """When and on what each benchmark was run."""
    names = [path.stem for path in sorted(results.glob("bench-*.json"))]
    made = {name.removeprefix("bench-"): _read(results, name)["made"] for name in names}
    return "\n".join(f"- {name}: {_made(record)}" for name, record in made.items())


TABLES: Mapping[str, Callable[[Path], str]] = {
    "table1": _short_table,
    "gains": _gains,
    "pooled": _pooled,
    "bench": _benchmarks,
    "bench-machines": _machines,
}


# --- Parts of tables --------------------------------------------------------------------------------


def _read(results: Path, name: str) -> Json:
    result: Json = read_json(results / f"{name}.json")
    return result


def _contrast(table: Json, system: str) -> Json:
    """What a system of a table gains over the first one."""
    for row in table["rows"]:
        if row["system"] == system and row["against_baseline"] is not None:
            found: Json = row["against_baseline"]
            return found
    names = ", ".join(row["system"] for row in table["rows"])
    raise InputError(RESULTS, None, f"no row {system} with a gain", f"one of {names}")


def _made(made: Json) -> str:
    """When, from which source and on what: one sentence."""
    commit = made["commit"] or "not recorded"
    changed = " with changes" if made["changed"] else ""
    machine = f"{made['n_processors']} × {made['processor']}"
    notes = "".join(f", {made[key]}" for key in ("conditions", "copied_from") if made.get(key))
    return f"{_day(made['date'])}, commit {commit}{changed}, {machine}{notes}."


def _table(header: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def _day(date: str) -> str:
    day = datetime.date.fromisoformat(date)
    return f"{day.day} {day:%B %Y}"


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"{ends[0]:+.2f}..{ends[1]:+.2f}"


def _p_value(value: float | str) -> str:
    """A p-value; a text of the journal, such as "<0.0001", as it is."""
    if isinstance(value, str):
        return value
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _numbers(value: float | list[float], digits: int = 3, joined: str = "; ") -> str:
    """One number, or those of several runs, with so many digits; whole from 100 on."""
    each = value if isinstance(value, list) else [value]
    return joined.join(f"{x:,.0f}" if abs(x) >= 100 else f"{x:.{digits}g}" for x in each)


def main() -> None:
    """Take the results of a build if one is named, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=Path, metavar="BUILD", help="a finished build")
    build = parser.parse_args().take
    try:
        for name in take(build, RESULTS) if build else []:
            print(f"taken: {(RESULTS / name).relative_to(DOCS.parent)}.json")
        texts = {page: rendered(page, page.read_text(encoding="utf-8")) for page in PAGES}
    except InputError as error:
        raise SystemExit(f"make_results.py: error: {error}") from error
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
