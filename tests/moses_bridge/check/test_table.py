from __future__ import annotations

import random
from pathlib import Path

import pytest

from moses_bridge.check import table_contents
from moses_bridge.check.table import CheckReport, check_table
from moses_bridge.errors import InputError
from moses_bridge.textio import read_lines, write_lines

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
    ]
    report = check_table(table(tmp_path, b"".join(rows)))
    assert report.faults == []
    assert (report.n_rows, report.n_scores) == (6, 2)
    assert report.score_counts == {2: 6}
    assert (report.order.n_sources, report.order.first_unsorted) == (2, 4)
    assert (report.order.first_ungrouped, report.order.grouped) == (4, False)
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
    }
    summary = list(report.summary())
    assert summary[:2] == [
        "6 rows, 2 sources, 2 scores a row",
        "sorted as LC_ALL=C sort, for processPhraseTableMin: no (first in line 4)",
    ]
    assert "scores above 1: 2 (first in line 2)" in summary
    assert summary[-1] == "faults: 0"


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
    assert report.contents.count(table_contents.NO_NUMBER) == 1
    assert report.contents.count(table_contents.NEGATIVE) == 1
    assert "13 rows, 3 sources, 1 scores in 1 rows, 2 scores in 11 rows" in report.summary()


def test_a_row_may_have_several_faults(tmp_path: Path) -> None:
    rows = [GOOD, b"[a] ||| b|| ||| nan -1 0.5x ||| 5-0 ||| ||| f ||| {{Nonsense 1}}\r\n"]
    report = check_table(table(tmp_path, b"".join(rows)))
    assert {fault.line for fault in report.faults} == {2}
    assert found(report) == [
        *("3 scores", "the score 'nan'", "the score '-1'", "the score '0.5x'"),
        *("the word '[a]'", "the word 'b||'", "the link 5-0 of 1 source and 1 target words"),
        *("1 words of sparse features", "the property 'Nonsense'"),
    ]


@pytest.mark.parametrize(
    ("tail", "faults"),
    [
        (b"||| 0-0 ||| 1 2 1 ||| dom_x 1 l -0.5 ||| {{Counts 1 2}} {{Tree [a [b]]}}", []),
        (b"||| 0-0 ||| 1 2 1 ||| |||\r", []),
        (b"||| 0-0 ||| not read ||| |||", []),
        (b"||| ||| ||| a x", ["the sparse value 'x'"]),
        (b"||| ||| ||| a 1_0 b", ["3 words of sparse features", "the sparse value '1_0'"]),
        (b"||| ||| ||| ||| {{Tree a", ["the properties '{{Tree a'"]),
        (b"||| ||| ||| ||| Tree {{Tree a}}", ["the properties 'Tree {{Tree a}}'"]),
        (b"||| ||| ||| ||| ||| 7", ["8 columns"]),
    ],
)
def test_columns_behind_the_alignment(tmp_path: Path, tail: bytes, faults: list[str]) -> None:
    report = check_table(table(tmp_path, b"a ||| b ||| 1 " + tail + b"\n"))
    assert found(report) == faults


def test_only_blanks_and_tabs_separate(tmp_path: Path) -> None:
    rows = [
        b"a\x0bb\tc\x0c ||| d\re ||| 1 \t 1 ||| 1-0\n",
        b"f\xc2\xa0g ||| h\xe2\x80\xa8i ||| 1 1 ||| 0-0 1-0\n",
        b"k ||| l ||| 1\x0b1\n",
    ]
    report = check_table(table(tmp_path, b"".join(rows)))
    assert found(report) == [
        "the link 1-0 of 1 source and 1 target words",
        "1 score",
        "the score '1\\x0b1'",
    ]


@pytest.mark.parametrize(
    ("rows", "source", "target"),
    [
        ([b"a ||| b"], "1", "1"),
        ([b"a|N b|V ||| c|x|y d|x|z", b"e|N ||| c|x|y"], "2", "3"),
        ([b"a ||| b", b"a|N ||| b", b"c ||| d"], "1, 2 in 1 rows (first in line 2)", "1"),
        ([b"a|N ||| b", b"a|N ||| b", b"c ||| d"], "2, 1 in 1 rows", "1"),
        ([b"a|N b ||| c"], "mixed", "1"),
    ],
)
def test_likely_factors(tmp_path: Path, rows: list[bytes], source: str, target: str) -> None:
    report = check_table(table(tmp_path, b"".join(row + b" ||| 1\n" for row in rows)))
    assert report.faults == []
    assert f"factors of source words: {source}" in report.summary()
    assert f"factors of target words: {target}" in report.summary()


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


def test_order_is_that_of_bytes(tmp_path: Path) -> None:
    rows = [b"B ||| x ||| 1\n", b"a ||| x ||| 1\n", b"\xc3\xa9 ||| x ||| 1\n"]
    assert check_table(table(tmp_path, b"".join(rows))).order.sorted_rows
    assert not check_table(table(tmp_path, b"".join(rows[::-1]))).order.sorted_rows


def test_order_against_lists_and_sets(tmp_path: Path) -> None:
    rng = random.Random(3)
    for _ in range(50):
        sources = [b"%d" % rng.randrange(4) for _ in range(rng.randrange(1, 8))]
        lines = [b"%s ||| x ||| 1" % source for source in sources]
        order = check_table(table(tmp_path, b"\n".join(lines))).order
        back = [
            number
            for number, source in enumerate(sources, start=1)
            if source in sources[: number - 1] and source != sources[number - 2]
        ]
        assert order.n_sources == len(set(sources))
        assert order.sorted_rows == (lines == sorted(lines))
        assert order.first_ungrouped == (back[0] if back else None)
        assert order.grouped == (not back)


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
    assert report.order.sorted_rows and report.order.grouped
    assert set(report.contents.tallies) <= {table_contents.NOT_ASCII}
