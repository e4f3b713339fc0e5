"""Equal items told once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.numbered_phrases import NumberedPhrases

Item = TypeVar("Item", bound=Hashable)


def distinct(items: Sequence[Item]) -> tuple[list[Item], NDArray[np.int64]]:
    """The different items in the order of their first occurrence, and which of them each item is.

    Returns:
        Some of the items, and *Shape:* (n_items,).
    """
    numbers = {item: number for number, item in enumerate(dict.fromkeys(items))}
    return list(numbers), np.fromiter((numbers[item] for item in items), np.int64, len(items))


def distinct_phrases(phrases: Sequence[bytes]) -> tuple[Sequence[bytes], NDArray[np.int64]]:
    """As `distinct`; phrases given as numbers of words stay numbers."""
    return phrases.distinct() if isinstance(phrases, NumberedPhrases) else distinct(phrases)
