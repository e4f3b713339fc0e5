"""Phrase-based stack search with cube pruning.

Huang & Chiang (2007), "Forest Rescoring", section 4; with the conventions of Moses
(moses/SearchCubePruning.cpp, moses/BitmapContainer.cpp): one stack for each number of translated
source words, one queue of grid cells for each stack, hypotheses x translation options in each grid.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from moses_bridge.builtin.decoder.heap import heap_pop, heap_push
from moses_bridge.builtin.decoder.hypothesis import (
    Lattice,
    cover,
    first_gap,
    first_slot,
    hash_of,
    is_covered,
    mix,
    new_lattice,
    same,
)
from moses_bridge.builtin.decoder.lm_index import LN10, LmTables, lm_score
from moses_bridge.builtin.decoder.ranking import OptionTables, SentenceOptions

MONOTONE, SWAP, DISCONTINUOUS = range(3)


class SearchSettings(NamedTuple):
    """What the search needs besides the options.

    Attributes:
        stack_size: hypotheses kept for each number of translated words.
        pop_limit: hypotheses made for each number of translated words.
        distortion_limit: longest jump in source words; -1 for any.
        has_reordering: whether the previous phrase's reordering scores count.
        order: of the language model.
        bos_id: the language model's number of <s>.
        eos_id: the language model's number of </s>.
        lm_weight: of the language model.
        distortion_weight: of minus the words jumped over.
        reordering_weights: (6,).
    """

    stack_size: int
    pop_limit: int
    distortion_limit: int
    has_reordering: bool
    order: int
    bos_id: int
    eos_id: int
    lm_weight: float
    distortion_weight: float
    reordering_weights: Any


class Task(NamedTuple):
    """A sentence to translate."""

    lm: LmTables
    tables: OptionTables
    options: SentenceOptions
    settings: SearchSettings


class Stacks(NamedTuple):
    """Hypotheses by number of translated words, then by coverage ("buckets"), best first.

    Attributes:
        first_bucket: (n_words + 2,): the buckets of stack k are first_bucket[k] .. [k + 1] - 1.
        first_member: the members of bucket b are members[first_member[b]:first_member[b + 1]].
        members: hypotheses.
    """

    first_bucket: Any
    first_member: Any
    members: Any


class Edges(NamedTuple):
    """Grids: the hypotheses of one coverage, each with every option of one span.

    Attributes:
        bucket: the hypotheses.
        start: first source word of the span.
        end: last source word of the span.
        future: estimate for the words then left.
    """

    bucket: Any
    start: Any
    end: Any
    future: Any


class Cells(NamedTuple):
    """Cells of grids that have been looked at; one hypothesis each if it is taken.

    Attributes:
        edge: the grid.
        x: which hypothesis of the bucket.
        y: which option of the span.
        score: weighted sum of all features.
        total: score and estimate for the rest.
        lm: natural log probability that the phrase adds.
        n_context: as in Lattice.
        context: as in Lattice.
    """

    edge: Any
    x: Any
    y: Any
    score: Any
    total: Any
    lm: Any
    n_context: Any
    context: Any


@njit(cache=True)
def search(task: Task) -> tuple[Lattice, int]:
    """Translate a sentence.

    Returns:
        All hypotheses, and the best one that covers the sentence (-1 if there is none); the other
        complete ones are its arcs.
    """
    settings = task.settings
    n_words = len(task.options.first)
    costs = future_costs(task.tables, task.options)
    lattice = new_lattice(1 + n_words * settings.pop_limit, n_words, settings.order)
    if settings.order > 1:
        lattice.context[0, 0] = settings.bos_id
        lattice.n_context[0] = 1
    stacks = _new_stacks(n_words, settings.stack_size)
    first = n_used = 1
    for n_covered in range(1, n_words + 1):
        first = n_used
        edges = _edges(task, costs, lattice, stacks, n_covered)
        n_used = _fill_stack(task, lattice, stacks, edges, n_covered, first)
        if n_covered < n_words:
            _close_stack(task, lattice, stacks, n_covered, first, n_used)
    return lattice, _join_complete(lattice, first, n_used)


@njit(cache=True)
def future_costs(tables: OptionTables, options: SentenceOptions) -> Any:
    """Estimated score of each span i .. j, (n_words, n_words): the best way to cover it by options."""
    n_words, width = options.first.shape
    costs = np.full((n_words, n_words), -np.inf)
    for length in range(1, n_words + 1):
        for i in range(n_words - length + 1):
            j = i + length - 1
            if length <= width and options.first[i, length - 1] < options.last[i, length - 1]:
                costs[i, j] = tables.estimate[options.rows[options.first[i, length - 1]]]
            for k in range(i, j):
                costs[i, j] = max(costs[i, j], costs[i, k] + costs[k + 1, j])
    return costs


@njit(cache=True)
def _new_stacks(n_words: int, stack_size: int) -> Stacks:
    """Stacks with hypothesis 0 alone in stack 0."""
    n_places = n_words * stack_size + 2
    stacks = Stacks(
        np.zeros(n_words + 2, np.int64), np.zeros(n_places, np.int64), np.zeros(n_places, np.int32)
    )
    stacks.first_bucket[1] = 1
    stacks.first_member[1] = 1
    return stacks


@njit(cache=True)
def _fill_stack(
    task: Task, lattice: Lattice, stacks: Stacks, edges: Edges, n_covered: int, n_used: int
) -> int:
    """Make at most pop_limit hypotheses of n_covered words, the most promising first.

    Cells reach the queue from their left neighbour, those of the first column from above.
    """
    n_edges, pop_limit = len(edges.bucket), task.settings.pop_limit
    cells = _new_cells(n_edges + 2 * pop_limit, task.settings.order)
    heap = np.empty(n_edges + 2 * pop_limit, np.int32)
    end_word = task.settings.eos_id if n_covered == len(task.options.first) else -1
    n_cells = n_heap = 0
    for edge in range(n_edges):
        if _look(task, lattice, stacks, edges, end_word, edge, 0, 0, cells, n_cells):
            n_heap = heap_push(heap, n_heap, cells.total, n_cells)
            n_cells += 1
    for new in range(n_used, n_used + pop_limit):
        if n_heap == 0:
            return new
        cell, n_heap = heap_pop(heap, n_heap, cells.total)
        _take(task.options, lattice, stacks, edges, cells, cell, new)
        edge, x, y = cells.edge[cell], cells.x[cell], cells.y[cell]
        for below in range(2 if y == 0 else 1):
            next_y = y + 1 - below
            if _look(
                task, lattice, stacks, edges, end_word, edge, x + below, next_y, cells, n_cells
            ):
                n_heap = heap_push(heap, n_heap, cells.total, n_cells)
                n_cells += 1
    return n_used + pop_limit


@njit(cache=True)
def _edges(task: Task, costs: Any, lattice: Lattice, stacks: Stacks, n_covered: int) -> Edges:
    """All grids that lead to hypotheses of n_covered words."""
    n_edges = _list_edges(task, costs, lattice, stacks, n_covered, _room_for_edges(0))
    edges = _room_for_edges(n_edges)
    _list_edges(task, costs, lattice, stacks, n_covered, edges)
    return edges


@njit(cache=True)
def _room_for_edges(n_places: int) -> Edges:
    return Edges(
        np.empty(n_places, np.int32),
        np.empty(n_places, np.int32),
        np.empty(n_places, np.int32),
        np.empty(n_places, np.float64),
    )


@njit(cache=True)
def _list_edges(
    task: Task, costs: Any, lattice: Lattice, stacks: Stacks, n_covered: int, edges: Edges
) -> int:
    """Count the grids, and write them down where there is room."""
    options, limit = task.options, task.settings.distortion_limit
    n_words, width = options.first.shape
    n_edges = 0
    for length in range(1, min(width, n_covered) + 1):
        stack = n_covered - length
        for bucket in range(stacks.first_bucket[stack], stacks.first_bucket[stack + 1]):
            coverage = lattice.coverage[stacks.members[stacks.first_member[bucket]]]
            gap = first_gap(coverage, n_words)
            last_start = n_words - length
            if limit >= 0:
                last_start = min(last_start, max(gap, gap + limit - length))
            for start in range(gap, last_start + 1):
                end = start + length - 1
                n_options = options.last[start, length - 1] - options.first[start, length - 1]
                if n_options == 0 or not _is_free(coverage, start, end):
                    continue
                if n_edges < len(edges.bucket):
                    edges.bucket[n_edges] = bucket
                    edges.start[n_edges] = start
                    edges.end[n_edges] = end
                    edges.future[n_edges] = _future(coverage, start, end, costs)
                n_edges += 1
    return n_edges


@njit(cache=True)
def _is_free(coverage: Any, start: int, end: int) -> bool:
    position = start
    while position <= end and not is_covered(coverage, position):
        position += 1
    return position > end


@njit(cache=True)
def _future(coverage: Any, start: int, end: int, costs: Any) -> float:
    """Estimate for the words left when start .. end are translated as well."""
    total = 0.0
    gap = -1
    for position in range(len(costs)):
        if is_covered(coverage, position) or start <= position <= end:
            if gap >= 0:
                total += costs[gap, position - 1]
            gap = -1
        elif gap < 0:
            gap = position
    if gap >= 0:
        total += costs[gap, len(costs) - 1]
    return total


@njit(cache=True)
def _new_cells(n_places: int, order: int) -> Cells:
    return Cells(
        np.empty(n_places, np.int32),
        np.empty(n_places, np.int32),
        np.empty(n_places, np.int32),
        np.empty(n_places, np.float64),
        np.empty(n_places, np.float64),
        np.empty(n_places, np.float64),
        np.empty(n_places, np.int32),
        np.empty((n_places, max(1, order - 1)), np.int32),
    )


@njit(cache=True)
def _look(
    task: Task, lattice: Lattice, stacks: Stacks, edges: Edges, end_word: int, edge: int, x: int,
    y: int, cells: Cells, cell: int,
) -> bool:  # fmt: skip
    """Score the grid cell (x, y), or the next in x that the distortion limit allows; False if none."""
    tables, options, settings = task.tables, task.options, task.settings
    bucket, start, end = edges.bucket[edge], edges.start[edge], edges.end[edge]
    first = stacks.first_member[bucket]
    n_members = stacks.first_member[bucket + 1] - first
    first_option = options.first[start, end - start]
    if y >= options.last[start, end - start] - first_option:
        return False
    limit = settings.distortion_limit
    while x < n_members and limit >= 0 and _jump(lattice, stacks.members[first + x], start) > limit:
        x += 1
    if x >= n_members:
        return False
    hypothesis = stacks.members[first + x]
    row = options.rows[first_option + y]
    cells.edge[cell] = edge
    cells.x[cell] = x
    cells.y[cell] = y
    cells.lm[cell], cells.n_context[cell] = extend_lm(
        task.lm,
        tables,
        lattice.context[hypothesis],
        lattice.n_context[hypothesis],
        row,
        end_word,
        cells.context[cell],
    )
    cells.score[cell] = (
        lattice.score[hypothesis]
        + tables.fixed[row]
        + settings.lm_weight * cells.lm[cell]
        - settings.distortion_weight * _jump(lattice, hypothesis, start)
        + _reordering(task, lattice, hypothesis, row, start, end)
    )
    cells.total[cell] = cells.score[cell] + edges.future[edge]
    return True


@njit(cache=True, inline="always")
def _jump(lattice: Lattice, hypothesis: int, start: int) -> int:
    """Source words between the last phrase's end and the start of the next."""
    return abs(start - lattice.end[hypothesis] - 1)


