"""Write the tables of results into README.md and the pages, and pictures of gains, from docs/results/*.json.

A page names a table between two comments, `<!-- results: NAME -->` and `<!-- end -->`; the text between them
is made here. `--take BUILD` first takes the results of a finished build into docs/results, reduced to the
figures shown and to the record of how they were made.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json
from tuning.compare.gains import fixed_effect

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
README = DOCS.parent / "README.md"
PAGES = (README, *(DOCS / name for name in ("results.md", "paper.md", "benchmarks.md", "which.md")))
PICTURE, FORETOLD = (DOCS / "images" / f"{name}.svg" for name in ("gains", "foretold"))
BLOCK = re.compile(r"<!-- results: ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
LINE_WIDTH = 120  # of a page's prose
NORMAL_95 = (
    1.96  # standard errors from the middle of a 95% interval to its end, if nothing more is known
)

# Where a build has the tables; "*" is part of the name of the result.
TAKEN = {
    "table1": "table1/table.json",
    "networks": "networks/table1/networks/table.json",
    "controls": "table1/controls/table.json",
    "home": "table1/home/table.json",
    "full": "table1-full/table.json",
    "full-home": "table1-full/home/table.json",
    "full-controls": "table1-full/controls/table.json",
    "full-second-nnjm": "table1-full/second-nnjm/table.json",
    "full-on-lists": "table1-full/on-lists/table.json",
    "full-reranking": "table1-full/reranking/table.json",
    "german": "table1-en-de/table.json",
    "german-home": "table1-en-de/home/table.json",
    "german-best": "best/table1-en-de/best/table.json",
    "german-full": "table1-full-en-de/one-rnnsearch/table.json",
    "german-full-home": "table1-full-en-de/home/table.json",
    "ways-*": "domain/*/ways/table.json",
    "domain-*": "domain/*/columns/table.json",
    "nnjm-*": "domain/*/nnjm/table.json",
    "best": "best/table1/best/table.json",
    "full-best": "best/table1-full/best/table.json",
    "*": "paper/paper*/table.json",
    "bench-*": "bench/*.json",
}
# Experiments that add the phrase network's column to a baseline, each with a network of its own. The
# regime 60000-pairs is the default table, so it is counted once if both are of the same corpus.
COLUMN_EXPERIMENTS = ("table1", "full", "german", "regime-*", "paper", "paper-other-domain")
# The paper's own setting, and how it was varied.
PAPER_SETTINGS = {
    "paper": "batch MIRA",
    "paper-mert": "MERT",
    "paper-no-lexical": "without lexical weights",
    "paper-other-domain": "table of another domain",
    "paper-over-cslm": "over a CSLM",
    "paper-mert-over-cslm": "over a CSLM, MERT",
}
# How its rows end, and their headings.
PAPER_COLUMNS = {"RNN": "+RNN, Adam", "Adadelta": "+RNN, Adadelta", "columns": "noise"}
# Tables shown with all their rows.
WHOLE = ("table1", "full-home", "full-best")
# The rows of the README's table: what one score gains, and two of them together.
SHORT = ("+RNN", "+RNN for BLEU", "+CSLM", "+NNJM", "+CSLM+NNJM")
# The columns of the overview of gains: places of gains.json, and how they are headed.
PLACES = {
    "default": "default",
    "all the data": "all the data",
    "English to German": "English to German",
    "all the data, English to German": "English to German, all the data",
    "other domain": "other domain",
    "other domain, its sentences in the table": "the same, its sentences in the table",
}
# Benchmarks that the costs of large tables and texts are computed from: how the work begins, and our way of it.
TRAINING_RATES = {
    "256": ("train on phrase pairs, d=256", "tries, bfloat16"),
    "1,000": ("train on phrase pairs, d=1000", "tries, bfloat16"),
}
SCORING_RATES = {
    "192": ("score phrase pairs, d=192", "tries, float32"),
    "1,000": ("score phrase pairs, d=1000", "tries, float32"),
}
POOLED_SIZES = (250, 1000, 4000, 16000)  # pairs of another domain, in each of three domains
TABLE_ROWS = (1_000_000, 10_000_000, 100_000_000)
PASSES = 2  # over the distinct pairs
# Ways of our own that some benchmarks compare with; they are no peers.
OURS_TOO = ("not piped", "network alone", "alone")
# Left to docs/results: other networks and sizes, second decodings, and the GPU, which the page's text has.
NOT_SHOWN = re.compile("one hidden layer|20,000 at once|unnormalised|lines again|cuda")

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


def _first_table(results: Path) -> str:
    """A few rows of the default table."""
    table = _read(results, "table1")
    baseline, *others = table["rows"]
    rows = [baseline, *(row for row in others if row["system"] in SHORT)]
    return _rows_of(table, rows)


def _whole_table(name: str, results: Path) -> str:
    """A table: each system, its BLEU and what it gains; the same far from the training text."""
    table = _read(results, name)
    return _rows_of(table, table["rows"])


def _domains(results: Path) -> str:
    """The gains of columns and networks over the best use of a domain's text, pooled over domains, by size."""
    header = ("added", *(f"{size:,} pairs" for size in POOLED_SIZES))
    rows = []
    for kind in ("domain", "nnjm"):
        tables = _tables(results, f"{kind}-*-*")
        for system in min(map(_systems, tables.values()), key=len)[1:]:
            of_sizes = (
                [table for name, table in tables.items() if name.endswith(f"-{size}")]
                for size in POOLED_SIZES
            )
            rows.append((system, *(_pooled_gain(each, system) for each in of_sizes)))
    return _table(header, rows)


