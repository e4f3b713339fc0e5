"""The pooled gains of a system as a frame of formatted cells, and the notes below it."""

from __future__ import annotations

import pandas as pd

from tuning.compare.pooling import Estimate, Pooled, PooledGain


def pool_frame(pooled: Pooled) -> pd.DataFrame:
    """One row for each table, then the two means."""
    means = {"fixed effect": pooled.fixed, "random effects": pooled.random}
    rows = [_gain_cells(row) for row in pooled.rows]
    return pd.DataFrame([*rows, *(_mean_cells(name, mean) for name, mean in means.items())])


def pool_notes(pooled: Pooled) -> list[str]:
    """Notes on how the numbers were made, one line each."""
    n_networks = sum(row.n_networks for row in pooled.rows)
    return [
        f"delta: {pooled.system} against the first system of each table, in BLEU on tokens; s.e. over texts "
        f"and runs as in the tables; {len(pooled.rows)} tables, {n_networks} networks in all.",
        "fixed effect: mean with inverse variances as weights, one gain for all tables; random effects: each "
        "table has a gain of its own (DerSimonian & Laird 1986); intervals and p by the normal distribution.",
        f"Q = {pooled.q:.2f} on {pooled.q_degrees_of_freedom} degrees of freedom, p = {pooled.q_p_value:.4f}; "
        f"I^2 = {100 * pooled.i_squared:.1f}%; tau^2 = {pooled.tau_squared:.4f}.",
        "Tables that share test text, runs or networks are not independent: the intervals are then too narrow.",
    ]


def _gain_cells(row: PooledGain) -> dict[str, str]:
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
    low, high = mean.interval
    return {
        "table": name,
        "delta": f"{mean.delta:+.2f}",
        "s.e.": f"{mean.standard_error:.3f}",
        "95%": f"{low:+.2f}..{high:+.2f}",
        "p": f"{mean.p_value:.4f}",
        "weight": "",
        "random weight": "",
    }
