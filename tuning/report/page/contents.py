"""The contents of the page, gathered from the given files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import print_note
from moses_bridge.base.provenance import own_version
from moses_bridge.base.steps import read_steps
from tuning.compare.comparison import Comparison, ResultRow, read_comparison
from tuning.compare.translated_text import TranslatedText, read_translated_text
from tuning.compare.translations import output_path
from tuning.loop.run_directory import TuningRun
from tuning.report.page.chart import Chart, Palette
from tuning.report.page.inputs import ReportInputs
from tuning.report.page.learning_curve import learning_charts, networks_of_runs, read_learning_curve
from tuning.report.page.map_chart import map_chart, read_point_map
from tuning.report.page.scored_pairs import sample_scored_pairs, scatter_chart
from tuning.report.page.system_charts import (
    delta_chart,
    dev_bleu_chart,
    length_chart,
    precision_chart,
    weight_chart,
)
from tuning.report.page.table import (
    Table,
    bleu_table,
    command_table,
    correlation_table,
    iteration_table,
    measure_table,
    network_table,
    ngram_tables,
    run_table,
    step_table,
    word_table,
)
from tuning.report.run_series import load_iterated_run, short_names
from tuning.report.verdict import verdict


@dataclass
class PageSection:
    """A part of the page.

    Attributes:
        name: name of its place, letters and dashes.
        lead: paragraphs below the heading.
        first: charts above the tables.
        details: tables folded away.
    """

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    details: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lead: list[str] = field(default_factory=list)
    first: list[Chart] = field(default_factory=list)


@dataclass(frozen=True)
class PageContents:
    """The page without its look; `text` has translations side by side."""

    title: str
    subtitle: str
    sections: list[PageSection]
    text: TranslatedText | None

    @property
    def charts(self) -> list[Chart]:
        """All charts."""
        return [chart for part in self.sections for chart in (*part.first, *part.charts)]


def gather(inputs: ReportInputs) -> PageContents:
    """Read everything shown on the page.

    Raises:
        InputError: a file is missing or malformed.
        ConfigError: there is nothing to show, or the options do not fit together.
    """
    if bool(inputs.source) != bool(inputs.references):
        raise ConfigError("--source and --reference belong together")
    comparisons = {path: read_comparison(path) for path in inputs.tables}
    rows = [row for comparison in comparisons.values() for row in comparison.rows]
    named = [Path(run.directory) for row in rows for run in row.runs if run.n_iterations]
    known = {path.resolve(): path for path in (*named, *inputs.runs)}
    directories = dict(zip(short_names([*known.values()]), known.values(), strict=True))
    runs = {name: load_iterated_run(path) for name, path in directories.items()}
    if not (runs or rows):
        raise ConfigError("no run directory and no table: name one at least")
    text = _text(inputs, rows, directories)
    systems = _systems(runs, rows, directories)
    palette = _palette(rows, [*systems.values(), *(text.systems if text else ())])
    sections = [
        *(
            _table_section(*each, palette, number)
            for number, each in enumerate(comparisons.items(), 1)
        ),
        *([_run_section(runs, rows, directories, palette)] if runs else []),
        _network_section(inputs.models, runs),
        _score_section(inputs),
        PageSection(
            "maps",
            "Maps",
            charts=[map_chart(read_point_map(path), n) for n, path in enumerate(inputs.maps, 1)],
        ),
        _history_section(inputs.steps, runs),
    ]
    if text is not None and (chart := length_chart(text, palette)) is not None:
        sections[0].charts.append(chart)
    shown = [part for part in sections if part.tables or part.charts or part.details]
    subtitle = f"{_count(len(runs), 'tuning run')}"
    if rows:
        subtitle += f" of {_count(len(rows), 'system')}"
    if text is not None:
        subtitle += f", {_count(len(text.sentences), 'test sentence')}"
    return PageContents(inputs.title, f"{subtitle}. rescorer {own_version()}.", shown, text)


def _palette(rows: Sequence[ResultRow], others: Sequence[str]) -> Palette:
    """The colours of the systems of tables, runs and translations; the best is that of the tables."""
    systems = [*dict.fromkeys([*(row.system for row in rows), *others])]
    best = max(rows, key=lambda row: row.test_bleu).system if rows else systems[-1]
    return Palette(systems, best)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _table_section(
    path: Path, comparison: Comparison, palette: Palette, number: int
) -> PageSection:
    suffix = "" if number == 1 else f"-{number}"
    title = "Results" if number == 1 else f"Results: {path.absolute().parent.name}"
    tables = [bleu_table(comparison), measure_table(comparison)]
    deltas = delta_chart(comparison, palette, f"delta{suffix}")
    precisions = precision_chart(comparison, palette, f"ngrams{suffix}")
    words = word_table(comparison)
    return PageSection(
        f"results{suffix}",
        title,
        tables,
        [precisions] if precisions else [],
        [*([] if words is None else [words]), *ngram_tables(comparison)],
        lead=verdict(comparison),
        first=[deltas] if deltas else [],
    )


def _systems(
    runs: Mapping[str, TuningRun], rows: Sequence[ResultRow], directories: Mapping[str, Path]
) -> dict[str, str]:
    """The system of each run; a run of no table is a system of its own."""
    by_path = {Path(run.directory).resolve(): row.system for row in rows for run in row.runs}
    return {name: by_path.get(directories[name].resolve(), name) for name in runs}


def _run_section(
    runs: Mapping[str, TuningRun],
    rows: Sequence[ResultRow],
    directories: Mapping[str, Path],
    palette: Palette,
) -> PageSection:
    systems = _systems(runs, rows, directories)
    by_path = {Path(run.directory).resolve(): run for row in rows for run in row.runs}
    found = {name: by_path.get(path.resolve()) for name, path in directories.items()}
    test_bleu = {name: run.test_bleu for name, run in found.items() if run}
    charts = [dev_bleu_chart(runs, systems, palette), weight_chart(runs, systems, palette)]
    details = [run_table(runs, systems, test_bleu, directories), iteration_table(runs)]
    return PageSection("tuning", "Tuning", [], charts, details)


def _network_section(models: Sequence[Path], runs: Mapping[str, TuningRun]) -> PageSection:
    found = {path.resolve(): path for path in (*models, *networks_of_runs([*runs.values()]))}
    section = PageSection("networks", "Networks")
    if found:
        named = zip(short_names([*found.values()]), found.values(), strict=True)
        curves = {name: read_learning_curve(path) for name, path in named}
        section.tables = [network_table(curves)]
        section.charts = learning_charts(curves)
    return section


def _score_section(inputs: ReportInputs) -> PageSection:
    section = PageSection("scores", "Scores against the table")
    for number, table in enumerate(inputs.scored, start=1):
        sample = sample_scored_pairs(table, inputs.n_points, inputs.seed)
        section.charts.append(scatter_chart(sample, number))
        section.tables.append(correlation_table(sample))
    return section


def _history_section(log: Path | None, runs: Mapping[str, TuningRun]) -> PageSection:
    section = PageSection("history", "What was run", details=[command_table(runs)])
    if log is not None:
        section.details.insert(0, step_table(read_steps(log)))
    return section


def _text(
    inputs: ReportInputs, rows: Sequence[ResultRow], directories: Mapping[str, Path]
) -> TranslatedText | None:
    """The translations of one run of each system, or, without a table, of each run."""
    if inputs.source is None:
        return None
    chosen = {} if rows else dict(directories)
    for row in rows:
        run = min(row.runs, key=lambda run: abs(run.test_bleu - row.test_bleu))
        if Path(run.directory) in chosen.values():  # of a system that another table has too
            continue
        name = f"{row.system} ({Path(run.directory).name})" if row.system in chosen else row.system
        chosen[name] = Path(run.directory)
    outputs = {name: output_path(path, inputs.source) for name, path in chosen.items()}
    translated = {name: path for name, path in outputs.items() if path.exists()}
    for name in outputs.keys() - translated.keys():
        print_note(f"report: {chosen[name]} has no translation of {inputs.source} by its weights")
    if not translated:
        found = f"no run has a translation of {inputs.source}"
        raise ConfigError(f"{found}: run `tuning compare` first")
    return read_translated_text(inputs.source, inputs.references, translated)
