"""Write the tables of results into README.md and the pages, and pictures of gains, from docs/results/*.json.

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
PAGES = (README, *(DOCS / name for name in ("results.md", "benchmarks.md", "which.md")))
IMAGES = DOCS / "images"
BLOCK = re.compile(r"<!-- results: ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
LINE_WIDTH = 120  # of a page's prose
NORMAL_95 = 1.96  # standard errors from the middle of a 95% interval to its end

# Where a build has the tables; "*" is part of the name of the result.
TAKEN = {
    "table1": "table1/table.json",
    "networks": "networks/table1/networks/table.json",
    "controls": "table1/controls/table.json",
    "home": "table1/home/table.json",
    "full": "table1-full/table.json",
    "full-controls": "table1-full/controls/table.json",
    "full-second-nnjm": "table1-full/second-nnjm/table.json",
    "full-on-lists": "table1-full/on-lists/table.json",
    "full-reranking": "table1-full/reranking/table.json",
    "sizes": "sizes/table1-full/sizes/table.json",
    "german": "table1-en-de/table.json",
    "german-home": "table1-en-de/home/table.json",
    "german-best": "best/table1-en-de/best/table.json",
    "german-full": "table1-full-en-de/one-rnnsearch/table.json",
    "ways-*": "domain/*/ways/table.json",
    "domain-*": "domain/*/columns/table.json",
    "nnjm-*": "domain/*/nnjm/table.json",
    "best": "best/table1/best/table.json",
    "full-best": "best/table1-full/best/table.json",
    "regime-*": "regimes/*/table1/regime/table.json",
    "bench-*": "bench/*.json",
}
# Experiments in which the phrase network's column is added to a baseline, each with a network of its own. The
# regime 60000-pairs is the default table, so it is counted once if both are of the same corpus.
COLUMN_EXPERIMENTS = ("table1", "full", "german", "regime-*")
# Tables of which the pages show all columns.
WHOLE = (
    *("table1", "networks", "full", "full-best", "sizes"),
    *("german", "german-home", "german-best", "german-full"),
)
# The rows of the README's table: what one score gains, and two of them together.
SHORT = ("+RNN", "+CSLM", "+NNJM", "+CSLM+NNJM")
# The columns of the overview of gains: places of gains.json, and how they are headed.
PLACES = {
    "default": "default",
    "all the data": "all the data",
    "English to German": "English to German",
    "other domain": "other domain",
    "other domain, its sentences in the table": "the same, its sentences in the table",
}
# What sizes of tables and texts cost is computed from these benchmarks: how the work begins, and our way of it.
TRAINING_RATES = {
    "256": ("train on phrase pairs, d=256", "tries, bfloat16"),
    "1,000": ("train on phrase pairs, d=1000", "tries, bfloat16"),
}
SCORING_RATES = {
    "192": ("score phrase pairs, d=192", "tries, float32"),
    "1,000": ("score phrase pairs, d=1000", "tries, float32"),
}
POOLED_SIZES = (250, 1000, 4000, 16000)  # of a little text of another domain: those of all three
TABLE_ROWS = (1_000_000, 10_000_000, 100_000_000)
PASSES = 2  # over the distinct pairs
# What some benchmarks compare our way with that is no peer.
OURS_TOO = ("not piped", "network alone", "alone")

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


def _domains(kind: str, results: Path) -> str:
    """What columns or networks of a domain's text add to the best use of it, and the mean of each gain."""
    tables = _tables(results, f"{kind}-*-*")
    systems = max((_systems(table) for table in tables.values()), key=len)
    rows = []
    for name, table in tables.items():
        found = {row["system"]: _score_and_gain(row) for row in table["rows"]}
        rows.append((name, *(found.get(system, "") for system in systems)))
    # Texts of one domain share their test text: one of each counts in a mean.
    for size in POOLED_SIZES:
        of_one_size = [table for name, table in tables.items() if name.endswith(f"-{size}")]
        gains = (_pooled_gain(of_one_size, each) for each in systems[1:])
        rows.append((f"pooled, {size:,} pairs", "", *gains))
    return _table(("text", "BLEU without", *systems[1:]), rows)


def _systems(table: Json) -> list[str]:
    return [row["system"] for row in table["rows"]]


def _tables(results: Path, pattern: str) -> dict[str, Json]:
    """The tables of a pattern by what follows its first word, numbers in them by size."""
    paths = sorted(results.glob(f"{pattern}.json"), key=_by_size)
    return {path.stem.partition("-")[2]: _read(results, path.stem) for path in paths}


def _by_size(path: Path) -> str:
    return re.sub(r"\d+", lambda number: number[0].zfill(9), path.stem)


def _pooled_gain(tables: Sequence[Json], system: str) -> str:
    """The mean gain of a system; "" if not all tables have it."""
    if not all(system in _systems(table) for table in tables):
        return ""
    pooled = _pool([_contrast(table, system) for table in tables])
    return f"{pooled.mean:+.2f} ({_interval(pooled.interval)})"


