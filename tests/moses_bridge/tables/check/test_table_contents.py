from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.tables.check.table import check_table


def table(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "table"
    path.write_bytes(text)
    return path


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