def _systems(table: Json) -> list[str]:
    return [row["system"] for row in table["rows"]]


def _tables(results: Path, pattern: str) -> dict[str, Json]:
    """The tables of a pattern by the rest of their names after the first word."""
    paths = sorted(results.glob(f"{pattern}.json"))
    return {path.stem.partition("-")[2]: _read(results, path.stem) for path in paths}


def _pooled_gain(tables: Sequence[Json], system: str) -> str:
    pooled = _pool([_contrast(table, system) for table in tables])
    return f"{pooled.mean:+.2f} ({_interval(pooled.interval)})"


def _rows_of(table: Json, shown: Sequence[Json]) -> str:
    header: tuple[str, ...] = ("system", "test BLEU", "gain (95%)", "p, Holm")
    sizes = f"{table['n_sentences']:,} test sentences"
    rows = [[row["system"], _bleu(row), *_gain(row)] for row in shown]
    if table.get("n_far"):
        header += ("far: gain (95%)",)
        sizes += f", {table['n_far']:,} of them far"
        rows = [[*cells, _gain(row["far"])[0]] for cells, row in zip(rows, shown, strict=True)]
    made = textwrap.fill(f"{_made(table['made'])} {sizes}.", LINE_WIDTH, break_on_hyphens=False)
    return f"{_table(header, rows)}\n\n{made}"


def _bleu(row: Json) -> str:
    """BLEU of a row, and its standard deviation over runs."""
    spread = "" if row["test_sd"] is None else f" ({row['test_sd']:.2f})"
    return f"{row['test_bleu']:.2f}{spread}"


def _gain(row: Json) -> tuple[str, str]:
    """The gain of a row over the baseline with its interval, and the corrected p-value."""
    gain = row["against_baseline"]
    if gain is None:
        return "", ""
    return _with_interval(gain), _p_value(gain["corrected_p_value"])


def _with_interval(gain: Json) -> str:
    return f"{gain['delta']:+.2f} ({_interval(gain['interval'])})"


