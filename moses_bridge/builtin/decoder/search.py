"""Stack search with cube pruning over coverage stacks, like Moses's SearchCubePruning.

There is one stack for each number of covered source words. A stack is filled from edges: an edge is all
hypotheses of one coverage in an earlier stack times all options of one source span. The cells of an
edge (hypothesis x option, both sorted) are visited best first from the corner, all edges of a stack
together, until pop_limit cells have been taken (Huang and Chiang 2007). Hypotheses with the same future scores
are recombined: the best one is extended, and the others are kept as its arcs for the n-best list.

The steps are `start_search`, `open_stack` and `close_stack`. Between the last two, a caller can change the
hypotheses of a stack before they are pruned, for example score all their words at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.empty_arrays import empty_arrays
from moses_bridge.base.compiled.hash_table import (
    FREE,
    add_key,
    hash_number,
    n_slots,
    next_slot,
    slot_of,
)
from moses_bridge.base.compiled.inner import inlined, inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder.feature_slots import DISTORTION, LANGUAGE_MODEL
from moses_bridge.builtin.decoder.further_models import phrase_score, start_contexts
from moses_bridge.builtin.decoder.hypotheses import (
    NONE,
    Groups,
    Hypotheses,
    add_hypothesis,
    close_stack,
)
from moses_bridge.builtin.decoder.jumps import (
    DISCONTINUOUS,
    compiled_early_cost,
    compiled_orientation,
    compiled_words_between,
)
from moses_bridge.builtin.decoder.options import Options
from moses_bridge.builtin.decoder.weighted_model import LanguageModel
from moses_bridge.builtin.language_model.lm_index import LN10, lm_score

BEAM = float(np.log(1e-5))  # beam-threshold, default of Moses


class Limits(NamedTuple):
    """Bounds of the search.

    Attributes:
        stack_size: largest number of hypotheses to extend in a stack.
        pop_limit: largest number of cells to take for a stack.
        distortion_limit: longest jump in words, at most MAX_WINDOW of the model.
        beam: natural logarithm, at most 0; a hypothesis worse than the best of its stack by more is dropped.
        early_distortion: whether jumps have the cost `early_cost`.
    """

    stack_size: int
    pop_limit: int
    distortion_limit: int
    beam: float = BEAM
    early_distortion: bool = False


class Edges(NamedTuple):
    """Edges into one stack, and the resulting coverages.

    Attributes:
        hyp_starts, hyp_sizes: first of an edge's hypotheses in `hyps`, and their number, best first.
        option_starts, option_sizes: an edge's first option, and the number of its options.
        targets: number of an edge's resulting coverage.
        hyps: numbers of hypotheses.
        windows, gaps, future_costs: for each coverage, the covered words after the first gap, the first gap,
            and the future cost; see `Groups`.
        slots: hash table from a window to its coverage; free between stacks.
        places: for each coverage, its slot.
    """

    hyp_starts: NDArray[np.int32]
    hyp_sizes: NDArray[np.int32]
    option_starts: NDArray[np.int32]
    option_sizes: NDArray[np.int32]
    targets: NDArray[np.int32]
    hyps: NDArray[np.int32]
    windows: NDArray[np.uint64]
    gaps: NDArray[np.int32]
    future_costs: NDArray[np.float64]
    slots: NDArray[np.int32]
    places: NDArray[np.int32]


class Cells(NamedTuple):
    """Scored cells in a heap.

    Attributes:
        edges, xs, ys: the edge, and the indices of the hypothesis and the option in it.
        scores: weighted score so far; estimates: the same plus the future cost.
        lm_scores: see `Hypotheses`.
        contexts: (n_cells, order - 1) contexts of the first language model; context_sizes: their lengths.
        further_contexts: (n_cells, width) contexts of the further models.
        heap, keys: the heap of cells, and their estimates.
        seen: hash table of the cells seen, except corners.
    """

    edges: NDArray[np.int32]
    xs: NDArray[np.int32]
    ys: NDArray[np.int32]
    scores: NDArray[np.float64]
    estimates: NDArray[np.float64]
    lm_scores: NDArray[np.float64]
    contexts: NDArray[np.int32]
    context_sizes: NDArray[np.int32]
    further_contexts: NDArray[np.int32]
    heap: NDArray[np.int32]
    keys: NDArray[np.float64]
    seen: NDArray[np.int64]


class Workspace(NamedTuple):
    """What all searches with the same weights share: models, weights, bounds, and memory for one stack."""

    lm: LanguageModel
    weights: NDArray[np.float64]
    limits: Limits
    edges: Edges
    cells: Cells


def make_workspace(
    lm: LanguageModel, weights: NDArray[np.float64], limits: Limits, max_words: int
) -> Workspace:
    """Reserve memory for any stack; unused pages cost nothing. max_words limits a source phrase."""
    n_edges = limits.stack_size * max_words * (limits.distortion_limit + 1) + 1
    n_cells = n_edges + 2 * limits.pop_limit
    edges = empty_arrays(Edges, n_edges, slots=np.full(n_slots(n_edges), FREE, np.int32))
    cells = empty_arrays(
        Cells,
        n_cells,
        contexts=np.empty((n_cells, max(1, lm.order - 1)), np.int32),
        further_contexts=np.empty((n_cells, lm.further.width), np.int32),
        seen=np.empty(n_slots(2 * limits.pop_limit), np.int64),
    )
    return Workspace(lm, weights, limits, edges, cells)


@compiled
def search(options: Options, hyps: Hypotheses, groups: Groups, work: Workspace) -> None:
    """Fill all stacks; the best translation is the first member of the last stack."""
    start_search(options, work.lm, hyps, groups)
    for n_covered in range(1, options.n_words + 1):
        first = open_stack(n_covered, options, hyps, groups, work)
        close_stack(n_covered, first, work.limits.stack_size, options, hyps, groups)


@compiled
def start_search(options: Options, lm: LanguageModel, hyps: Hypotheses, groups: Groups) -> None:
    """Make the stack of the empty hypothesis."""
    hyps.size[0] = 0
    groups.stack_starts[0] = 0
    root = add_hypothesis(hyps, NONE, NONE, -1, 0, 0.0, options.future_costs.tails[0])
    hyps.gaps[root] = 0
    hyps.contexts[root, 0] = lm.bos_id
    hyps.context_sizes[root] = min(1, lm.order - 1)
    start_contexts(lm.further, hyps.further_contexts[root])
    groups.windows[0], groups.gaps[0] = np.uint64(0), 0
    groups.starts[0], groups.starts[1] = 0, 1
    groups.members[0] = root
    groups.stack_starts[1] = 1


@compiled
def open_stack(
    n_covered: int, options: Options, hyps: Hypotheses, groups: Groups, work: Workspace
) -> int:
    """Make the hypotheses with n_covered covered words, the last ones of `hyps`; return the first of them."""
    n_edges = _find_edges(n_covered, options, hyps, groups, work)
    first = int(hyps.size[0])
    _pop_cells(n_edges, n_covered == options.n_words, options, hyps, work)
    return first


@inner
def _find_edges(
    n_covered: int, options: Options, hyps: Hypotheses, groups: Groups, work: Workspace
) -> int:
    """Collect the edges into a stack; return their number."""
    edges = work.edges
    n_edges, n_targets, n_hyps = 0, 0, 0
    for length in range(1, min(options.max_words, n_covered) + 1):
        stack = n_covered - length
        phrase = (np.uint64(1) << np.uint64(length)) - np.uint64(1)
        for group in range(groups.stack_starts[stack], groups.stack_starts[stack + 1]):
            window, gap = groups.windows[group], groups.gaps[group]
            for start in range(gap, options.n_words - length + 1):
                # a jump over the gap must leave a way back (SearchCubePruning::CheckDistortion)
                if start > gap and start + length - gap > work.limits.distortion_limit:
                    break
                if window & (phrase << np.uint64(start - gap)):
                    continue
                span = start * options.max_words + length - 1
                n_options = options.span_starts[span + 1] - options.span_starts[span]
                if n_options == 0:
                    continue
                n_kept = _sorted_hypotheses(group, start, length, hyps, groups, work, n_hyps)
                if n_kept == 0:
                    continue
                target, n_targets = _target(
                    window | (phrase << np.uint64(start - gap)), gap, options, edges, n_targets
                )
                edges.hyp_starts[n_edges], edges.hyp_sizes[n_edges] = n_hyps, n_kept
                edges.option_starts[n_edges] = options.span_starts[span]
                edges.option_sizes[n_edges] = n_options
                edges.targets[n_edges] = target
                n_hyps += n_kept
                n_edges += 1
    for target in range(n_targets):
        edges.slots[edges.places[target]] = FREE
    return n_edges


@inlined
def _sorted_hypotheses(
    group: int, start: int, length: int, hyps: Hypotheses, groups: Groups, work: Workspace, place: int
) -> int:  # fmt: skip
    """Write the hypotheses of a group allowed to jump to `start`, best first with the jump (BackwardsEdge)."""
    weight, limits, out = work.weights[DISTORTION], work.limits, work.edges.hyps
    n_kept = 0
    for member in range(groups.starts[group], groups.starts[group + 1]):
        hyp = groups.members[member]
        if abs(start - hyps.ends[hyp]) > limits.distortion_limit:
            continue
        score = hyps.estimates[hyp] - weight * _jump(hyp, start, start + length, limits, hyps)
        i = place + n_kept
        while i > place:
            other = out[i - 1]
            jump = _jump(other, start, start + length, limits, hyps)
            if hyps.estimates[other] - weight * jump >= score:
                break
            out[i] = other
            i -= 1
        out[i] = hyp
        n_kept += 1
    return n_kept


@inlined
def _jump(hyp: int, start: int, end: int, limits: Limits, hyps: Hypotheses) -> int:
    if limits.early_distortion:
        return int(compiled_early_cost(hyps.ends[hyp], hyps.gaps[hyp], start, end))
    return int(abs(start - hyps.ends[hyp]))


@inlined
def _target(
    window: Any, gap: int, options: Options, edges: Edges, n_targets: int
) -> tuple[int, int]:
    """The number of a coverage, added if new, and the number of coverages."""
    while window & np.uint64(1):
        window >>= np.uint64(1)
        gap += 1
    slot = slot_of(hash_number(window), len(edges.slots))
    while edges.slots[slot] != FREE:
        if edges.windows[edges.slots[slot]] == window:
            return int(edges.slots[slot]), n_targets
        slot = next_slot(slot, len(edges.slots))
    edges.slots[slot], edges.places[n_targets] = n_targets, slot
    edges.windows[n_targets], edges.gaps[n_targets] = window, gap
    edges.future_costs[n_targets] = _future_cost(window, gap, options)
    return n_targets, n_targets + 1


@inner
def _future_cost(window: Any, gap: int, options: Options) -> float:
    total, start, position = 0.0, gap, gap
    while window:
        if window & np.uint64(1):
            if start < position:
                total += options.future_costs.spans[start, position - start]
            start = position + 1
        window >>= np.uint64(1)
        position += 1
    return float(total + options.future_costs.tails[start])


@inner
def _pop_cells(
    n_edges: int, last_stack: bool, options: Options, hyps: Hypotheses, work: Workspace
) -> None:
    """Score the corners of all edges, then take the best cells and score their neighbours."""
    edges, cells, limits = work.edges, work.cells, work.limits
    cells.seen[:] = FREE
    n_heap, best = 0, -np.inf
    for cell in range(n_edges):
        cells.edges[cell], cells.xs[cell], cells.ys[cell] = cell, 0, 0
        _score_cell(cell, last_stack, options, hyps, work)
        n_heap = _push(cells, n_heap, cell)
    n_cells = n_edges
    for _ in range(limits.pop_limit):
        if n_heap == 0:
            break
        cell = cells.heap[0]
        n_heap = _remove_first(cells, n_heap)
        if cells.estimates[cell] >= best + limits.beam:
            best = max(best, cells.estimates[cell])
            _keep(cell, options, hyps, work)
        edge, x, y = cells.edges[cell], cells.xs[cell], cells.ys[cell]
        for step in range(2):
            next_x, next_y = x + step, y + 1 - step
            inside = next_x < edges.hyp_sizes[edge] and next_y < edges.option_sizes[edge]
            if inside and _is_new(cells, edge, next_x, next_y):
                cells.edges[n_cells], cells.xs[n_cells], cells.ys[n_cells] = edge, next_x, next_y
                _score_cell(n_cells, last_stack, options, hyps, work)
                n_heap = _push(cells, n_heap, n_cells)
                n_cells += 1


@inlined
def _is_new(cells: Cells, edge: int, x: int, y: int) -> bool:
    """Whether a cell is seen for the first time; mark it as seen."""
    # The edge is in the lowest bits, on which the hash depends most: most cells are the first of their edges.
    key = (np.int64(x) << 44) | (np.int64(y) << 24) | np.int64(edge)
    return bool(add_key(cells.seen, key))


@inlined
def _score_cell(
    cell: int, last_stack: bool, options: Options, hyps: Hypotheses, work: Workspace
) -> None:
    edges, cells = work.edges, work.cells
    edge = cells.edges[cell]
    hyp = edges.hyps[edges.hyp_starts[edge] + cells.xs[cell]]
    option = edges.option_starts[edge] + cells.ys[cell]
    start, end = options.starts[option], options.ends[option]
    kind = compiled_orientation(hyps.starts[hyp], hyps.ends[hyp], start, end)
    score = hyps.scores[hyp] + options.stateless_scores[option] + options.reordering[option, kind]
    score -= work.weights[DISTORTION] * _jump(hyp, start, end, work.limits, hyps)
    if hyps.options[hyp] >= 0:
        score += options.reordering[hyps.options[hyp], 3 + kind]
    if kind == DISCONTINUOUS:
        first, last = compiled_words_between(hyps.starts[hyp], hyps.ends[hyp], start, end)
        score += options.between[last] - options.between[first]
    of_words = _lm_score(cell, hyp, option, last_stack, options, hyps, work)
    cells.lm_scores[cell] = of_words
    score += of_words
    if work.lm.further.masks.size:
        score += _further_score(cell, hyp, option, last_stack, options, hyps, work)
    cells.scores[cell] = score
    cells.estimates[cell] = score + edges.future_costs[edges.targets[edge]]


@inlined
def _lm_score(
    cell: int, hyp: int, option: int, last_stack: bool, options: Options, hyps: Hypotheses,
    work: Workspace,
) -> float:  # fmt: skip
    """The first language model's weighted score of the option's words; set the cell's context."""
    # Once the context is within the phrase, the remaining words have their scores in the phrase alone.
    lm, cells = work.lm, work.cells
    context, n_context = cells.contexts[cell], hyps.context_sizes[hyp]
    for i in range(n_context):
        context[i] = hyps.contexts[hyp, i]
    first, last = options.word_starts[option], options.word_starts[option + 1]
    log10, tail = 0.0, 0.0
    for i in range(first, last):
        log_prob, n_context = lm_score(lm.tables, context, n_context, options.lm_words[i], context)
        log10 += log_prob
        if n_context <= i - first + 1:
            tail = options.suffix_scores[i]
            n_context = options.context_sizes[option]
            for j in range(n_context):
                context[j] = options.lm_words[last - 1 - j]
            break
    if last_stack:
        log_prob, n_context = lm_score(lm.tables, context, n_context, lm.eos_id, context)
        log10 += log_prob
    cells.context_sizes[cell] = n_context
    return float(work.weights[LANGUAGE_MODEL] * LN10 * log10 + tail)


