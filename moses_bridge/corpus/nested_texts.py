"""Training texts of several sizes, each the beginning of the next one, as a learning curve needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from moses_bridge.base.errors import ConfigError, UserError

Pair = TypeVar("Pair")


def nested_texts(
    pairs: Sequence[Pair],
    document_of: Callable[[Pair], str],
    key_of: Callable[[str], bytes],
    sizes: Sequence[int],
) -> dict[int, list[Pair]]:
    """The first pairs of documents in the order of a keyed hash of their names.

    Whole documents fill a text until it has its size; the last of them is cut.

    Args:
        pairs: training text.
        document_of: the name of a pair's document.
        key_of: the hash of a name.
        sizes: how many pairs each text has.

    Returns:
        The text of each size; one begins with all smaller ones.

    Raises:
        UserError: there are fewer pairs than the largest size.
    """
    if max(sizes, default=0) > len(pairs):
        raise UserError(
            f"{len(pairs):,} pairs are left for training, but train_sizes has {max(sizes):,}; leave"
            " that size out"
        )
    keys = {name: key_of(name) for name in set(map(document_of, pairs))}
    in_order = sorted(pairs, key=lambda pair: keys[document_of(pair)])
    return {size: in_order[:size] for size in sizes}


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse sizes that are not above 0 and ascending.

    Raises:
        ConfigError: they are not.
    """
    if any(smaller >= larger for smaller, larger in pairwise((0, *sizes))):
        raise ConfigError(f"train_sizes is {list(sizes)}, expected ascending numbers above 0")
