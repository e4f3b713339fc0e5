"""Some rows of a phrase table, drawn by chance, all equally likely."""

from __future__ import annotations

import random
from collections.abc import Iterable

from rescorer.tables.rows import NumberedRow

SEED = 1  # the same table always gives the same sample


def sample_rows(rows: Iterable[NumberedRow], size: int) -> list[NumberedRow]:
    """So many rows, in their order; all of them where there are no more.

    Reservoir sampling (Vitter 1985, algorithm R): one pass, whatever the number of rows.
    """
    rng = random.Random(SEED)
    kept: list[NumberedRow] = []
    for n_earlier, row in enumerate(rows):
        if n_earlier < size:
            kept.append(row)
        elif (place := rng.randrange(n_earlier + 1)) < size:
            kept[place] = row
    return sorted(kept)