def _gains_by_place(results: Path) -> str:
    """The gain of each score, one column for each place; rows over another system are left out."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    name = ""
    for row in _read(results, "gains")["rows"]:
        name = name if row["what"] == "the same" else row["what"].split(" (")[0]
        if row["where"] in PLACES and row["how"] != "in the table":
            gain = row if "delta" in row else _contrast(_read(results, row["table"]), row["system"])
            cells.setdefault((name, row["how"]), {})[row["where"]] = _with_interval(gain)
    header = ("score", "how it is used", *PLACES.values())
    rows = [(*key, *(found.get(place, "") for place in PLACES)) for key, found in cells.items()]
    return _table(header, rows)


def _paper(results: Path) -> str:
    """What the column gains in the paper's own setting: a row for each way of tuning, table or baseline."""
    rows = []
    for name, setting in PAPER_SETTINGS.items():
        baseline, *others = _read(results, name)["rows"]
        # A table that has the column over a CSLM, too, has it alone first.
        gains = (
            next((_gain(row)[0] for row in others if row["system"].endswith(ending)), "")
            for ending in PAPER_COLUMNS
        )
        rows.append((setting, _bleu(baseline), *gains))
    return _table(("setting", "baseline", *PAPER_COLUMNS.values()), rows)


class Pooled(NamedTuple):
    """The mean gain of a column over experiments, weighted by their errors.

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
    return _pool([_contrast(_read(results, name), "+RNN") for name in names])


def _pool(found: Sequence[Json]) -> Pooled:
    """The mean of the distinct ones of some gains, weighted by their errors."""
    gains = np.array(sorted({_with_error(gain) for gain in found}))
    mean, q = fixed_effect(*gains.T)
    return Pooled(len(gains), mean.delta, mean.interval, q)


def _with_error(gain: Json) -> tuple[float, float, float]:
    """A gain, its standard error and the degrees of freedom of that; older results have the interval alone."""
    if gain.get("degrees_of_freedom") is None:
        low, high = gain["interval"]
        return gain["delta"], (high - low) / (2 * NORMAL_95), np.inf
    return gain["delta"], gain["standard_error"], gain["degrees_of_freedom"]


def _foretold(results: Path) -> str:
    """What `tuning worth` says of scores before any tuning, and what tunings with them gained afterwards."""
    judged = _read(results, "worth")
    forms = ("{worth:+.2f}", "{t:.1f}", "{gain:+.2f} ({gain_sd:.2f})")
    rows = []
    for row in judged["rows"]:
        cells = [", ".join(form.format(**each) for each in row["networks"]) for form in forms]
        rows.append((row["score"], *cells, _with_interval(_measured(results, row))))
    header = ("score", "worth", "t", "gain foretold (s.d.)", "gain on the test text (95%)")
    return f"{_table(header, rows)}\n\n{_made(judged['made'])}"


def _measured(results: Path, judged: Json) -> Json:
    """What the tunings with a judged score gained."""
    return _contrast(_read(results, judged.get("table", "table1")), judged["system"])


def _pooled(results: Path) -> str:
    """The pooled gain of the column as a sentence."""
    pooled = pooled_column(results)
    gain = f"{pooled.mean:+.2f} BLEU ({_interval(pooled.interval)})"
    q = f"Cochran's Q {pooled.q:.1f} on {pooled.n_experiments - 1} degrees of freedom"
    sentence = f"The {pooled.n_experiments} experiments pooled: {gain}, {q}."
    return textwrap.fill(sentence, LINE_WIDTH, break_on_hyphens=False)


def _benchmarks(results: Path) -> str:
    """Our ways against the fastest peer of each piece of work, the newest figures of each benchmark."""
    fastest: dict[tuple[str, str], Json] = {}
    for path in sorted(results.glob("bench-*.json")):
        work = ""
        for result in _read(results, path.stem)["results"]:
            work = work if result["work"] == "the same" else result["work"]
            key = work, result["ours"]
            if result["ratio"] is None or result["peer"] in OURS_TOO:
                continue
            if NOT_SHOWN.search(" ".join(key)):
                continue
            if key not in fastest or _least(result["ratio"]) < _least(fastest[key]["ratio"]):
                fastest[key] = result
    by_peer: dict[tuple[str, str], list[Json]] = {}
    for (work, _), result in fastest.items():
        by_peer.setdefault((work, result["peer"]), []).append(result)
    rows = [_bench_row(*key, ways) for key, ways in by_peer.items()]
    return _table(("work", "ours", "fastest peer", "ratio"), rows)


def _least(value: float | list[float]) -> float:
    return min(value) if isinstance(value, list) else value


def _bench_row(work: str, peer: str, ways: Sequence[Json]) -> Sequence[str]:
    """Some work, our ways of it, and the peer; a peer measured several times has all its numbers."""
    ours = "; ".join(f"{way['ours']}: {_numbers(way['ours_value'], joined=', ')}" for way in ways)
    peers = dict.fromkeys(_numbers(way["peer_value"], joined=", ") for way in ways)
    ratios = "; ".join(_numbers(way["ratio"], 2, " to ") for way in ways)
    return work, f"{ours} {ways[0]['unit']}", f"{peer}: {'; '.join(peers)}", ratios


def _machines(results: Path) -> str:
    """When and on what each benchmark was run; those on the GPU are left out."""
    names = [path.stem for path in sorted(results.glob("bench-*.json"))]
    names = [name for name in names if not name.endswith(("cuda", "paper_model"))]
    made = {name.removeprefix("bench-"): _read(results, name)["made"] for name in names}
    return "\n".join(f"- {name}: {_made(record)}" for name, record in made.items())


def _costs(results: Path) -> str:
    """Time by the rows of a phrase table, computed from measured rates; training and scoring by the clock."""
    read = {each["rows"]: each for each in _read(results, "long-tables")["results"]}
    header = ["rows", "reading it", "memory of a training"]
    header += [f"{PASSES} passes, d={d}, two cores" for d in TRAINING_RATES]
    header += [f"scoring, d={d}, two cores" for d in SCORING_RATES]
    rates = [
        [_rate(results, f"bench-{kind}", *work) for work in works.values()]
        for kind, works in (("training", TRAINING_RATES), ("scoring", SCORING_RATES))
    ]
    rows = []
    for n_rows in TABLE_ROWS:
        measured = read[n_rows]
        training = (PASSES * measured["pairs"] / rate for rate in rates[0])
        scoring = (n_rows / rate for rate in rates[1])
        times = [_hours(seconds) for seconds in (*training, *scoring)]
        rows.append(
            [f"{n_rows:,}", _hours(measured["seconds"]), f"{measured['mib']:,} MiB", *times]
        )
    return _table(header, rows)


def _text_costs(results: Path) -> str:
    """Time of a pass over text by its target words, computed from measured rates: two cores, and one thread."""
    works = {
        "NNJM, two cores": ("bench-window_training", "train an NNJM", "bfloat16"),
        "RNNsearch, one thread": (
            *("bench-sentences", "train on sentence pairs, d=320"),
            "bfloat16, sampled softmax",
        ),
    }
    rates = [_rate(results, *work) for work in works.values()]
    sizes = (1_000_000, 10_000_000, 100_000_000)
    rows = [[f"{words:,}", *(_hours(words / rate) for rate in rates)] for words in sizes]
    return _table(["target words", *(f"a pass, {name}" for name in works)], rows)


def _rate(results: Path, bench: str, work: str, ours: str) -> float:
    """Units of work a second, the slowest of several runs."""
    for result in _read(results, bench)["results"]:
        is_work = result["work"].startswith(work) and result["ours"] == ours
        if is_work and result["unit"].endswith("/s"):
            return float(_least(result["ours_value"]))
    raise InputError(results / f"{bench}.json", None, f"no rate of {work!r}", "one of its results")


def _hours(seconds: float) -> str:
    """A time with two digits: seconds, minutes or hours."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds)} s"


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


