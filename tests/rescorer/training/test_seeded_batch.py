from __future__ import annotations

import numpy as np
import pytest

from rescorer.training.seeded_batch import SeededBatch, even_parts


@pytest.mark.parametrize(
    ("n", "n_parts", "sizes"), [(7, 3, [3, 2, 2]), (2, 5, [1, 1]), (4, 1, [4])]
)
def test_parts_have_all_rows_and_know_the_others(n: int, n_parts: int, sizes: list[int]) -> None:
    batch = SeededBatch(np.arange(10, 10 + n), (1, 2))
    parts = batch.parts(n_parts)
    assert [len(part.rows) for part in parts] == sizes
    assert np.concatenate([part.rows for part in parts]).tolist() == batch.rows.tolist()
    for number, part in enumerate(parts):
        assert (part.part, part.seed) == (number, (1, 2))
        assert sorted([*part.rows, *part.others]) == batch.rows.tolist()


def test_a_part_has_a_size() -> None:
    assert [part.tolist() for part in even_parts(np.arange(0), 3)] == [[]]
    with pytest.raises(TypeError):
        even_parts(np.arange(3), "two")  # type: ignore[arg-type]