@inner
def _further_score(
    cell: int, hyp: int, option: int, last_stack: bool, options: Options, hyps: Hypotheses,
    work: Workspace,
) -> float:  # fmt: skip
    """The further language models' weighted scores of the option's words; set the cell's contexts."""
    contexts, further, weights = work.cells.further_contexts[cell], work.lm.further, work.weights
    for i in range(len(contexts)):
        contexts[i] = hyps.further_contexts[hyp, i]
    first, last = options.word_starts[option], options.word_starts[option + 1]
    return float(phrase_score(options.words, first, last, last_stack, further, weights, contexts))


@inlined
def _keep(cell: int, options: Options, hyps: Hypotheses, work: Workspace) -> None:
    edges, cells = work.edges, work.cells
    edge = cells.edges[cell]
    option = edges.option_starts[edge] + cells.ys[cell]
    hyp = add_hypothesis(
        hyps, edges.hyps[edges.hyp_starts[edge] + cells.xs[cell]], option,
        options.starts[option], options.ends[option], cells.scores[cell], cells.estimates[cell],
    )  # fmt: skip
    target = edges.targets[edge]
    hyps.lm_scores[hyp] = cells.lm_scores[cell]
    hyps.coverages[hyp] = target
    hyps.windows[hyp], hyps.gaps[hyp] = edges.windows[target], edges.gaps[target]
    hyps.context_sizes[hyp] = cells.context_sizes[cell]
    for i in range(cells.context_sizes[cell]):
        hyps.contexts[hyp, i] = cells.contexts[cell, i]
    for i in range(cells.further_contexts.shape[1]):
        hyps.further_contexts[hyp, i] = cells.further_contexts[cell, i]


@inlined
def _push(cells: Cells, n_heap: int, cell: int) -> int:
    key = cells.estimates[cell]
    i = n_heap
    while i > 0:
        parent = (i - 1) >> 1
        if cells.keys[parent] >= key:
            break
        cells.keys[i], cells.heap[i] = cells.keys[parent], cells.heap[parent]
        i = parent
    cells.keys[i], cells.heap[i] = key, cell
    return n_heap + 1


@inlined
def _remove_first(cells: Cells, n_heap: int) -> int:
    n_heap -= 1
    key, cell = cells.keys[n_heap], cells.heap[n_heap]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n_heap:
            break
        if child + 1 < n_heap and cells.keys[child + 1] > cells.keys[child]:
            child += 1
        if cells.keys[child] <= key:
            break
        cells.keys[i], cells.heap[i] = cells.keys[child], cells.heap[child]
        i = child
    cells.keys[i], cells.heap[i] = key, cell
    return n_heap
