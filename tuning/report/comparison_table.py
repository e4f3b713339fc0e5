"""A comparison as rows of formatted cells, and the notes below it."""

from __future__ import annotations

from pathlib import Path

from tuning.compare.comparison import (
    LOWERCASED,
    Comparison,
    Contrast,
    FarScores,
    ResultRow,
    RunSummary,
)
from tuning.loop.run_directory import LIMIT
from tuning.report.tables import UNKNOWN, number_or_unknown

CUT_OFF = "+"
NOTE = (
    "BLEU on tokens, mean and standard deviation over the tuning runs; text s.d.: of the first run's "
    f"test BLEU over resampled texts; {UNKNOWN}: not known from one run; iterations: decodings of each "
    f"run, {CUT_OFF}: ended by the limit and not by itself."
)

METRICS_NOTE = (
    "tuned: NAME: the metric a system was tuned for, counted on the tokens as in the tuning, mean over the "
    "runs; less is better for ter and cer."
)


def comparison_lines(comparison: Comparison) -> list[tuple[str, ResultRow | FarScores]]:
    """The lines of the table by their names: of each system, and on far sentences if these are known."""
    lines: list[tuple[str, ResultRow | FarScores]] = []
    for row in comparison.rows:
        lines.append((row.system, row))
        if row.far is not None:
            lines.append((far_label(row.system), row.far))
    return lines


def comparison_rows(comparison: Comparison) -> list[dict[str, str]]:
    """The cells of each line by their headings."""
    rows: list[dict[str, str]] = []
    for name, scores in comparison_lines(comparison):
        cells = _cells(name, scores, bool(comparison.control))
        rows.append(dict.fromkeys(rows[0], "") | cells if rows else cells)
    return rows


def _cells(name: str, scores: ResultRow | FarScores, has_control: bool) -> dict[str, str]:
    """The cells of a line; one on far sentences has fewer."""
    row = scores if isinstance(scores, ResultRow) else None
    cells = {"system": name}
    if row is not None:
        is_known = row.dev_bleu is not None
        cells |= {
            "dev BLEU": number_or_unknown(row.dev_bleu) if is_known else "",
            "dev s.d.": number_or_unknown(row.dev_sd) if is_known else "",
        }
    cells |= {
        "test BLEU": f"{scores.test_bleu:.2f}",
        "test s.d.": number_or_unknown(scores.test_sd),
        "text s.d.": f"{scores.bootstrap_sd:.2f}",
        **_contrast_cells(scores.against_baseline),
        **(_control_cells(scores.against_control) if has_control else {}),
    }
    if row is not None:
        cells |= {
            "runs": str(row.n_runs),
            "iterations": "/".join(_iterations(run) for run in row.runs if run.n_iterations),
        }
    cells |= {
        "length": f"{scores.length_ratio:.3f}",
        "1/2/3/4-gram": "/".join(f"{value:.1f}" for value in scores.precisions),
    }
    if row is not None:
        cells |= {
            "detok. BLEU": f"{row.detokenised_bleu:.2f}",
            "chrF": f"{row.chrf:.2f}",
            "TER": f"{row.ter:.2f}",
            **{metric_heading(metric): f"{value:.2f}" for metric, value in row.metrics.items()},
        }
    return cells


def _contrast_cells(contrast: Contrast | None) -> dict[str, str]:
    if contrast is None:
        return dict.fromkeys(("delta", "95%", "p", "Holm"), "")
    low, high = contrast.interval
    mark = "" if contrast.covers_runs else UNKNOWN
    return {
        "delta": f"{contrast.delta:+.2f}",
        "95%": f"{low:+.2f}..{high:+.2f}",
        "p": f"{contrast.p_value:.4f}{mark}",
        "Holm": f"{contrast.corrected_p_value:.4f}{mark}",
    }


def _control_cells(contrast: Contrast | None) -> dict[str, str]:
    if contrast is None:
        return dict.fromkeys(("vs control", "its Holm"), "")
    return {"vs control": f"{contrast.delta:+.2f}", "its Holm": f"{contrast.corrected_p_value:.4f}"}


def _iterations(run: RunSummary) -> str:
    return f"{run.n_iterations}{CUT_OFF if run.end == LIMIT else ''}"


def far_label(system: str) -> str:
    """The name of a system's line on the sentences far from the training text."""
    return f"{system} (far)"


def metric_heading(name: str) -> str:
    """The heading of the values by a metric that systems were tuned for, or by lowercased BLEU."""
    return name if name == LOWERCASED else f"tuned: {name}"


