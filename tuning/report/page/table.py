"""Tables of the page: cells showing a text and sorted by a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moses_bridge.base.progress import duration
from moses_bridge.base.steps import LOG_NAME, Step, finished_steps, read_steps
from moses_bridge.formats.words import without_escapes
from tuning.compare.comparison import (
    LOWERCASED,
    Comparison,
    Contrast,
    FarScores,
    NgramMatches,
    ResultRow,
)
from tuning.loop.run_directory import TuningRun
from tuning.report.comparison_table import (
    METRICS_NOTE,
    comparison_lines,
    comparison_notes,
    metric_heading,
)
from tuning.report.page.learning_curve import LearningCurve
from tuning.report.page.scored_pairs import ScoredSample, class_name
from tuning.report.tables import UNKNOWN

SURE = 0.05
SMALLEST_P = 0.0001
BLEU_NOTE = (
    "BLEU on tokens, mean ± standard deviation over the tuning runs where there are several; text s.d.: of the "
    "first run's test BLEU over resampled texts. Bold: p < 0.05; a delta is bold by its corrected p."
)


@dataclass(frozen=True)
class Cell:
    """One cell, sorted by its value or, without one, by its text; a strong one is highlighted."""

    text: str
    value: float | None = None
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """A table; each row has one cell for each heading, the first of which names it."""

    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)

    @property
    def is_number(self) -> list[bool]:
        """For each column whether it has numbers, which are right-aligned; the first one names rows."""
        columns = list(zip(*self.rows, strict=True))
        has_value = [any(cell.value is not None for cell in cells) for cells in columns]
        return [False, *has_value[1:]] if columns else [False] * len(self.columns)

    def without_empty_columns(self) -> Table:
        """The table without empty columns."""
        kept = [
            place for place in range(len(self.columns)) if any(row[place].text for row in self.rows)
        ]
        columns = [self.columns[place] for place in kept]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table(self.caption, columns, rows, self.notes)


def bleu_table(comparison: Comparison) -> Table:
    """BLEU of each system, and its difference from the baseline and the control."""
    columns = ["system", "dev BLEU", "test BLEU", "text s.d.", "delta", "95%", "p", "corrected p"]
    if comparison.control:
        columns += ["vs control", "its corrected p"]
    rows = [
        _bleu_cells(name, scores, bool(comparison.control))
        for name, scores in comparison_lines(comparison)
    ]
    caption = f"BLEU on {comparison.n_sentences:,} test sentences"
    return Table(caption, [*columns, "runs"], rows, [BLEU_NOTE, *comparison_notes(comparison)[1:]])


def _bleu_cells(name: str, scores: ResultRow | FarScores, has_control: bool) -> list[Cell]:
    """A line; that on far sentences has neither dev BLEU nor runs."""
    row = scores if isinstance(scores, ResultRow) else None
    return [
        Cell(name),
        _spread(row.dev_bleu, row.dev_sd) if row else Cell(""),
        _spread(scores.test_bleu, scores.test_sd),
        number(scores.bootstrap_sd, 2),
        *_contrast_cells(scores.against_baseline),
        *(_contrast_cells(scores.against_control)[::3] if has_control else ()),
        number(row.n_runs if row else None, 0),
    ]


def _contrast_cells(contrast: Contrast | None) -> tuple[Cell, Cell, Cell, Cell]:
    if contrast is None:
        return Cell(""), Cell(""), Cell(""), Cell("")
    low, high = contrast.interval
    is_sure = contrast.corrected_p_value < SURE
    return (
        Cell(f"{contrast.delta:+.2f}", contrast.delta, is_sure),
        Cell(f"{low:+.2f} to {high:+.2f}", low),
        _probability(contrast.p_value, contrast.covers_runs),
        _probability(contrast.corrected_p_value, contrast.covers_runs),
    )


def _probability(value: float, covers_runs: bool) -> Cell:
    text = f"< {SMALLEST_P}" if value < SMALLEST_P else f"{value:.4f}"
    return Cell(text if covers_runs else f"{text}{UNKNOWN}", value, value < SURE)


def _spread(mean: float | None, deviation: float | None) -> Cell:
    if mean is None:
        return Cell("")
    spread = "" if deviation is None else f" ± {deviation:.2f}"
    return Cell(f"{mean:.2f}{spread}", mean)


def number(value: float | None, digits: int) -> Cell:
    """A number; empty if there is none."""
    return Cell("") if value is None else Cell(f"{value:,.{digits}f}", float(value))


def measure_table(comparison: Comparison) -> Table:
    """Length, n-gram precisions and the scores of detokenised text."""
    columns = ["system", "length", "1-grams", "2-grams", "3-grams", "4-grams"]
    columns += ["detok. BLEU", "chrF", "TER"]
    tuned = list(dict.fromkeys(name for row in comparison.rows for name in row.metrics))
    rows = [
        [
            Cell(row.system),
            number(row.length_ratio, 3),
            *(number(value, 1) for value in row.precisions),
            number(row.detokenised_bleu, 2),
            number(row.chrf, 2),
            number(row.ter, 2),
            *(number(row.metrics.get(name), 2) for name in tuned),
        ]
        for row in comparison.rows
    ]
    notes = [
        "length: output words for one reference word; n-grams: precision in percent; the others of detokenised "
        "text, less is better for TER."
    ]
    notes += [METRICS_NOTE] if {*tuned} - {LOWERCASED} else []
    caption = "Length, n-gram precisions and other measures"
    return Table(caption, [*columns, *map(metric_heading, tuned)], rows, notes)


def word_table(comparison: Comparison) -> Table | None:
    """F1 of target words by their frequency in training; None where it was not counted."""
    classes = comparison.rows[0].words if comparison.rows else []
    if not classes:
        return None
    rows = [
        [
            Cell(row.system),
            *(number(words.f1 if words.n_reference_words else None, 1) for words in row.words),
        ]
        for row in comparison.rows
    ]
    sizes = ", ".join(f"{words.n_reference_words:,} ({words.label})" for words in classes)
    notes = [
        "F1 in percent, mean over the runs: a word is right as often as it is in the sentence's first "
        "reference; empty: no such words. Columns: occurrences in the target side of the training text.",
        f"Words of the reference: {sizes}.",
    ]
    caption = "Accuracy of words by their frequency in the training text"
    return Table(caption, ["system", *(words.label for words in classes)], rows, notes)


def ngram_tables(comparison: Comparison) -> list[Table]:
    """The n-grams that the best system wins and loses against the baseline, where there are any."""
    if comparison.ngrams is None:
        return []
    baseline, found = comparison.rows[0].system, comparison.ngrams
    captions = {
        f"N-grams won: right more often in {found.system} than in {baseline}": found.won,
        f"N-grams lost: right less often in {found.system} than in {baseline}": found.lost,
    }
    return [_ngram_table(caption, ngrams) for caption, ngrams in captions.items() if ngrams]


def _ngram_table(caption: str, ngrams: Sequence[NgramMatches]) -> Table:
    columns = ["n-gram", "difference", "system", "baseline", "reference"]
    rows = [
        [
            Cell(without_escapes(each.ngram)),
            Cell(f"{each.system - each.baseline:+.1f}", each.system - each.baseline),
            number(each.system, 1),
            number(each.baseline, 1),
            number(each.reference, 0),
        ]
        for each in ngrams
    ]
    notes = [
        "1- to 4-grams of the test text's first reference: how often an output has them in the same sentence, "
        "mean over the runs; reference: how often they are there."
    ]
    return Table(caption, columns, rows, notes)


def run_table(
    runs: Mapping[str, TuningRun],
    systems: Mapping[str, str],
    test_bleu: Mapping[str, float],
    directories: Mapping[str, Path],
) -> Table:
    """How each run went, with its time and memory where its directory has them."""
    columns = ["run", "system", "seed", "decodings", "kept", "ended", "dev BLEU", "test BLEU"]
    rows = []
    for name, run in runs.items():
        seconds, memory = _cost(directories[name] / LOG_NAME)
        cells = [Cell(name), Cell(systems[name]), Cell(str(run.seed), run.seed)]
        cells += [number(len(run.iterations), 0), number(run.kept, 0), Cell(run.end)]
        cells += [number(run.dev_bleu, 2), number(test_bleu.get(name), 2)]
        rows.append([*cells, seconds, memory])
    return Table("Tuning runs", [*columns, "time", "memory"], rows).without_empty_columns()


def _cost(log: Path) -> tuple[Cell, Cell]:
    if not log.exists():
        return Cell(""), Cell("")
    done = read_steps(log)
    seconds = sum(step.seconds for step in done)
    peak = max((step.peak_memory for step in done), default=0)
    return Cell(duration(seconds), seconds), Cell(f"{peak / 1e6:,.0f} MB", peak)


def iteration_table(runs: Mapping[str, TuningRun]) -> Table:
    """The decodings of all runs: the numbers of the chart."""
    columns = ["run", "iteration", "dev BLEU", "length", "oracle BLEU", "pool BLEU"]
    rows = [
        [
            Cell(name),
            number(place, 0),
            number(each.bleu, 2),
            number(each.length_ratio, 3),
            number(each.oracle_bleu, 2),
            number(each.pool_bleu, 2),
        ]
        for name, run in runs.items()
        for place, each in enumerate(run.iterations, start=1)
    ]
    return Table("All decodings of the dev text", columns, rows)


def network_table(curves: Mapping[str, LearningCurve]) -> Table:
    """The progress of each network's training."""
    columns = ["network", "architecture", "updates", "passes", "minutes", "held-out loss"]
    rows = []
    for name, curve in curves.items():
        last = curve.points[-1] if curve.points else None
        cells = [
            Cell(name),
            Cell(curve.architecture),
            number(last.update if last else None, 0),
            number(last.epoch if last else None, 2),
            number(last.minutes if last else None, 1),
            number(curve.last_loss, 3),
        ]
        rows.append(cells)
    notes = ["Losses in nats per word, with the end of the sentence."]
    return Table("Trainings", columns, rows, notes)


