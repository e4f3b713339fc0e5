from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder.loaded_table import (
    BAD_SCORE,
    GOOD,
    LOG_FLOOR,
    N_SCORES,
    NO_SOURCE,
    parse_logs,
    read_table,
    refuse_row,
    row_end,
)


@njit
def logs(data: Any, out: Any) -> int:
    return parse_logs(data, 0, len(data), out)


@njit
def end_of_row(data: Any, end: int) -> int:
    return row_end(data, end)


def read(text: bytes, n_scores: int) -> tuple[int, list[float]]:
    out = np.zeros(n_scores, np.float32)
    return int(logs(np.frombuffer(text, np.uint8), out)), out.tolist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b" 1 0.5 ", [0.0, math.log(0.5)]),
        (b"\t2.718\t1e-3", [math.log(2.718), math.log(1e-3)]),
        # Moses's floor: of 0, and of numbers below e^-100.
        (b"0 1e-60", [LOG_FLOOR, LOG_FLOOR]),
        (b"1.23456e-30 9.999999e-44", [math.log(1.23456e-30), math.log(9.999999e-44)]),
    ],
)
def test_scores_become_logarithms_with_a_floor(text: bytes, values: list[float]) -> None:
    problem, found = read(text, 2)
    assert problem == GOOD
    assert found == np.array(values, np.float32).tolist()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"1", N_SCORES),
        (b"", N_SCORES),
        (b"1 1 1", N_SCORES),
        (b"1 -1", BAD_SCORE),
        (b"1 +1", BAD_SCORE),
        (b"1 nan", BAD_SCORE),
        (b"1 1e999", BAD_SCORE),
        (b"1 0x1", BAD_SCORE),
        (b"1 1.5.5", BAD_SCORE),
        (b"1 1e", BAD_SCORE),
    ],
)
def test_faulty_scores_are_distinguished(text: bytes, problem: int) -> None:
    assert read(text, 2)[0] == problem


def test_a_table_ends_in_a_line_feed_and_damage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(b"a ||| b\nc"))
    assert read_table(path).tobytes() == b"a ||| b\nc\n"
    (tmp_path / "empty").write_bytes(b"")
    assert read_table(tmp_path / "empty").tobytes() == b""
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="damaged data"):
        read_table(path)


def test_a_carriage_return_is_no_part_of_a_row() -> None:
    data = np.frombuffer(b"ab\r\n\nc\n", np.uint8)
    assert [end_of_row(data, end) for end in (3, 4, 6)] == [2, 4, 6]
    assert end_of_row(np.frombuffer(b"\n", np.uint8), 0) == 0


def test_a_fault_names_the_row_and_quotes_it() -> None:
    data = np.frombuffer(b"a ||| b\n ||| " + b"x" * 500 + b"\n", np.uint8)
    fault = refuse_row("table", data, 8, 1, NO_SOURCE, 4)
    assert fault.line == 2 and fault.expected == "words in column 1"
    assert "' ||| xxx" in fault.found and len(fault.found) < 140
    assert "4 scores in column 3" in str(refuse_row("table", data, 0, 0, N_SCORES, 4))
