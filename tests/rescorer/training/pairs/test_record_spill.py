"""Rows to records, records to the disk and back in parts, and distinct pairs, against Python."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.errors import InputError
from rescorer.training.pairs import record_spill
from rescorer.training.pairs.phrase_pairs import PairChoice, spill_rows
from rescorer.training.pairs.record_spill import N_PARTS, RecordSpill, distinct_pairs
from rescorer.training.pairs.row_records import HEADER

Record = tuple[int, list[int], list[int], float]


def records_of(spill: RecordSpill) -> Iterator[tuple[int, Record]]:
    """Part, and row, words and count of each record, decoded by hand."""
    for number in spill.parts():
        part = spill.part(number)
        at = run = 0
        while at < len(part.records):
            while at >= part.run_ends[run]:
                run += 1
            row, sizes, low, high = part.records[at : at + HEADER].tolist()
            n_source, n_target = sizes & 0xFFFF, sizes >> 16
            count = np.array([low | high << 32], np.uint64).view(np.float64)[0]
            words = part.records[at + HEADER : at + HEADER + n_source + n_target].tolist()
            yield (
                number,
                (int(row + part.run_rows[run]), words[:n_source], words[n_source:], float(count)),
            )
            at += HEADER + n_source + n_target


@pytest.mark.parametrize("run_numbers", [64, 2**20])
def test_all_rows_come_back_in_the_part_of_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_numbers: int
) -> None:
    monkeypatch.setattr(record_spill, "RUN_NUMBERS", run_numbers)
    monkeypatch.setattr("moses_bridge.base.textio.PIECE_BYTES", 200)
    rng = np.random.default_rng(2)
    sides = [
        [[f"w{w}" for w in rng.integers(0, 9, rng.integers(1, 4))] for _ in "st"] for _ in range(99)
    ]
    table = tmp_path / "table"
    rows = [
        f"{' '.join(s)} ||| {' '.join(t)} ||| 1 ||| ||| 1 1 {n / 8}\n"
        for n, (s, t) in enumerate(sides)
    ]
    table.write_text("".join(rows))
    lexicon = Lexicon()
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        spill = RecordSpill(cast(BinaryIO, file))
        n_rows = spill_rows(table, PairChoice(with_counts=True), lexicon, spill)
        found = [*records_of(spill)]
        pairs = [distinct_pairs(*spill.part(number)) for number in range(N_PARTS)]
    words = [word.decode() for word in lexicon.words()]
    named = sorted(
        (row, [words[w] for w in source], [words[w] for w in target], count)
        for _, (row, source, target, count) in found
    )
    # A count of 0 is none: the first row is left out.
    assert n_rows == 99 and named == [(n, s, t, n / 8) for n, (s, t) in enumerate(sides)][1:]
    homes = {tuple(source): number for number, (_, source, _, _) in found}
    assert all(homes[tuple(source)] == number for number, (_, source, _, _) in found)
    assert sum(len(part.target_lens) for part in pairs) == len({f"{s} {t}" for s, t in sides[1:]})
    assert sum(len(part.source_lens) for part in pairs) == len(homes)


def test_a_fault_behind_many_rows_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_spill, "RUN_NUMBERS", 64)
    monkeypatch.setattr("moses_bridge.base.textio.PIECE_BYTES", 50)
    (tmp_path / "table").write_bytes(b"a ||| b ||| 1\n" * 300 + b"a ||| b\n")
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        spill = RecordSpill(cast(BinaryIO, file))
        with pytest.raises(InputError, match="table:301: found 2 columns"):
            spill_rows(tmp_path / "table", PairChoice(), Lexicon(), spill)
