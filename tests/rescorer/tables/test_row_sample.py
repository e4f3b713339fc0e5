from __future__ import annotations

import numpy as np

from rescorer.tables.row_sample import sample_rows


def test_a_small_table_is_its_sample() -> None:
    rows = [(3, b"a"), (4, b"b"), (9, b"c")]
    assert sample_rows(rows, 3) == rows
    assert sample_rows(rows, 10) == rows


def test_a_sample_is_in_order_and_always_the_same() -> None:
    rows = [(number, b"row %d" % number) for number in range(1, 1001)]
    sample = sample_rows(rows, 50)
    assert len(set(sample)) == 50
    assert sample == sorted(sample) == sample_rows(iter(rows), 50)


def test_early_and_late_rows_are_equally_likely() -> None:
    # 2,000 of 20,000 rows without replacement: each tenth of the table gets 200 on average, s.d. 12.7.
    sample = sample_rows([(number, b"") for number in range(20_000)], 2000)
    counts = np.bincount([number // 2000 for number, _ in sample], minlength=10)
    assert np.abs(counts - 200).max() < 4 * 12.7