@njit(cache=True)
def extend_lm(
    lm: LmTables,
    tables: OptionTables,
    context: Any,
    n_context: int,
    row: int,
    end_word: int,
    new_context: Any,
) -> tuple[float, int]:
    """Natural log probability of a phrase behind a context, and the length of the new context.

    Words are asked for until the context lies within the phrase; the rest is known.

    Args:
        lm: the language model.
        tables: with the phrase.
        context: most recent word first.
        n_context: how many of its words count.
        row: the phrase.
        end_word: the number of </s> if the phrase ends the sentence, else -1.
        new_context: written.
    """
    new_context[:n_context] = context[:n_context]
    total = 0.0
    first, last = tables.first_word[row], tables.first_word[row + 1]
    for i in range(first, last):
        log10_prob, n_context = lm_score(lm, new_context, n_context, tables.lm_ids[i], new_context)
        total += LN10 * log10_prob
        if n_context == tables.n_context[i] and i < last - 1:
            total += tables.lm_rest[i]
            n_context = tables.n_context[last - 1]
            for k in range(n_context):
                new_context[k] = tables.lm_ids[last - 1 - k]
            break
    if end_word >= 0:
        log10_prob, n_context = lm_score(lm, new_context, n_context, end_word, new_context)
        total += LN10 * log10_prob
    return total, n_context


