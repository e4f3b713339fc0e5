from __future__ import annotations

import math
from pathlib import Path

import pytest

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableFile, load_tables
from moses_bridge.builtin.decoder.reordering_table import read_reordering


def read_pairs(folder: Path, table: bytes, n_scores: int = 2) -> tuple[LoadedTable, Lexicon]:
    (folder / "table").write_bytes(table)
    words = Lexicon([b"a", b"b"])
    return load_tables([TableFile(folder / "table", n_scores)], words), words


def test_reordering_rows_find_their_pairs(tmp_path: Path) -> None:
    pairs, words = read_pairs(
        tmp_path, b"x ||| a ||| 1 1\nx ||| b ||| 1 1\nx y ||| a b ||| 1 1\nx ||| a ||| 1 1\n"
    )
    (tmp_path / "reordering").write_bytes(
        b"x y ||| a b ||| .1 .2 .3 .4 .5 0\n"
        b"unknown ||| a ||| 1 1 1 1 1 1\n"
        b"x ||| a b ||| 1 1 1 1 1 1\n"
        b"x ||| a ||| .5 .5 .5 .5 .5 .5\n"
    )
    scores = read_reordering(tmp_path / "reordering", pairs, words.tables)
    half = [math.log(0.5)] * 6
    assert scores[0] == pytest.approx(half) and scores[3] == pytest.approx(half)
    assert scores[1].tolist() == [0.0] * 6
    assert scores[2] == pytest.approx([math.log(p) for p in (0.1, 0.2, 0.3, 0.4, 0.5)] + [-100.0])


@pytest.mark.parametrize("row", [b"x ||| .5", b"x ||| a ||| 1 1 1", b"x ||| a ||| 1 1 1 1 1 -1"])
def test_a_faulty_reordering_row_is_named(tmp_path: Path, row: bytes) -> None:
    pairs, words = read_pairs(tmp_path, b"x ||| a ||| 1 1\n")
    (tmp_path / "reordering").write_bytes(row)
    with pytest.raises(InputError, match="reordering:1: "):
        read_reordering(tmp_path / "reordering", pairs, words.tables)
