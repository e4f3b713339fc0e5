"""The best paths of a lattice, and their features.

A path is the best one or differs from a better one first (seen from the end of the sentence) by an
arc: best-first enumeration by deviations, as in moses/TrellisPathCollection.h. Every path is made
once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from moses_bridge.builtin.decoder.heap import heap_pop, heap_push
from moses_bridge.builtin.decoder.hypothesis import Lattice, mix
from moses_bridge.builtin.decoder.ranking import OptionTables
from moses_bridge.builtin.decoder.cube_pruning import orientation

N_REORDERING_SCORES = 6
LEADING = N_REORDERING_SCORES + 5


class Paths(NamedTuple):
    """The best paths with distinct target words, best first.

    Attributes:
        hypotheses: (n_paths, n_words) hypotheses from the end of the sentence to its start.
        n_phrases: (n_paths,) how many of them count.
        features: (n_paths, 11 + n_scores): six reordering scores, distortion, language model, minus
            the number of words, number of phrases, number of copied words, scores of the table.
    """

    hypotheses: Any
    n_phrases: Any
    features: Any


class Deviations(NamedTuple):
    """Paths not taken yet: one taken before, changed at one place.

    Attributes:
        path: the path that is changed.
        place: the place in it, counted from the end of the sentence.
        arc: the hypothesis that stands there instead.
        score: of the changed path.
    """

    path: Any
    place: Any
    arc: Any
    score: Any


@njit(cache=True)
def best_paths(
    lattice: Lattice, best: int, n_words: int, tables: OptionTables, n_best: int, max_paths: int
) -> Paths:
    """The best paths with distinct target words.

    Args:
        lattice: of the search.
        best: its best complete hypothesis.
        n_words: source words.
        tables: rows of the model.
        n_best: how many paths are wanted.
        max_paths: how many are looked at to find them.
    """
    hypotheses = np.zeros((max_paths, n_words), np.int32)
    n_phrases = np.zeros(max_paths, np.int64)
    scores = np.zeros(max_paths)
    distinct = np.zeros(n_best, np.int64)
    seen = _new_set(n_best)
    todo = _room(16)
    heap = np.zeros(16, np.int32)
    todo.path[0], todo.arc[0], todo.score[0] = -1, best, lattice.score[best]
    n_todo = n_heap = 1
    n_taken = n_distinct = 0
    while n_heap > 0 and n_taken < max_paths and n_distinct < n_best:
        deviation, n_heap = heap_pop(heap, n_heap, todo.score)
        place, new = todo.place[deviation], n_taken
        n_taken += 1
        if place > 0:
            hypotheses[new, :place] = hypotheses[todo.path[deviation], :place]
        n_phrases[new] = _follow(lattice, hypotheses[new], place, todo.arc[deviation])
        scores[new] = todo.score[deviation]
        path = hypotheses[new, : n_phrases[new]]
        if _add(seen, _words_hash(path, lattice, tables)):
            distinct[n_distinct] = new
            n_distinct += 1
        n_more = _count_arcs(lattice, path, _first_change(todo, deviation))
        todo, heap = _with_room(todo, heap, n_todo + n_more)
        for changed in range(_first_change(todo, deviation), len(path)):
            arc = lattice.first_arc[path[changed]]
            while arc >= 0:
                todo.path[n_todo], todo.place[n_todo], todo.arc[n_todo] = new, changed, arc
                loss = lattice.score[arc] - lattice.score[path[changed]]
                todo.score[n_todo] = scores[new] + loss
                n_heap = heap_push(heap, n_heap, todo.score, n_todo)
                n_todo += 1
                arc = lattice.next_arc[arc]
    chosen = distinct[:n_distinct]
    return Paths(
        hypotheses[chosen],
        n_phrases[chosen],
        _features(lattice, hypotheses[chosen], n_phrases[chosen], tables),
    )


@njit(cache=True)
def _first_change(todo: Deviations, deviation: int) -> int:
    """Where the changed path may be changed further; arcs of the same place stand in `todo` already."""
    return todo.place[deviation] + 1 if todo.path[deviation] >= 0 else 0


@njit(cache=True)
def _follow(lattice: Lattice, path: Any, place: int, hypothesis: int) -> int:
    """Write a hypothesis and those before it into the path; returns how many the path has."""
    while hypothesis > 0:
        path[place] = hypothesis
        hypothesis = lattice.previous[hypothesis]
        place += 1
    return place


@njit(cache=True)
def _count_arcs(lattice: Lattice, path: Any, first: int) -> int:
    n_arcs = 0
    for hypothesis in path[first:]:
        arc = lattice.first_arc[hypothesis]
        while arc >= 0:
            n_arcs += 1
            arc = lattice.next_arc[arc]
    return n_arcs


@njit(cache=True)
def _room(n_places: int) -> Deviations:
    return Deviations(
        np.zeros(n_places, np.int32),
        np.zeros(n_places, np.int32),
        np.zeros(n_places, np.int32),
        np.zeros(n_places),
    )


@njit(cache=True)
def _with_room(todo: Deviations, heap: Any, n_places: int) -> tuple[Deviations, Any]:
    n_old = len(heap)
    if n_places <= n_old:
        return todo, heap
    larger = _room(2 * n_places)
    larger.path[:n_old] = todo.path
    larger.place[:n_old] = todo.place
    larger.arc[:n_old] = todo.arc
    larger.score[:n_old] = todo.score
    larger_heap = np.zeros(2 * n_places, np.int32)
    larger_heap[:n_old] = heap
    return larger, larger_heap


@njit(cache=True)
def _new_set(n_items: int) -> Any:
    n_slots = 4
    while n_slots < 2 * n_items:
        n_slots *= 2
    return np.zeros(n_slots, np.uint64)


@njit(cache=True)
def _add(seen: Any, value: int) -> bool:
    """Put a hash value (not 0) into the set; False if it is there already."""
    slot = np.int64(np.uint64(value) & np.uint64(len(seen) - 1))
    while seen[slot] != 0:
        if seen[slot] == value:
            return False
        slot = (slot + 1) & (len(seen) - 1)
    seen[slot] = value
    return True


@njit(cache=True)
def _words_hash(path: Any, lattice: Lattice, tables: OptionTables) -> int:
    """A 64-bit hash of the target words, never 0."""
    value = np.uint64(0)
    for k in range(len(path) - 1, -1, -1):
        row = lattice.row[path[k]]
        for i in range(tables.first_word[row], tables.first_word[row + 1]):
            value = mix(value, tables.words[i])
    return value | np.uint64(1)


@njit(cache=True)
def _features(lattice: Lattice, hypotheses: Any, n_phrases: Any, tables: OptionTables) -> Any:
    features = np.zeros((len(n_phrases), LEADING + tables.scores.shape[1]))
    for number in range(len(n_phrases)):
        path = hypotheses[number, : n_phrases[number]]
        row_before, start_before, end_before = -1, -1, -1
        for k in range(len(path) - 1, -1, -1):
            row, start, end = lattice.row[path[k]], lattice.start[path[k]], lattice.end[path[k]]
            move = orientation(start_before, end_before, start, end)
            features[number, move] += tables.reordering[row, move]
            if row_before >= 0:
                features[number, 3 + move] += tables.reordering[row_before, 3 + move]
            features[number, 6] -= abs(start - end_before - 1)
            features[number, 7] += lattice.lm[path[k]]
            features[number, 8] -= tables.first_word[row + 1] - tables.first_word[row]
            features[number, 9] += 1
            features[number, 10] += tables.is_unknown[row]
            features[number, LEADING:] += tables.scores[row]
            row_before, start_before, end_before = row, start, end
    return features