@njit(cache=True, inline="always")
def orientation(previous_start: int, previous_end: int, start: int, end: int) -> int:
    """How a source span follows the previous one (-1, -1 before the first)."""
    if start == previous_end + 1:
        return MONOTONE
    if end + 1 == previous_start:
        return SWAP
    return DISCONTINUOUS


@njit(cache=True)
def _reordering(
    task: Task, lattice: Lattice, hypothesis: int, row: int, start: int, end: int
) -> float:
    """Weighted reordering scores: of this phrase after the previous, of the previous before this."""
    tables, settings = task.tables, task.settings
    if not settings.has_reordering:
        return 0.0
    move = orientation(lattice.start[hypothesis], lattice.end[hypothesis], start, end)
    score = settings.reordering_weights[move] * tables.reordering[row, move]
    if lattice.row[hypothesis] >= 0:
        forward = tables.reordering[lattice.row[hypothesis], 3 + move]
        score += settings.reordering_weights[3 + move] * forward
    return float(score)


@njit(cache=True)
def _take(
    options: SentenceOptions,
    lattice: Lattice,
    stacks: Stacks,
    edges: Edges,
    cells: Cells,
    cell: int,
    new: int,
) -> None:
    """Make hypothesis `new` of a cell."""
    edge = cells.edge[cell]
    start, end = edges.start[edge], edges.end[edge]
    previous = stacks.members[stacks.first_member[edges.bucket[edge]] + cells.x[cell]]
    lattice.score[new] = cells.score[cell]
    lattice.total[new] = cells.total[cell]
    lattice.previous[new] = previous
    lattice.row[new] = options.rows[options.first[start, end - start] + cells.y[cell]]
    lattice.start[new] = start
    lattice.end[new] = end
    lattice.lm[new] = cells.lm[cell]
    n_context = cells.n_context[cell]
    lattice.n_context[new] = n_context
    lattice.context[new, :n_context] = cells.context[cell, :n_context]
    lattice.coverage[new] = lattice.coverage[previous]
    cover(lattice.coverage[new], start, end)


