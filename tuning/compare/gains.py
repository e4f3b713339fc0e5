"""The gains of one system in several tables: side by side (other texts, sizes or domains), or pooled as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, t

from moses_bridge.base.errors import ConfigError
from tuning.compare.comparison import Comparison, Contrast, ResultRow
from tuning.compare.significance import LEVEL, holm


@dataclass(frozen=True)
class Gain:
    """The system in one of the tables.

    Attributes:
        baseline_bleu: test BLEU of the table's first system, mean over its runs, 0 to 100.
        against_baseline: the system set against that one, its p-value corrected for the number of tables.
        against_control: the same against the control; None where the table has none.
        control: the control set against the first system; None where the table has none.
    """

    table: str
    baseline_bleu: float
    against_baseline: Contrast
    against_control: Contrast | None
    control: Contrast | None
    n_runs: int


@dataclass(frozen=True)
class Gains:
    """One system in several tables, a row for each in the order given."""

    system: str
    rows: list[Gain]


def gains_of(comparisons: Mapping[str, Comparison], system: str) -> Gains:
    """The rows of one system, not the first, in several tables by name.

    p-values are corrected for the number of tables (Holm 1979), and no longer for the rows of each table.

    Raises:
        ConfigError: a table has no such system, or it is the one the others are compared with.
    """
    pairs = {name: row_of(table, system, name) for name, table in comparisons.items()}
    deltas = _corrected([row.against_baseline for row in pairs.values()])
    over_controls = _corrected([row.against_control for row in pairs.values()])
    gains = []
    for (name, row), delta, over in zip(pairs.items(), deltas, over_controls, strict=True):
        if delta is not None:
            table = comparisons[name]
            controls = (r.against_baseline for r in table.rows if r.system == table.control)
            baseline, control = table.rows[0].test_bleu, next(controls, None)
            gains.append(Gain(name, baseline, delta, over, control, row.n_runs))
    return Gains(system, gains)


def row_of(table: Comparison, system: str, name: str) -> ResultRow:
    """The row of a system in a table of some name; ConfigError if it has none, or the system is its first."""
    for row in table.rows[1:]:
        if row.system == system:
            return row
    names = ", ".join(row.system for row in table.rows[1:])
    raise ConfigError(
        f"the table {name} sets no system {system!r} against its first; it has {names}"
    )


def _corrected(contrasts: Sequence[Contrast | None]) -> list[Contrast | None]:
    corrected = iter(holm([each.p_value for each in contrasts if each is not None]))
    return [
        None if each is None else replace(each, corrected_p_value=next(corrected))
        for each in contrasts
    ]


FEWEST_TABLES = 2


@dataclass(frozen=True)
class Estimate:
    """A mean of several gains.

    Attributes:
        delta: in BLEU.
        interval: ends of its 95% interval.
        p_value: how often a mean would be at least as far from 0 if there were no gain.
        degrees_of_freedom: of the t distribution of interval and p-value.
    """

    delta: float
    standard_error: float
    interval: tuple[float, float]
    p_value: float
    degrees_of_freedom: float


@dataclass(frozen=True)
class PooledGain:
    """The gain in one of the tables.

    Attributes:
        delta: test BLEU of the system minus that of the table's first system.
        standard_error: of the delta, over texts and runs.
        fixed_weight: its share in the mean of fixed effects, 0 to 1.
        random_weight: the same in that of random effects.
    """

    table: str
    delta: float
    standard_error: float
    fixed_weight: float
    random_weight: float
    n_networks: int


@dataclass(frozen=True)
class Pooled:
    """The gains of a system in several tables, as one estimate.

    Attributes:
        fixed: the mean with weights of inverse variances: one gain for all tables.
        random: the mean where each table has a gain of its own around it.
        q: Cochran's Q, the weighted sum of squares about the fixed mean.
        q_p_value: how often Q would be as large if all tables had one gain.
        i_squared: share of the variance between the gains that their errors do not explain, 0 to 1.
        tau_squared: variance of the tables' own gains, in BLEU^2.
    """

    system: str
    rows: list[PooledGain]
    fixed: Estimate
    random: Estimate
    q: float
    q_degrees_of_freedom: int
    q_p_value: float
    i_squared: float
    tau_squared: float


def pool(comparisons: Mapping[str, Comparison], system: str) -> Pooled:
    """Pool the gains of a system over the first system of each table (DerSimonian & Laird 1986).

    The fixed mean is that of `fixed_effect`, the random one that of `_random_effects`. Q and its p-value are
    those of Cochran (1954), I^2 that of Higgins & Thompson (2002). The tables are taken to be independent:
    test text, runs or networks that they share make the intervals too narrow.

    Raises:
        ConfigError: there is one table, a table has no such system, or no standard error above 0 for it.
    """
    if len(comparisons) < FEWEST_TABLES:
        raise ConfigError(f"found {len(comparisons)} table, expected two or more to pool")
    rows = {name: row_of(table, system, name) for name, table in comparisons.items()}
    gains = np.array([_gain(row.against_baseline, system, name) for name, row in rows.items()])
    deltas, errors, freedoms = gains.T
    variances, weights = errors**2, errors**-2
    fixed, q = fixed_effect(deltas, errors, freedoms)
    freedom = len(deltas) - 1
    scale = weights.sum() - weights @ weights / weights.sum()
    tau_squared = max(0.0, (q - freedom) / float(scale))
    random_weights = 1 / (variances + tau_squared)
    return Pooled(
        system=system,
        rows=[
            PooledGain(name, delta, error, fixed_share, random_share, row.n_networks)
            for (name, row), delta, error, fixed_share, random_share in zip(
                rows.items(),
                deltas.tolist(),
                errors.tolist(),
                (weights / weights.sum()).tolist(),
                (random_weights / random_weights.sum()).tolist(),
                strict=True,
            )
        ],
        fixed=fixed,
        random=_random_effects(deltas, random_weights),
        q=q,
        q_degrees_of_freedom=freedom,
        q_p_value=float(chi2.sf(q, freedom)),
        i_squared=max(0.0, 1 - freedom / q) if q else 0.0,
        tau_squared=tau_squared,
    )


def fixed_effect(
    deltas: NDArray[np.float64], errors: NDArray[np.float64], freedoms: NDArray[np.float64]
) -> tuple[Estimate, float]:
    """The mean of gains, each weighted by its inverse variance, and Cochran's Q (1954) of them.

    The variances are estimates themselves, with n_i degrees of freedom each, infinite where they are known.
    With shares c_i of the weights, which add up to 1, the variance of the mean is (1 + 4 sum c_i (1 - c_i) /
    n_i) / sum of the weights, and its degrees of freedom are 1 / sum(c_i^2 / n_i) (Meier 1953, "Variance of a
    weighted mean", Biometrics 9).

    Deltas, their standard errors, above 0, and n_i, *Shape:* (n,).
    """
    weights = errors**-2
    shares = weights / weights.sum()
    mean = float(shares @ deltas)
    variance = (1 + 4 * (shares * (1 - shares) / freedoms).sum()) / weights.sum()
    inverse_freedom = float((shares**2 / freedoms).sum())
    freedom = 1 / inverse_freedom if inverse_freedom else np.inf
    return _estimate(mean, float(np.sqrt(variance)), freedom), float(weights @ (deltas - mean) ** 2)


def _random_effects(deltas: NDArray[np.float64], weights: NDArray[np.float64]) -> Estimate:
    """The mean with these weights; its variance is that of the gains about it (Knapp & Hartung 2003)."""
    freedom = len(deltas) - 1
    mean = float(weights @ deltas / weights.sum())
    # At least 1, as they advise: gains that happen to agree would have an interval of no width.
    scale = max(1.0, float(weights @ (deltas - mean) ** 2) / freedom)
    return _estimate(mean, float(np.sqrt(scale / weights.sum())), freedom)


def _gain(contrast: Contrast | None, system: str, table: str) -> tuple[float, float, float]:
    error = None if contrast is None else contrast.standard_error
    freedom = None if contrast is None else contrast.degrees_of_freedom
    if contrast is None or error is None or freedom is None:
        raise ConfigError(
            f"the table {table} has no standard error for {system}: an earlier version wrote it; "
            "run `tuning compare` again"
        )
    if not (0 < error < np.inf and freedom > 0 and np.isfinite(contrast.delta)):
        raise ConfigError(
            f"the table {table}: found a gain of {contrast.delta:g} with a standard error of {error:g} for "
            f"{system}, expected a finite gain and an error above 0; leave the table out"
        )
    return contrast.delta, error, freedom


def _estimate(mean: float, error: float, freedom: float) -> Estimate:
    reach = float(t.isf(LEVEL / 2, freedom)) * error
    p_value = float(2 * t.sf(abs(mean) / error, freedom))
    return Estimate(mean, error, (mean - reach, mean + reach), p_value, freedom)
