"""Parts of hash tables in compiled code: hashes, the number of slots, and a set of whole numbers.

All are open-addressing tables with linear probing and a power of two of slots, at most half of them taken,
so a search ends after one or two steps. numba's own dictionaries are several times slower and take long to
compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moses_bridge.base.compiled.inner import inner

FREE = -1
FEWEST_SLOTS = 16
# 2^64 / golden ratio: spreads consecutive numbers (Knuth, TAOCP 3, section 6.4).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# An odd multiplier mixing all bits well: the first one of splitmix64 (Steele, Lea and Flood 2014).
MIXING = np.uint64(0xBF58476D1CE4E5B9)
# Start and multiplier of FNV-1a for 64 bits (Fowler, Noll and Vo).
FNV_START, FNV_PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


def n_slots(n_entries: int) -> int:
    """Number of slots of a table for so many entries: a power of two, at least twice as many."""
    slots = FEWEST_SLOTS
    while slots < 2 * n_entries:
        slots *= 2
    return slots


compiled_n_slots = inner(n_slots)


@inner
def hash_number(number: int) -> Any:
    """A hash of one whole number (uint64), for `slot_of`.

    Numbers differing only above their lowest 32 bits are spread badly.
    """
    return np.uint64(number) * GOLDEN


@inner
def hash_next(code: Any, number: int) -> Any:
    """The hash of a sequence extended by a number; `code` is the hash of the part before it.

    A sequence starts with the `hash_number` of something other than 0, or zeros would not count.
    """
    return (code ^ (code >> np.uint64(29)) ^ np.uint64(number)) * MIXING


@inner
def hash_bytes(data: Any, start: int, end: int) -> Any:
    """A hash of data[start:end]."""
    code = FNV_START
    for i in range(start, end):
        code = (code ^ np.uint64(data[np.uintp(i)])) * FNV_PRIME
    return code


@inner
def slot_of(code: Any, slots: int) -> int:
    """The first slot to search for a hash.

    The upper half is mixed into the lower one first, since the low bits of a product depend only on the low
    bits of its factors.
    """
    return int(np.int64((code ^ (code >> np.uint64(32))) & np.uint64(slots - 1)))


@inner
def next_slot(slot: int, slots: int) -> int:
    """The slot to search after one taken by another key."""
    return (slot + 1) & (slots - 1)


@inner
def find_key(keys: Any, key: int) -> int:
    """The slot of a whole number of at least 0 in int64 `keys`, FREE where unused, or the free slot for it."""
    slot = slot_of(hash_number(key), len(keys))
    while keys[np.uintp(slot)] != key and keys[np.uintp(slot)] != FREE:
        slot = next_slot(slot, len(keys))
    return int(slot)


@inner
def add_key(keys: Any, key: int) -> bool:
    """Enter a whole number of at least 0 and say whether it is new."""
    slot = find_key(keys, key)
    is_new = bool(keys[slot] == FREE)
    keys[slot] = key
    return is_new