def correlation_table(sample: ScoredSample) -> Table:
    """The agreement of the model's order of pairs with the table's, by frequency."""
    rows = []
    for lowest, pairs in sample.classes.items():
        correlation = number(sample.correlation(lowest), 3)
        rows.append([Cell(class_name(lowest), lowest), number(len(pairs), 0), correlation])
    notes = ["Rank correlation of the two log-probabilities of the pairs that are shown."]
    return Table("Agreement by frequency", ["times seen", "pairs", "Spearman's rho"], rows, notes)


def step_table(steps: Sequence[Step]) -> Table:
    """Time, memory and command of each finished step."""
    columns = ["step", "started (UTC)", "time", "processor time", "memory", "command"]
    rows = [
        [
            Cell(step.name),
            Cell(step.started[:19].replace("T", " ")),
            Cell(duration(step.seconds), step.seconds),
            Cell(duration(step.processor_seconds), step.processor_seconds),
            Cell(f"{step.peak_memory / 1e6:,.0f} MB", step.peak_memory),
            Cell(step.command),
        ]
        for step in finished_steps(steps)
    ]
    total = sum(step.seconds for step in finished_steps(steps))
    notes = [f"All steps, one after the other: {duration(total)}. memory: of the largest process."]
    notes += [f"Version {each}." for each in sorted({step.version for step in steps})]
    notes += sorted({step.machine for step in steps})
    return Table("Steps", columns, rows, notes)


def command_table(runs: Mapping[str, TuningRun]) -> Table:
    """The system tuned by each run, and the commands of its features."""
    rows = []
    for name, run in runs.items():
        settings = ", ".join(
            f"{key} {value}"
            for key, value in run.decoder.items()
            if key != "neural_lm" and value not in (None, False, [])
        )
        commands = "; ".join(f"{key}: {command}" for key, command in run.commands().items())
        rows.append([Cell(x) for x in (name, run.ini, str(run.nbest_size), settings, commands)])
    columns = ["run", "system file", "n-best", "search", "commands of features"]
    return Table("What each run tuned", columns, rows).without_empty_columns()
