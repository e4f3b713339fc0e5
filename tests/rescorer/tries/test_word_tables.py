from __future__ import annotations

import torch
from torch import nn

from rescorer.tries.recurrent import NO_WORD, word_vectors
from rescorer.tries.word_tables import with_no_word


def test_no_word_has_a_vector_of_zeros() -> None:
    """Looked up in the table and computed by the embedding."""
    embedding = nn.Embedding(3, 2)
    words = torch.tensor([2, NO_WORD, 0])
    expected = embedding.weight[[2, 0, 0]] * torch.tensor([[1.0], [0.0], [1.0]])
    torch.testing.assert_close(with_no_word(embedding.weight)[words], expected)
    torch.testing.assert_close(word_vectors(embedding, words), expected)
