from __future__ import annotations

import pytest
import torch
from torch import nn

from rescorer.windows.windowed import first_layer_tables


@pytest.mark.parametrize("width", [1, 3])
def test_a_sum_of_looked_up_rows_is_the_product_of_the_vectors_side_by_side(width: int) -> None:
    torch.manual_seed(width)
    embedding, layer = nn.Embedding(9, 4).double(), nn.Linear(width * 4, 5, bias=False).double()
    tables = first_layer_tables(embedding.weight, layer.weight)
    assert [table.shape for table in tables] == [(9, 5)] * width
    windows = torch.randint(0, 9, (20, width))
    found = sum(table[windows[:, place]] for place, table in enumerate(tables))
    torch.testing.assert_close(found, layer(embedding(windows).flatten(1)).detach())


def test_by_hand() -> None:
    """Words 2 and -1 at two places with factors 3 and 10."""
    embedding, layer = nn.Embedding(2, 1), nn.Linear(2, 1)
    with torch.no_grad():
        embedding.weight[:] = torch.tensor([[2.0], [-1.0]])
        layer.weight[:] = torch.tensor([[3.0, 10.0]])
    first, second = first_layer_tables(embedding.weight, layer.weight)
    assert (first.tolist(), second.tolist()) == ([[6], [-3]], [[20], [-10]])


def test_a_layer_of_another_width_is_refused() -> None:
    with pytest.raises(RuntimeError):
        first_layer_tables(torch.zeros(9, 4), torch.zeros(5, 10))
