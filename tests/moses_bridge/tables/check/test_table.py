from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.tables.check import table_contents
from moses_bridge.tables.check.table import CheckReport, check_table

GOOD = b"a ||| b c ||| 1 0.5 ||| 0-0 0-1\n"


def table(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "table"
    path.write_bytes(text)
    return path


def found(report: CheckReport) -> list[str]:
    """What the faults say was found."""
    return [fault.found for fault in report.faults]


def test_counts(tmp_path: Path) -> None:
    rows = [
        GOOD,
        b"a ||| c ||| 2.718 0 ||| 0-0\r\n",
        b"b ||| \xe9 ||| 1.5 1\n",
        b"a ||| d\xc2\xa0e ||| 1 1\n",
        b"a ||| d\xc2\xa0e ||| 1 1\n",
        b"a |||  ||| 1 1\n",
        b"c ||| d\re ||| 1 1\n",
    ]
    report = check_table(table(tmp_path, b"".join(rows)))
    assert report.faults == []
    assert (report.n_rows, report.n_scores) == (7, 2)
    assert report.score_counts == {2: 7}
    assert (report.order.n_sources, report.order.first_unsorted) == (3, 4)
    assert report.order.first_ungrouped == 4
    tallies = {
        what: (tally.count, tally.first_line) for what, tally in report.contents.tallies.items()
    }
    assert tallies == {
        table_contents.ABOVE_ONE: (2, 2),
        table_contents.ZERO: (1, 2),
        table_contents.CARRIAGE_RETURNS: (1, 2),
        table_contents.NOT_UTF8: (1, 3),
        table_contents.NOT_ASCII: (2, 4),
        table_contents.UNICODE_BLANKS: (2, 4),
        table_contents.TWICE: (1, 5),
        table_contents.EMPTY_TARGET: (1, 6),
        table_contents.RETURNS_IN_WORDS: (1, 7),
    }
    summary = list(report.summary())
    assert summary[:2] == [
        "7 rows, 3 sources, 2 scores a row",
        "sorted as LC_ALL=C sort, for processPhraseTableMin: no (first in line 4)",
    ]
    assert "scores above 1: 2 (first in line 2)" in summary
    assert summary[-1] == "faults: 0"


@pytest.mark.parametrize("blank", ["\ufeff", "\u2028", "\u200b", "\u2060", "\u3000"])
def test_marks_without_width_are_counted(tmp_path: Path, blank: str) -> None:
    report = check_table(table(tmp_path, blank.encode() + GOOD))
    assert report.contents.tallies[table_contents.UNICODE_BLANKS].count == 1


def test_every_fault_is_told_with_its_line(tmp_path: Path) -> None:
    rows = [
        GOOD,
        b"\n",
        b"a ||| b ||| 1\n",
        b"a ||| b ||| 1 nan\n",
        b"a ||| b ||| 1 -1\n",
        GOOD,
        b"a ||| b ||| 1 1 ||| 0-0 1-0 0-1\n",
        b"a ||| b ||| 1 1 ||| 0 0-0 x-1\n",
        b"a [b] ||| c ||| 1 1\n",
        b"[a] b ||| [c] ||| 1 1\n",
        b"a [X] ||| b [X] ||| 1 1\n",
        b"a |||| b ||| 1 1\n",
        b" ||| b ||| 1 1\n",
    ]
    report = check_table(table(tmp_path, b"".join(rows)))
    assert list(zip([fault.line for fault in report.faults], found(report), strict=True)) == [
        (2, "1 column"),
        (3, "1 score"),
        (4, "the score 'nan'"),
        (5, "the score '-1'"),
        (7, "the link 1-0 of 1 source and 1 target words"),
        (7, "the link 0-1 of 1 source and 1 target words"),
        (8, "the link '0'"),
        (8, "the link 'x-1'"),
        (9, "the word '[b]'"),
        (10, "the word '[a]'"),
        (10, "the word '[c]'"),
        (11, "a hierarchical rule (label '[X]')"),
        (12, "the word '|'"),
        (13, "an empty source phrase"),
    ]
    assert report.n_rows == 13
    assert report.contents.tallies[table_contents.NO_NUMBER].count == 1
    assert report.contents.tallies[table_contents.NEGATIVE].count == 1
    assert "13 rows, 3 sources, 1 scores in 1 rows, 2 scores in 11 rows" in report.summary()


def test_of_each_kind_some_faults_are_kept(tmp_path: Path) -> None:
    rows = [b"faulty\n"] * 50 + [GOOD, b"a ||| b ||| nan 1\n"]
    report = check_table(table(tmp_path, b"".join(rows)), max_shown=3)
    assert [fault.line for fault in report.faults] == [1, 2, 3, 52]
    assert report.n_faults == 51
    assert list(report.summary())[-3:] == [
        "faults: 51",
        "  expected at least 3 columns: source ||| target ||| scores: 50 (47 of them not shown)",
        "  expected a probability: 1",
    ]


@pytest.mark.parametrize(("n_scores", "n_faults"), [(None, 0), (2, 0), (4, 1)])
def test_the_number_of_scores_can_be_asked_for(
    tmp_path: Path, n_scores: int | None, n_faults: int
) -> None:
    assert len(check_table(table(tmp_path, GOOD), n_scores).faults) == n_faults


def test_an_empty_table(tmp_path: Path) -> None:
    report = check_table(table(tmp_path, b""))
    assert (report.n_rows, report.n_scores, report.faults) == (0, None, [])
    assert next(report.summary()) == "0 rows, 0 sources, 0 scores a row"


def test_a_damaged_file_is_the_last_fault(tmp_path: Path) -> None:
    path = tmp_path / "table.gz"
    write_lines(path, [b"%d ||| %d ||| 1" % (number, number**5) for number in range(20_000)])
    path.write_bytes(path.read_bytes()[:-100])
    report = check_table(path)
    assert [fault.line for fault in report.faults] == [report.n_rows + 1]
    assert "damaged data" in found(report)[0]
    with pytest.raises(InputError, match="nowhere"):
        check_table(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["decode/phrase-table.gz", "extract/phrase-table.none.gz"])
def test_tables_of_moses_have_no_fault(golden: Path, name: str) -> None:
    report = check_table(golden / name, 4)
    sources = {line.split(b" ||| ")[0] for line in read_lines(golden / name)}
    assert report.faults == []
    assert report.order.n_sources == len(sources)
    assert report.order.first_unsorted is report.order.first_ungrouped is None
    # Moses makes words of the blanks without width that its corpus has.
    assert set(report.contents.tallies) <= {table_contents.NOT_ASCII, table_contents.UNICODE_BLANKS}
