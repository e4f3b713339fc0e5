"""Small phrase tables, right and faulty ones, that the decoder of Moses reads or refuses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from moses_bridge.tables.check.table import check_table

TABLES = Path(__file__).resolve().parents[3] / "data" / "moses" / "check" / "tables.json"
# Moses passes over the row, or takes it and goes wrong later.
WE_ARE_STRICTER = {
    "a link behind the source",
    "a negative score",
    "a sparse value that is no number",
    "an empty source",
    "a source of tabs",
    "infinity",
    "Hiero",
}
WE_ARE_LAXER = {"a property with a value too few"}


@dataclass(frozen=True)
class Case:
    """A table, and whether Moses reads it."""

    name: str
    n_scores: int
    table: bytes
    read: bool


def cases() -> list[Case]:
    return [
        Case(
            row["case"], row["n_scores"], row["table"].encode("latin-1"), row["moses"] == "reads it"
        )
        for row in json.loads(TABLES.read_text())
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_faults_are_found_where_moses_refuses_a_table(case: Case, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(case.table)
    faults = check_table(tmp_path / "table", case.n_scores).faults
    if case.name in WE_ARE_STRICTER:
        assert case.read and faults
    elif case.name in WE_ARE_LAXER:
        assert not case.read and not faults
    else:
        assert case.read == (not faults)