def comparison_notes(comparison: Comparison) -> list[str]:
    """Notes on how the numbers were made, one line each."""
    notes = [NOTE]
    if len(comparison.rows) > 1:
        notes += [_delta_note(comparison), _power_note(comparison)]
    notes += [*_one_network_notes(comparison), *_near_copy_notes(comparison)]
    if any({*row.metrics} - {LOWERCASED} for row in comparison.rows):
        notes.append(METRICS_NOTE)
    for row in comparison.rows:
        notes += _row_notes(row)
    return [*notes, comparison.signature, *comparison.detokenised_signatures]


def _delta_note(comparison: Comparison) -> str:
    baseline, *others = comparison.rows
    contrasts = [row.against_baseline for row in others if row.against_baseline is not None]
    covered = "over texts and runs"
    if not all(contrast.covers_runs for contrast in contrasts):
        covered += f" ({UNKNOWN}: over texts alone, one run each)"
    note = (
        f"delta: against {baseline.system}, with its 95% interval; p {covered}: jackknife variance of the "
        f"paired texts{_documents(comparison)} + variance between runs (between networks or noise columns "
        f"where a row has several), Student's t; Holm: p corrected for {len(others)} rows"
    )
    if comparison.control:
        note += f"; vs control: the same against {comparison.control}, its p corrected too"
    return note + "."


def _documents(comparison: Comparison) -> str:
    return f" by document ({comparison.n_documents:,})" if comparison.n_documents else ""


def _one_network_notes(comparison: Comparison) -> list[str]:
    """The variation that runs of one network do not show."""
    names = [
        row.system
        for row in comparison.rows
        if row.n_networks == 1
        and not row.same_models
        and row.against_baseline is not None
        and row.against_baseline.covers_runs
    ]
    if not names:
        return []
    which = "this one network" if len(names) == 1 else "one network each"
    return [
        f"{', '.join(names)}: p and intervals: over texts and tunings of {which}; what another training "
        "would change is not in them."
    ]


def _near_copy_notes(comparison: Comparison) -> list[str]:
    """The near copies of training sentences in the test text, and the meaning of the second lines."""
    if comparison.near_copies is None:
        return []
    shares = ", ".join(
        f"{share:.1%} (>= {level})" for level, share in comparison.near_copies.items()
    )
    first = min(comparison.near_copies, key=float)
    note = (
        f"near copies: of the {comparison.n_sentences:,} test sentences {shares} are as similar as that to a "
        "training sentence (1 - edit distance in words / words of the longer one)"
    )
    far = f"the {comparison.n_far:,} others, below {first}"
    if all(row.far is None for row in comparison.rows):
        return [f"{note}; {far}, are too few for lines of their own."]
    return [f"{note}; {far_label('').strip()}: {far}."]


def _power_note(comparison: Comparison) -> str:
    found = ", ".join(
        f"{row.against_baseline.smallest_found:.2f} ({row.system})"
        for row in comparison.rows
        if row.against_baseline is not None
    )
    return f"A true difference is found (p < 0.05) in 80% of cases if it is as large as: {found}."


def _row_notes(row: ResultRow) -> list[str]:
    notes = []
    if row.tuned_for:
        notes.append(f"{row.system}: tuned for {row.tuned_for}, not for BLEU.")
    if row.n_networks > 1:
        notes.append(
            f"{row.system}: {row.n_networks} networks or noise columns, "
            f"standard deviation of their means {number_or_unknown(row.network_sd)}."
        )
    stayed = [_name(run) for run in row.runs if not run.left_start]
    if stayed and len(stayed) == len(row.runs):
        weights = "the weights it started from"
        notes.append(f"{row.system}: nothing moved; the row is that of {weights}.")
    elif stayed:
        notes.append(f"{row.system}: did not leave the start: {', '.join(stayed)}.")
    if constant := sorted({name for run in row.runs for name in run.constant}):
        notes.append(
            f"{row.system}: {', '.join(constant)} without effect, since all n-best lists have one value."
        )
    for run in row.runs:
        if run.same_output_as:
            others = ", ".join(Path(other).name for other in run.same_output_as)
            notes.append(f"{row.system}: the test output of {_name(run)} is also that of {others}.")
        if run.caution:
            notes.append(f"{row.system}: warning about the tuning of {_name(run)}: {run.caution}.")
    return notes


def _name(run: RunSummary) -> str:
    return Path(run.directory).name