TABLES: Mapping[str, Callable[[Path], str]] = {
    **{name: partial(_whole_table, name) for name in WHOLE},
    "table1-short": _first_table,
    "domains": _domains,
    "gains-by-place": _gains_by_place,
    "costs": _costs,
    "text-costs": _text_costs,
    "pooled": _pooled,
    "paper": _paper,
    "foretold": _foretold,
    "bench": _benchmarks,
    "bench-machines": _machines,
}


# --- The picture -----------------------------------------------------------------------------------

# Pixels: the axis goes from LEFT to RIGHT, one row is below another.
LEFT, RIGHT, TOP, ROW = 170, 530, 58, 34
SQUARE_LEFT, SQUARE = 56, 320
LINES = 8  # of half a BLEU at most; a wider picture has one for each BLEU
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {height}" width="560" height="{height}"
 font-family="system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif" font-size="15" role="img">
<title>{title}</title>
<rect width="560" height="{height}" rx="6" fill="white"/>
{body}
</svg>
"""
INK, MUTED, GRID, BESIDE = "#1d2430", "#5b6472", "#dfe3e8", "#1f5f8b"


class Bars(NamedTuple):
    """A row of a picture.

    Attributes:
        name: of the row.
        gain: delta and interval.
        beside: another gain, shown below it; None for nothing.
    """

    name: str
    gain: Json
    beside: Json | None


def gains_picture(results: Path = RESULTS) -> str:
    """The SVG of the gains in the README's table."""
    rows = [
        Bars(row["system"], row["against_baseline"], (row.get("far") or {}).get("against_baseline"))
        for row in _read(results, "table1")["rows"]
        if row["system"] in SHORT
    ]
    title = "BLEU above the tuned baseline, default table"
    return picture(title, rows, "sentences far from the training text")


