"""The gains of one system in several tables, side by side: other texts, sizes or domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from moses_bridge.base.errors import ConfigError
from tuning.compare.comparison import Comparison, Contrast, ResultRow
from tuning.compare.significance import holm


@dataclass(frozen=True)
class Gain:
    """The system in one of the tables.

    Attributes:
        table: its name.
        baseline_bleu: test BLEU of the table's first system, mean over its runs, 0 to 100.
        against_baseline: the system set against that one, its p-value corrected for the number of tables.
        against_control: the same against the control; None where the table has none.
        control: the control set against the first system; None where the table has none.
        n_runs: tuning runs of the system.
    """

    table: str
    baseline_bleu: float
    against_baseline: Contrast
    against_control: Contrast | None
    control: Contrast | None
    n_runs: int


@dataclass(frozen=True)
class Gains:
    """One system in several tables.

    Attributes:
        system: its name in each table.
        rows: one a table, in the order given.
    """

    system: str
    rows: list[Gain]


def gains_of(comparisons: Mapping[str, Comparison], system: str) -> Gains:
    """The rows of one system in several tables.

    Args:
        comparisons: by the name of the table.
        system: a name found in each table, but not the first system's.

    Returns:
        p-values are corrected for the number of tables (Holm 1979), and no longer for the rows of each table.

    Raises:
        ConfigError: a table has no such system, or it is the one the others are compared with.
    """
    pairs = {name: row_of(table, system, name) for name, table in comparisons.items()}
    deltas = _corrected([row.against_baseline for row in pairs.values()])
    over_controls = _corrected([row.against_control for row in pairs.values()])
    return Gains(
        system,
        [
            Gain(
                name,
                comparisons[name].rows[0].test_bleu,
                delta,
                over_control,
                _control(comparisons[name]),
                row.n_runs,
            )
            for (name, row), delta, over_control in zip(
                pairs.items(), deltas, over_controls, strict=True
            )
            if delta is not None
        ],
    )


def row_of(table: Comparison, system: str, name: str) -> ResultRow:
    """The row of a system in a table of some name.

    Raises:
        ConfigError: the table has no such system, or it is the one the others are compared with.
    """
    for row in table.rows[1:]:
        if row.system == system:
            return row
    names = ", ".join(row.system for row in table.rows[1:])
    raise ConfigError(
        f"the table {name} sets no system {system!r} against its first; it has {names}"
    )


def _control(table: Comparison) -> Contrast | None:
    controls = (row.against_baseline for row in table.rows if row.system == table.control)
    return next(controls, None)


def _corrected(contrasts: Sequence[Contrast | None]) -> list[Contrast | None]:
    corrected = iter(holm([each.p_value for each in contrasts if each is not None]))
    return [
        None if each is None else replace(each, corrected_p_value=next(corrected))
        for each in contrasts
    ]
