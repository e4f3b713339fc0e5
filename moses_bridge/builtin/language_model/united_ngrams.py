"""The n-grams of several language models, each once, as numbers of words of them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.language_model.arpa import Arpa


@dataclass(frozen=True)
class UnitedNGrams:
    """The union of the n-grams of models.

    Attributes:
        words: words of all models; word i of the union is `words[i]`.
        contexts: for each order, (n,) which n-gram of the order below each n-gram begins with; 0 for order 1.
        last_words: for each order, (n,) the last word of each n-gram.
    """

    words: list[bytes]
    contexts: list[NDArray[np.int64]]
    last_words: list[NDArray[np.int64]]

    def ids(self, order: int) -> NDArray[np.int32]:
        """(n, order) words of the n-grams of an order, in text order."""
        rows = np.arange(len(self.last_words[order - 1]))
        ids = np.empty((len(rows), order), np.int32)
        for column in range(order - 1, -1, -1):
            ids[:, column] = self.last_words[column][rows]
            rows = self.contexts[column][rows]
        return ids


def unite(models: Sequence[Arpa]) -> UnitedNGrams:
    """Bring the n-grams of models together, sorted by their words' numbers, which are in order of appearance.

    Args:
        models: models in which all words but the last of each n-gram are an n-gram too.
    """
    numbers = {word: 0 for model in models for word in model.words}
    numbers.update(zip(numbers, range(len(numbers)), strict=True))
    n_words = len(numbers)
    of_models = [np.array([numbers[word] for word in model.words]) for model in models]
    keys: list[NDArray[np.int64]] = [np.arange(n_words)]
    for order in range(2, max(model.order for model in models) + 1):
        longest = [
            _keys(own[model.sections[order - 1].ids], keys, n_words)
            for own, model in zip(of_models, models, strict=True)
            if model.order >= order
        ]
        keys.append(np.unique(np.concatenate(longest)))
    return UnitedNGrams(
        list(numbers), [key // n_words for key in keys], [key % n_words for key in keys]
    )


def _keys(ids: NDArray[Any], keys: Sequence[NDArray[np.int64]], n_words: int) -> NDArray[np.int64]:
    """The number of each n-gram's context times the number of words, plus the last word.

    Args:
        ids: (n, order) words of the union.
        keys: the same of the union's n-grams, for each lower order.
        n_words: words of the union.
    """
    contexts = ids[:, 0].astype(np.int64)
    for column in range(1, ids.shape[1] - 1):
        contexts = np.searchsorted(keys[column], contexts * n_words + ids[:, column])
    return np.asarray(contexts * n_words + ids[:, -1])
