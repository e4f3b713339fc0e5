"""A heap of numbers ordered by an array of keys, largest key first, for compiled code."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def heap_push(heap: Any, n_items: int, keys: Any, item: int) -> int:
    """Put an item into heap[:n_items]; returns the new number of items.

    Of equal keys the item with the smaller number comes first.
    """
    place = n_items
    while place > 0:
        parent = (place - 1) >> 1
        if not _before(keys, item, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item
    return n_items + 1


@njit(cache=True)
def heap_pop(heap: Any, n_items: int, keys: Any) -> tuple[int, int]:
    """Take the first item of heap[:n_items]; returns it and the new number of items."""
    top = heap[0]
    n_items -= 1
    item = heap[n_items]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= n_items:
            break
        if child + 1 < n_items and _before(keys, heap[child + 1], heap[child]):
            child += 1
        if not _before(keys, heap[child], item):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = item
    return top, n_items


@njit(cache=True, inline="always")
def _before(keys: Any, item: int, other: int) -> bool:
    return bool(keys[item] > keys[other] or (keys[item] == keys[other] and item < other))
