"""Arrays for compiled code, made from the annotations of their NamedTuple."""

from __future__ import annotations

from typing import Any, TypeVar, cast, get_type_hints

import numpy as np

Arrays = TypeVar("Arrays", bound=tuple[Any, ...])


def empty_arrays(kind: type[Arrays], n: int, **others: Any) -> Arrays:
    """A NamedTuple of arrays of n numbers each, of the annotated types; `others` are fields as they are."""
    hints = get_type_hints(kind)
    kinds = {
        name: hint.__args__[1].__args__[0] for name, hint in hints.items() if name not in others
    }
    arrays = {name: np.empty(n, number) for name, number in kinds.items()}
    return cast(Any, kind)(**arrays, **others)  # type: ignore[no-any-return]
