"""Reading n-best lists into a pool.

Sparse features, named values found in few hypotheses, become columns of the pool, 0 where a hypothesis has
none. Moses recognises them by the "_" in their label (`mert/Data.cpp:227`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.nbest import (
    BAR,
    MAX_DIGITS,
    NBestEntry,
    finite_number,
    parse_entry,
    parse_features,
    refuse_marks,
)
from moses_bridge.formats.words import to_number
from tuning.metrics.metric import MetricReferences
from tuning.optimisers.nbest_pool import (
    NBestPool,
    SparseValue,
    column_names,
    make_pool,
    with_sparse,
)


def read_pool(
    nbest_paths: Sequence[StrPath],
    references: MetricReferences,
    unescaped: Callable[[bytes], bytes] = bytes,
) -> NBestPool:
    """Pool the n-best lists of several iterations; the words are counted as `unescaped` gives them.

    Raises:
        InputError: a line is malformed, has a value that is not a finite number, has other features
            than the first one, or names a sentence without a reference.
    """
    lists = [_read_list(path, len(references)) for path in nbest_paths]
    names = next((nbest.names for nbest in lists if nbest.texts), ())
    if not names:
        raise InputError(nbest_paths[0], None, "no hypothesis", "an n-best list")
    for path, nbest in zip(nbest_paths, lists, strict=True):
        if nbest.names not in ((), names):
            raise _other_names(path, 1, nbest.names, names)
    ids = [number for nbest in lists for number in nbest.sentence_ids]
    texts = (unescaped(text) for nbest in lists for text in nbest.texts)
    statistics = references.statistics(zip(ids, texts, strict=True))
    values = np.concatenate([nbest.values.reshape(-1, len(names)) for nbest in lists])
    starts = np.cumsum([0, *(len(nbest.texts) for nbest in lists)])
    sparse = [
        (start + row, name, value)
        for start, nbest in zip(starts.tolist(), lists, strict=False)
        for row, name, value in nbest.sparse
    ]
    all_names, all_values = with_sparse(names, values, sparse, nbest_paths[0])
    return make_pool(all_names, np.array(ids, np.int64), all_values, statistics, references.metric)


@dataclass
class _NBestList:
    """The data used from one n-best list; `values` has one row for each hypothesis."""

    names: tuple[str, ...]
    sentence_ids: list[int]
    texts: list[bytes]
    values: NDArray[np.float64]
    sparse: list[SparseValue]


def _read_list(path: StrPath, n_sentences: int) -> _NBestList:
    """Read a list whose lines all have the features of its first line, sparse ones aside."""
    lines = enumerate(read_lines(path), start=1)
    ids: list[int] = []
    texts: list[bytes] = []
    tokens: list[bytes] = []
    sparse: list[SparseValue] = []
    layout: _Layout | None = None
    for line_number, line in lines:
        fields = line.split(BAR)
        if len(fields) > 3 and b"_" in fields[2]:
            fields[2], cut = cut_sparse(fields[2], path, line_number)
            line = BAR.join(fields)
            sparse += ((line_number - 1, name, value) for name, value in cut)
        if layout is None:
            layout = _Layout.of(parse_entry(line, path, line_number), path)
        found = fields[2].split() if len(fields) > 3 and fields[0].strip().isdigit() else []
        if not layout.fits(found):
            raise layout.fault(parse_entry(line, path, line_number), path)
        if len(fields[0]) > MAX_DIGITS:
            parse_entry(line, path, line_number)
        sentence_id = int(fields[0])
        if sentence_id >= n_sentences:
            expected = f"at most {n_sentences - 1}, as there are {n_sentences} references"
            raise InputError(path, line_number, f"sentence {sentence_id}", expected)
        ids.append(sentence_id)
        words = fields[1].strip(b" ")
        refuse_marks(words, path, line_number)
        texts.append(words)
        tokens.extend(layout.values(found))
    names = layout.names if layout else ()
    return _NBestList(names, ids, texts, _to_numbers(tokens, len(names), path), sparse)


@dataclass(frozen=True)
class _Layout:
    """The places of labels and values in the feature field of every line of a list."""

    names: tuple[str, ...]
    labels: tuple[bytes, ...]
    labels_of: Callable[[list[bytes]], tuple[bytes, ...]]
    values: Callable[[list[bytes]], tuple[bytes, ...]]
    n_tokens: int

    @classmethod
    def of(cls, entry: NBestEntry, path: StrPath) -> _Layout:
        names = _entry_names(entry, path)
        tokens = entry.features.split()
        is_label = [token.endswith(b"=") for token in tokens]
        where = [number for number, label in enumerate(is_label) if label]
        others = [number for number, label in enumerate(is_label) if not label]
        labels = tuple(tokens[number] for number in where)
        return cls(names, labels, _picker(where), _picker(others), len(tokens))

    def fits(self, tokens: list[bytes]) -> bool:
        return len(tokens) == self.n_tokens and self.labels_of(tokens) == self.labels

    def fault(self, entry: NBestEntry, path: StrPath) -> InputError:
        return _other_names(path, entry.line_number, _entry_names(entry, path), self.names)


def _picker(places: list[int]) -> Callable[[list[bytes]], tuple[bytes, ...]]:
    if len(places) < 2:
        return lambda tokens: tuple(tokens[place] for place in places)
    return cast(Callable[[list[bytes]], tuple[bytes, ...]], itemgetter(*places))


def _entry_names(entry: NBestEntry, path: StrPath) -> tuple[str, ...]:
    features = parse_features(entry, path)
    return column_names({name: len(values) for name, values in features.items()})


def _other_names(
    path: StrPath, line_number: int, found: tuple[str, ...], names: tuple[str, ...]
) -> InputError:
    hint = "All lines must have the features of the first one, in its order"
    return InputError(path, line_number, f"the features {', '.join(found)}", ", ".join(names), hint)


def _to_numbers(tokens: list[bytes], n_columns: int, path: StrPath) -> NDArray[np.float64]:
    """Values of all lines, *Shape:* (n_lines, n_columns); NaN and infinity are refused."""
    try:
        flat = np.fromiter(map(float, tokens), np.float64, len(tokens))
    except ValueError:
        flat = np.array([*map(to_number, tokens)])
    (bad,) = np.nonzero(~np.isfinite(flat))
    if len(bad):
        place = int(bad[0])
        line_number = place // n_columns + 1
        value = tokens[place].decode("utf-8", "replace")
        raise InputError(path, line_number, f"the value {value!r}", "a finite number")
    return flat.reshape(-1, max(1, n_columns))


def cut_sparse(
    features: bytes, path: StrPath, line_number: int
) -> tuple[bytes, list[tuple[str, float]]]:
    """The feature field of an n-best line without its sparse features, and name and value of each of these.

    Raises:
        InputError: a sparse feature has not exactly one finite value, or comes twice.
    """
    dense: list[bytes] = []
    cut: dict[str, list[bytes]] = {}
    values = dense
    for token in features.split():
        if token.endswith(b"="):
            name = token[:-1].decode("utf-8", "surrogateescape")
            if name in cut:
                raise InputError(path, line_number, f"{name} twice", "each feature once")
            values = cut.setdefault(name, []) if "_" in name else dense
            if values is not dense:
                continue
        values.append(token)
    return b" ".join(dense), [
        (name, _only_value(name, found, path, line_number)) for name, found in cut.items()
    ]


def _only_value(name: str, values: Sequence[bytes], path: StrPath, line_number: int) -> float:
    if len(values) != 1:
        hint = f'Moses takes "{name}" for a sparse feature because of the "_"'
        raise InputError(path, line_number, f"{len(values)} values of {name}", "1", hint)
    return finite_number(values[0], path, line_number)