@njit(cache=True)
def _close_stack(
    task: Task, lattice: Lattice, stacks: Stacks, n_covered: int, first: int, n_used: int
) -> None:
    """Recombine hypotheses first .. n_used - 1, keep the best stack_size, sort them into buckets."""
    kept = _recombine(task, lattice, first, n_used)
    bucket_of, n_buckets = _number_coverages(lattice, kept)
    bucket = stacks.first_bucket[n_covered]
    stacks.first_bucket[n_covered + 1] = bucket + n_buckets
    place = stacks.first_member[bucket]
    sizes = np.zeros(n_buckets, np.int64)
    for b in bucket_of:
        sizes[b] += 1
    for b in range(n_buckets):
        stacks.first_member[bucket + b] = place
        place += sizes[b]
        sizes[b] = stacks.first_member[bucket + b]
    stacks.first_member[bucket + n_buckets] = place
    for i in range(len(kept)):
        stacks.members[sizes[bucket_of[i]]] = kept[i]
        sizes[bucket_of[i]] += 1


@njit(cache=True)
def _number_coverages(lattice: Lattice, hypotheses: Any) -> tuple[Any, int]:
    """The number of each hypothesis's coverage, and how many there are."""
    n_slots = _n_slots(len(hypotheses))
    slots = np.full(n_slots, -1, np.int32)
    numbers = np.empty(len(hypotheses), np.int32)
    n_coverages = 0
    for i in range(len(hypotheses)):
        coverage = lattice.coverage[hypotheses[i]]
        slot = first_slot(hash_of(coverage, np.uint64(0)), n_slots)
        while slots[slot] >= 0 and not same(lattice.coverage[hypotheses[slots[slot]]], coverage):
            slot = (slot + 1) & (n_slots - 1)
        if slots[slot] < 0:
            slots[slot] = i
            numbers[i] = n_coverages
            n_coverages += 1
        else:
            numbers[i] = numbers[slots[slot]]
    return numbers, n_coverages