def _score_and_gain(row: Json) -> str:
    gain = row["against_baseline"]
    if gain is None:
        return f"{row['test_bleu']:.2f}"
    p_value = _p_value(gain["corrected_p_value"])
    return f"{gain['delta']:+.2f} ({_interval(gain['interval'])}; {p_value})"


def _rows_of(table: Json, shown: Sequence[Json]) -> str:
    header: tuple[str, ...] = ("system", "test BLEU", "delta", "95%", "p, Holm")
    sizes = f"{table['n_sentences']:,} test sentences"
    rows = [[row["system"], *_scores(row)] for row in shown]
    if table.get("n_far"):
        header += ("far: BLEU", "delta", "95%", "p, Holm")
        sizes += f"; far: the {table['n_far']:,} below 0.5 of similarity to any training sentence"
        rows = [[*cells, *_scores(row["far"])] for cells, row in zip(rows, shown, strict=True)]
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


def _gains_by_place(results: Path) -> str:
    """What each score gains, one column for each place; rows over another system are left out."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    name = ""
    for row in _read(results, "gains")["rows"]:
        name = name if row["what"] == "the same" else row["what"].split(" (")[0]
        if row["where"] in PLACES and row["how"] != "in the table":
            *_, delta, interval, _ = _gain_row(row, results)
            cells.setdefault((name, row["how"]), {})[row["where"]] = f"{delta} ({interval})"
    header = ("score", "how it is used", *PLACES.values())
    rows = [(*key, *(found.get(place, "") for place in PLACES)) for key, found in cells.items()]
    return _table(header, rows)


class Pooled(NamedTuple):
    """What a column gains in the mean over experiments, weighted by their errors.

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
        if result["ratio"] is not None and result["peer"] not in OURS_TOO
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
            value = result["ours_value"]
            return float(min(value) if isinstance(value, list) else value)
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
    "domains": partial(_domains, "domain"),
    "domain-nnjms": partial(_domains, "nnjm"),
    "gains": _gains,
    "gains-by-place": _gains_by_place,
    "costs": _costs,
    "text-costs": _text_costs,
    "pooled": _pooled,
    "bench": _benchmarks,
    "bench-machines": _machines,
}


# --- The pictures -----------------------------------------------------------------------------------

# Pixels: the axis goes from LEFT to RIGHT, one row is below another.
LEFT, RIGHT, TOP, ROW = 170, 530, 58, 34
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
        beside: the same of what is shown below it; None for nothing.
    """

    name: str
    gain: Json
    beside: Json | None


def pictures(results: Path = RESULTS) -> dict[str, str]:
    """The SVG of each picture of gains, by the name of its file."""
    default = [
        Bars(row["system"], row["against_baseline"], (row.get("far") or {}).get("against_baseline"))
        for row in _read(results, "table1")["rows"]
        if row["system"] in SHORT
    ]
    domains, regimes = _tables(results, "domain-*-*"), _tables(results, "regime-*")
    other_domain = {
        f"table {name} them": _read(results, f"domain-{name}") for name in ("without", "with")
    }
    above = "BLEU above the tuned baseline"
    return {
        "gains": picture(
            f"{above}, default table", default, "sentences far from the training text"
        ),
        "domain-gains": picture(
            "BLEU that both columns add to a domain's best",
            _bars(domains, "+both for BLEU"),
            "noise",
        ),
        "rnn-gains": picture(f"{above}: the RNN's column", _bars(regimes, "+RNN"), "noise"),
        "rnn-bleu-gains": picture(
            f"{above}: trained on lists", _bars(other_domain, "+RNN for BLEU"), "noise"
        ),
    }


def _bars(tables: Mapping[str, Json], system: str) -> list[Bars]:
    """What a system gains in each table, beside the control."""
    return [
        Bars(name, _contrast(table, system), _contrast(table, table["control"]))
        for name, table in tables.items()
    ]


def picture(title: str, rows: Sequence[Bars], beside: str) -> str:
    """Gains with their 95% intervals, one row below another, as SVG; `beside` says what is blue."""
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
    step = 0.5 if high - low <= LINES / 2 else 1.0
    for number in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1):
        place = x(number * step)
        colour = GRID if number else MUTED
        yield f'<path d="M{place} {TOP}V{bottom}" stroke="{colour}"/>'
        yield _text(place, bottom + 18, f"{number * step:+.1f}" if number else "0", MUTED, "middle")


def _ends(gain: Json) -> Sequence[float]:
    """Of its interval, or the gain alone where the interval is not known."""
    return gain["interval"] or [gain["delta"]]


def _bar(x: Callable[[float], float], y: int, gain: Json, colour: str) -> list[str]:
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
        images = pictures()
    except InputError as error:
        raise SystemExit(f"make_results.py: error: {error}") from error
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")
    for name, image in images.items():
        (IMAGES / f"{name}.svg").write_text(image, encoding="utf-8")


if __name__ == "__main__":
    main()