class Foretold(NamedTuple):
    """A score in the picture of foretold gains: its name, and the two gains with their intervals."""

    name: str
    foretold: Json
    measured: Json


def foretold_picture(results: Path = RESULTS) -> str:
    """The SVG of measured gains by foretold ones, and the line where both are equal."""
    rows = []
    for row in _read(results, "worth")["rows"]:
        gains, spreads = np.array([[each["gain"], each["gain_sd"]] for each in row["networks"]]).T
        mean, half = (
            float(gains.mean()),
            NORMAL_95 * float(np.sqrt((spreads**2).mean() + gains.var())),
        )
        foretold = {"delta": mean, "interval": [mean - half, mean + half]}
        rows.append(Foretold(row["score"].split(",")[0], foretold, _measured(results, row)))
    rows.sort(key=lambda row: row.measured["delta"], reverse=True)
    ends = [end for row in rows for gain in row[1:] for end in _ends(gain)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    right, bottom = SQUARE_LEFT + SQUARE, TOP + SQUARE

    def x(bleu: float) -> float:
        return round(SQUARE_LEFT + SQUARE * (bleu - low) / (high - low), 1)

    def y(bleu: float) -> float:
        return round(bottom - SQUARE * (bleu - low) / (high - low), 1)

    title = "BLEU gained on the test text, and foretold from lists of dev"
    body = [_text(20, 26, title, INK), *_grid(x, low, high, bottom)]
    for value in _ticks(low, high):
        body.append(
            f'<path d="M{SQUARE_LEFT} {y(value)}H{right}" stroke="{GRID if value else MUTED}"/>'
        )
        body.append(_text(SQUARE_LEFT - 6, y(value) + 5, _tick(value), MUTED, "end"))
    body.append(
        f'<path d="M{SQUARE_LEFT} {bottom}L{right} {TOP}" stroke="{MUTED}" stroke-dasharray="5"/>'
    )
    beside = 0.0
    for row in rows:
        across, up = x(row.foretold["delta"]), y(row.measured["delta"])
        beside = max(up, beside + 20)
        body.append(
            f'<path d="M{across} {up}L{right + 4} {beside}" stroke="{MUTED}" stroke-width="0.5"/>'
        )
        body.append(_text(right + 8, beside + 5, row.name, INK))
        first, last = (y(end) for end in _ends(row.measured))
        body.append(f'<path d="M{across} {first}V{last}" stroke="{BESIDE}" stroke-width="2"/>')
        body += _bar(x, up, row.foretold, BESIDE)
    body.append(
        _text(
            20,
            bottom + 44,
            "across: foretold, 1.96 s.d. over halves and networks; up: gained, 95%",
            MUTED,
        )
    )
    return SVG.format(height=bottom + 58, title=title, body="\n".join(body))


def picture(title: str, rows: Sequence[Bars], beside: str) -> str:
    """Gains with their 95% intervals, one row below another, as SVG; `beside` names the blue ones."""
    shown = (gain for row in rows for gain in (row.gain, row.beside) if gain)
    ends = [end for gain in shown for end in _ends(gain)]
    low, high = min(0.0, *ends), max(0.0, *ends)

    def x(bleu: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (bleu - low) / (high - low), 1)

    has_beside = any(row.beside for row in rows)
    bottom = TOP + ROW * len(rows)
    title = f"{title}, with 95% intervals"
    body = [_text(20, 26, title, INK), *_grid(x, low, high, bottom)]
    for place, row in enumerate(rows):
        y = TOP + ROW * place + ROW // 2
        body.append(_text(20, y + 5, row.name, INK))
        body += _bar(x, y - 5 * bool(row.beside), row.gain, INK)
        body += _bar(x, y + 6, row.beside, BESIDE) if row.beside else []
    if has_beside:
        body.append(_text(20, bottom + 40, f"blue: {beside}", BESIDE))
    return SVG.format(height=bottom + (54 if has_beside else 34), title=title, body="\n".join(body))


def _grid(x: Callable[[float], float], low: float, high: float, bottom: int) -> Iterator[str]:
    """A line and a number for each half BLEU, or each whole one."""
    for value in _ticks(low, high):
        yield f'<path d="M{x(value)} {TOP}V{bottom}" stroke="{GRID if value else MUTED}"/>'
        yield _text(x(value), bottom + 18, _tick(value), MUTED, "middle")


def _ticks(low: float, high: float) -> list[float]:
    step = 0.5 if high - low <= LINES / 2 else 1.0
    return [n * step for n in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def _tick(value: float) -> str:
    return f"{value:+.1f}" if value else "0"


def _ends(gain: Json) -> Sequence[float]:
    """Of its interval, or the gain alone where the interval is not known."""
    return gain["interval"] or [gain["delta"]]


def _bar(x: Callable[[float], float], y: float, gain: Json, colour: str) -> list[str]:
    ends = _ends(gain)
    low, high = ends[0], ends[-1]
    return [
        f'<path d="M{x(low)} {y}H{x(high)}" stroke="{colour}" stroke-width="2"/>',
        f'<circle cx="{x(gain["delta"])}" cy="{y}" r="4.5" fill="{colour}"/>',
    ]


def _text(x: float, y: int, text: str, colour: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


# --- Parts of tables --------------------------------------------------------------------------------


def _read(results: Path, name: str) -> Json:
    result: Json = read_json(results / f"{name}.json")
    return result


def _contrast(table: Json, system: str) -> Json:
    """The gain of a table's system over the first one."""
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
    conditions = f", {made['conditions']}" if made.get("conditions") else ""
    return f"{_day(made['date'])}, commit {commit}{changed}, {machine}{conditions}."


def _table(header: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def _day(date: str) -> str:
    day = datetime.date.fromisoformat(date)
    return f"{day.day} {day:%B %Y}"


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"{ends[0]:+.2f}..{ends[1]:+.2f}"


def _p_value(value: float) -> str:
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
        images = {PICTURE: gains_picture(), FORETOLD: foretold_picture()}
    except InputError as error:
        raise SystemExit(f"make_results.py: error: {error}") from error
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")
    for path, image in images.items():
        path.write_text(image, encoding="utf-8")


if __name__ == "__main__":
    main()