@njit(cache=True)
def _n_slots(n_items: int) -> int:
    """The size of a hash table."""
    n_slots = 4
    while n_slots < 2 * n_items:
        n_slots *= 2
    return n_slots


@njit(cache=True)
def _recombine(task: Task, lattice: Lattice, first: int, n_used: int) -> Any:
    """The best hypotheses of different states, best first; those of equal states become arcs."""
    n_slots = _n_slots(n_used - first)
    slots = np.full(n_slots, -1, np.int32)
    for new in range(first, n_used):
        slot = first_slot(_state_hash(lattice, new), n_slots)
        while slots[slot] >= 0 and not _same_state(task, lattice, slots[slot], new):
            slot = (slot + 1) & (n_slots - 1)
        slots[slot] = new if slots[slot] < 0 else _join(lattice, slots[slot], new)
    heap = np.empty(n_used - first, np.int32)
    n_states = 0
    for slot in range(n_slots):
        if slots[slot] >= 0:
            n_states = heap_push(heap, n_states, lattice.total, slots[slot])
    best = np.empty(min(n_states, task.settings.stack_size), np.int32)
    for i in range(len(best)):
        best[i], n_states = heap_pop(heap, n_states, lattice.total)
    return best


@njit(cache=True)
def _join(lattice: Lattice, held: int, new: int) -> int:
    """Make the worse of two hypotheses an arc of the better, which is returned."""
    if lattice.score[new] > lattice.score[held]:
        lattice.first_arc[new] = held
        lattice.next_arc[held] = lattice.first_arc[held]
        lattice.first_arc[held] = -1
        return new
    lattice.next_arc[new] = lattice.first_arc[held]
    lattice.first_arc[held] = new
    return held


@njit(cache=True)
def _join_complete(lattice: Lattice, first: int, n_used: int) -> int:
    """The best of the complete hypotheses, with the others as its arcs."""
    best = -1
    for new in range(first, n_used):
        best = new if best < 0 else _join(lattice, best, new)
    return best


@njit(cache=True)
def _state_hash(lattice: Lattice, hypothesis: int) -> int:
    coverage = hash_of(lattice.coverage[hypothesis], np.uint64(0))
    context = lattice.context[hypothesis, : lattice.n_context[hypothesis]]
    return mix(hash_of(context, coverage), lattice.end[hypothesis])


@njit(cache=True)
def _same_state(task: Task, lattice: Lattice, one: int, other: int) -> bool:
    """Whether every continuation adds the same features to both."""
    n_context = lattice.n_context[one]
    if lattice.end[one] != lattice.end[other] or n_context != lattice.n_context[other]:
        return False
    if not same(lattice.context[one, :n_context], lattice.context[other, :n_context]):
        return False
    if task.settings.has_reordering and not _same_moves(task.tables, lattice, one, other):
        return False
    return same(lattice.coverage[one], lattice.coverage[other])


@njit(cache=True)
def _same_moves(tables: OptionTables, lattice: Lattice, one: int, other: int) -> bool:
    """Whether the reordering scores of any next phrase are the same behind both."""
    return lattice.start[one] == lattice.start[other] and same(
        tables.reordering[lattice.row[one], 3:], tables.reordering[lattice.row[other], 3:]
    )
