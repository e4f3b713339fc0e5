from __future__ import annotations

import random
from pathlib import Path

from moses_bridge.tables.check.table import check_table


def table(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "table"
    path.write_bytes(text)
    return path


def test_order_is_that_of_bytes(tmp_path: Path) -> None:
    rows = [b"B ||| x ||| 1\n", b"a ||| x ||| 1\n", b"\xc3\xa9 ||| x ||| 1\n"]
    assert check_table(table(tmp_path, b"".join(rows))).order.first_unsorted is None
    assert check_table(table(tmp_path, b"".join(rows[::-1]))).order.first_unsorted is not None


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
        assert (order.first_unsorted is None) == (lines == sorted(lines))
        assert order.first_ungrouped == (back[0] if back else None)
        assert (order.first_ungrouped is None) == (not back)
