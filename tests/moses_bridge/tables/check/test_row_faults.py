from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.tables.check.table import CheckReport, check_table

GOOD = b"a ||| b c ||| 1 0.5 ||| 0-0 0-1\n"


def table(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "table"
    path.write_bytes(text)
    return path


def found(report: CheckReport) -> list[str]:
    """What the faults say was found."""
    return [fault.found for fault in report.faults]


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
