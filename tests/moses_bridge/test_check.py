from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.check import check_table
from moses_bridge.textio import read_lines

GOOD = b"a ||| b c ||| 1 0.5 ||| 0-0 0-1\n"


def table(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "table"
    path.write_bytes(text)
    return path


def test_counts(tmp_path: Path) -> None:
    rows = [
        GOOD,
        b"a ||| c ||| 2.718 0 ||| 0-0\r\n",
        b"b ||| \xe9 ||| 1.5 1\n",
        b"a ||| d ||| 1 1\n",
    ]
    report = check_table(table(tmp_path, b"".join(rows)))
    assert report.faults == []
    assert (report.n_rows, report.n_sources, report.n_scores) == (4, 2, 2)
    assert (report.sorted_rows, report.grouped) == (False, False)
    assert (report.n_above_one, report.n_zero) == (2, 1)
    assert (report.n_carriage_returns, report.n_not_utf8) == (1, 1)
    assert "4 rows, 2 sources, 2 scores a row" in list(report.summary())


def test_every_fault_is_told_with_its_line(tmp_path: Path) -> None:
    rows = [
        GOOD,
        b"\n",
        b"a ||| b ||| 1\n",
        b"a ||| b ||| 1 nan\n",
        b"a ||| b ||| 1 -1\n",
        GOOD,
        b"a ||| b ||| 1 1 ||| 0-0 1-0 0-1\n",
        b"a ||| b ||| 1 1 ||| 0\n",
        b"a [b] ||| c ||| 1 1\n",
        b"[a] b ||| [c] ||| 1 1\n",
        b"a [X] ||| b [X] ||| 1 1\n",
    ]
    report = check_table(table(tmp_path, b"".join(rows)))
    lines = [fault.line for fault in report.faults]
    assert lines == [2, 3, 4, 5, 7, 7, 8, 9, 10, 11]
    assert [str(fault).split(",")[0].split(" found ")[1] for fault in report.faults] == [
        "1 column",
        "1 score",
        "the score 'nan'",
        "the score '-1'",
        "the link 1-0",
        "the link 0-1",
        "the link '0'",
        "the last word '[b]'",
        "the last word '[c]'",
        "a hierarchical rule ([X])",
    ]
    assert report.n_rows == 11


@pytest.mark.parametrize(("n_scores", "n_faults"), [(None, 0), (2, 0), (4, 1)])
def test_the_number_of_scores_can_be_asked_for(
    tmp_path: Path, n_scores: int | None, n_faults: int
) -> None:
    assert len(check_table(table(tmp_path, GOOD), n_scores).faults) == n_faults


def test_order_is_that_of_bytes(tmp_path: Path) -> None:
    rows = [b"B ||| x ||| 1\n", b"a ||| x ||| 1\n", b"\xc3\xa9 ||| x ||| 1\n"]
    assert check_table(table(tmp_path, b"".join(rows))).sorted_rows
    assert not check_table(table(tmp_path, b"".join(rows[::-1]))).sorted_rows


def test_an_empty_table(tmp_path: Path) -> None:
    report = check_table(table(tmp_path, b""))
    assert (report.n_rows, report.n_scores, report.faults) == (0, None, [])


@pytest.mark.parametrize("name", ["decode/phrase-table.gz", "extract/phrase-table.none.gz"])
def test_tables_of_moses_have_no_fault(golden: Path, name: str) -> None:
    report = check_table(golden / name, 4)
    sources = {line.split(b" ||| ")[0] for line in read_lines(golden / name)}
    assert report.faults == []
    assert report.n_sources == len(sources)
    assert report.sorted_rows and report.grouped
    assert report.n_zero == report.n_above_one == report.n_not_utf8 == 0
