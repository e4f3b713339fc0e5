"""Scores, gains, pooled gains and scans as rows of formatted cells, and the notes below them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuning.compare.comparison import Contrast
    from tuning.compare.gains import Estimate, Gain, Gains, Pooled, PooledGain
    from tuning.compare.output_scores import OutputScores, SystemScores
    from tuning.compare.scan import Measures, Scan, ScanPoint
    from tuning.compare.worth import Worth

Table = tuple[
    list[dict[str, str]], list[str]
]  # cells by heading, and notes on how the numbers were made
UNKNOWN = "*"  # a standard deviation of one run
MISSED = "*"  # a length that a scan did not reach


def number_or_unknown(value: float | None) -> str:
    """A number with two digits, or the mark for one that is not known."""
    return UNKNOWN if value is None else f"{value:.2f}"


def scores_row(scores: OutputScores) -> dict[str, str]:
    """The scores of one file of translations."""
    return _score_cells(vars(scores), scores.precisions)


def _score_cells(values: Mapping[str, float], precisions: Iterable[float]) -> dict[str, str]:
    return {
        "BLEU": f"{values['bleu']:.2f}",
        "text s.d.": f"{values['bootstrap_sd']:.2f}",
        "length": f"{values['length_ratio']:.3f}",
        "1/2/3/4-gram": "/".join(f"{value:.1f}" for value in precisions),
        "detok. BLEU": f"{values['detokenised_bleu']:.2f}",
        "chrF": f"{values['chrf']:.2f}",
        "TER": f"{values['ter']:.2f}",
    }


def system_row(scores: SystemScores) -> dict[str, str]:
    """The scores of a system, as means over its files."""
    grams = zip(*(output.precisions for output in scores.outputs), strict=True)
    cells = _score_cells(scores.means, (sum(values) / len(values) for values in grams))
    spread = number_or_unknown(scores.deviations.get("bleu"))
    first = {"system": scores.system, "files": str(len(scores.files))}
    return first | {"BLEU": cells["BLEU"], "s.d.": spread} | cells


def gains_table(gains: Gains) -> Table:
    """One row for each table."""
    return [_gain_cells(row) for row in gains.rows], [
        f"delta: {gains.system} against the first system of each table, in BLEU on tokens, with its 95% "
        f"interval; p over texts and runs as in the tables; Holm: p corrected for {len(gains.rows)} tables.",
        "control: what a system that cannot help has in its place; vs control: the system against it.",
    ]


def _gain_cells(row: Gain) -> dict[str, str]:
    over_control = row.against_control
    return {
        "table": row.table,
        "baseline": f"{row.baseline_bleu:.2f}",
        "delta": f"{row.against_baseline.delta:+.2f}",
        "95%": _interval(row.against_baseline.interval),
        "p": f"{row.against_baseline.p_value:.4f}",
        "Holm": f"{row.against_baseline.corrected_p_value:.4f}",
        "control": _delta(row.control),
        "vs control": _delta(over_control),
        "its Holm": "" if over_control is None else f"{over_control.corrected_p_value:.4f}",
        "runs": str(row.n_runs),
    }


def _delta(contrast: Contrast | None) -> str:
    return "" if contrast is None else f"{contrast.delta:+.2f}"


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:+.2f}..{ends[1]:+.2f}"


def pool_table(pooled: Pooled) -> Table:
    """One row for each table, then the two means."""
    means = {"fixed effect": pooled.fixed, "random effects": pooled.random}
    rows = [*map(_pooled_cells, pooled.rows), *(_mean_cells(*each) for each in means.items())]
    n_networks = sum(row.n_networks for row in pooled.rows)
    return rows, [
        f"delta: {pooled.system} against the first system of each table, in BLEU on tokens; s.e. over texts "
        f"and runs as in the tables; {len(pooled.rows)} tables, {n_networks} networks in all.",
        "fixed effect: mean with inverse variances as weights, one gain for all tables; random effects: each "
        "table has a gain of its own (DerSimonian & Laird 1986); intervals and p by Student's t with "
        f"{pooled.fixed.degrees_of_freedom:.1f} (Meier 1953) and {pooled.random.degrees_of_freedom:g} (Knapp & "
        "Hartung 2003) degrees of freedom.",
        f"Q = {pooled.q:.2f} on {pooled.q_degrees_of_freedom} degrees of freedom, p = {pooled.q_p_value:.4f}; "
        f"I^2 = {100 * pooled.i_squared:.1f}%; tau^2 = {pooled.tau_squared:.4f}.",
        "Tables that share test text, runs or networks are not independent: the intervals are then too narrow.",
    ]


def _pooled_cells(row: PooledGain) -> dict[str, str]:
    return {
        "table": row.table,
        "delta": f"{row.delta:+.2f}",
        "s.e.": f"{row.standard_error:.3f}",
        "95%": "",
        "p": "",
        "weight": f"{row.fixed_weight:.1%}",
        "random weight": f"{row.random_weight:.1%}",
    }


def _mean_cells(name: str, mean: Estimate) -> dict[str, str]:
    return {
        "table": name,
        "delta": f"{mean.delta:+.2f}",
        "s.e.": f"{mean.standard_error:.3f}",
        "95%": _interval(mean.interval),
        "p": f"{mean.p_value:.4f}",
        "weight": "",
        "random weight": "",
    }


def scan_table(scan: Scan) -> Table:
    """One row for each value of the weight, then those of the other weight alone."""
    rows = [_point_cells(scan, point) for point in scan.points]
    alone = [_plain_cells(scan, 0.0, measures) for measures in scan.without]
    rows += [dict.fromkeys(rows[0], "") | cells for cells in alone]
    notes = [
        f"{scan.system}: {scan.n_sentences} sentences, full decodings; all other weights stay. The "
        f"system's own weight of {scan.feature} is {scan.own_weight:g}.",
        "BLEU on tokens; precision: geometric mean of the 1- to 4-gram precisions, BLEU without brevity "
        f"penalty; at equal length: {scan.against} changed until the output has the length of weight 0, "
        "interpolated between two decodings.",
        "delta: against weight 0, with its standard error over texts (jackknife); nothing is corrected "
        "for the number of weights tried.",
        f"The last {len(scan.without)} rows have weight 0: what {scan.against} does alone.",
    ]
    if not all(point.has_length for point in scan.points):
        notes.append(f"{MISSED}: the length was not reached; the output nearest to it.")
    return rows, notes


def _point_cells(scan: Scan, point: ScanPoint) -> dict[str, str]:
    mark = "" if point.has_length else MISSED
    equal = point.equal
    return _plain_cells(scan, point.weight, point.plain) | {
        f"{scan.against} then": f"{equal.against:.4f}{mark}",
        "BLEU at equal length": f"{equal.bleu:.2f}{mark}",
        "its precision": f"{equal.precision:.2f}",
        "delta": f"{equal.delta:+.2f}",
        "s.e.": f"{equal.error:.2f}",
    }


def _plain_cells(scan: Scan, weight: float, measures: Measures) -> dict[str, str]:
    return {
        scan.feature: f"{weight:g}",
        scan.against: f"{measures.against:.4f}",
        "BLEU": f"{measures.bleu:.2f}",
        "precision": f"{measures.precision:.2f}",
        "length": f"{measures.length_ratio:.3f}",
    }


def worth_table(worth: Worth) -> Table:
    """One row for each score."""
    rows = [
        {
            "score": row.name,
            "worth": f"{row.worth:+.2f}",
            "t": f"{row.t:+.1f}",
            "explained": f"{row.explained:.2f}",
            "gain": f"{row.gain:+.2f}",
            "s.d.": f"{row.gain_sd:.2f}",
        }
        for row in worth.scores
    ]
    constant = f"The same for all hypotheses of each sentence: {', '.join(worth.constant)}."
    return rows, [
        f"worth: {worth.metric} of a sentence for one s.d. of the score within lists, beside all others; "
        "explained: R^2 of the score on the others.",
        f"gain, s.d.: {worth.metric} by choosing from the lists with the score, over random halves.",
        f"{worth.n_hypotheses:,} hypotheses; t and halves by {worth.n_documents:,} documents or sentences.",
        *([constant] if worth.constant else []),
    ]
