"""The best paths through the lattice of recombined hypotheses (Manager::CalcNBest, TrellisPath)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import (
    FREE,
    add_key,
    compiled_n_slots,
    hash_next,
    hash_number,
)
from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.further_models import (
    END,
    FurtherModels,
    start_contexts,
    word_log10,
)
from moses_bridge.builtin.decoder.hypotheses import NONE, Hypotheses
from moses_bridge.builtin.decoder.jumps import compiled_early_cost, compiled_orientation
from moses_bridge.builtin.decoder.options import UNKNOWN_ROW, UNKNOWN_SCORE, Options, taken_parts
from moses_bridge.builtin.decoder.weighted_model import LanguageModel, WeightedModel, lm_word
from moses_bridge.builtin.language_model.lm_index import LN10, lm_score


class Paths(NamedTuple):
    """Translations of one sentence, best first, with their phrases concatenated.

    Attributes:
        phrase_starts: (n_paths + 1,) int64, where the phrases of each path start in `options`.
        options: (n_phrases,) int32, the options of the phrases in target order.
        totals: (n_paths,) weighted scores.
        features: (n_paths, n_features) feature vectors.
    """

    phrase_starts: NDArray[np.int64]
    options: NDArray[np.int32]
    totals: NDArray[np.float64]
    features: NDArray[np.float64]


def take_paths(paths: Paths, numbers: NDArray[np.int64]) -> Paths:
    """Select paths by number, (n,), in this order."""
    starts, places = taken_parts(paths.phrase_starts, numbers)
    return Paths(starts, paths.options[places], paths.totals[numbers], paths.features[numbers])


class PathHeap(NamedTuple):
    """A heap of paths not yet taken; each is a taken path with one hypothesis replaced."""

    scores: NDArray[np.float64]
    parents: NDArray[np.int32]  # number of the taken path, or -1
    depths: NDArray[np.int32]  # number of hypotheses, from the end, shared with the parent
    hyps: NDArray[np.int32]  # the next hypothesis from the end; its predecessors are the best ones


@compiled
def best_paths(
    finals: Any, n_best: int, n_pops: int, hyps: Hypotheses, options: Options, model: WeightedModel
) -> Paths:
    """Find the n_best best paths with different words, and compute their features.

    `finals` are complete hypotheses, best first; n_pops is the largest number of paths to take from the heap,
    including those with equal words.
    """
    heap, n_heap = _start(finals, n_pops, hyps)
    taken = np.empty((n_pops, options.n_words), np.int32)
    lengths = np.empty(n_pops, np.int32)
    codes = np.full(compiled_n_slots(n_pops), FREE, np.int64)
    chosen = np.empty(n_best, np.int32)
    n_taken, n_chosen = 0, 0
    while n_heap > 0 and n_taken < n_pops and n_chosen < n_best:
        n_heap = _take(heap, n_heap, n_taken, taken, lengths, hyps)
        score, depth = heap.scores[n_heap], heap.depths[n_heap]
        if heap.parents[n_heap] == NONE:
            depth = -1
        n_heap = _push_deviants(
            heap, n_heap, score, n_taken, depth, taken[n_taken, : lengths[n_taken]], hyps, n_pops
        )
        if add_key(codes, _words_code(taken[n_taken, : lengths[n_taken]], hyps, options)):
            chosen[n_chosen] = n_taken
            n_chosen += 1
        n_taken += 1
    paths: Paths = _collect(chosen[:n_chosen], taken, lengths, hyps, options, model)
    return paths


@inner_maker
def _start(finals: Any, n_pops: int, hyps: Hypotheses) -> tuple[PathHeap, int]:
    room = 4 * n_pops + len(finals) + 16
    heap = PathHeap(
        np.empty(room), np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    )
    for i in range(len(finals)):
        heap.scores[i], heap.parents[i] = hyps.scores[finals[i]], NONE
        heap.depths[i], heap.hyps[i] = 0, finals[i]
    return heap, len(finals)


@inner
def _take(
    heap: PathHeap, n_heap: int, path: int, taken: Any, lengths: Any, hyps: Hypotheses
) -> int:
    """Write the best path of the heap to `taken`; its entry is then just past the heap's end."""
    parent, depth, hyp = heap.parents[0], heap.depths[0], heap.hyps[0]
    for i in range(depth):
        taken[path, i] = taken[parent, i]
    n_hyps = depth
    while hyp > 0:
        taken[path, n_hyps] = hyp
        hyp = hyps.previous[hyp]
        n_hyps += 1
    lengths[path] = n_hyps
    _swap(heap, 0, n_heap - 1)
    _sift_down(heap, n_heap - 1)
    return n_heap - 1


@inner
def _push_deviants(
    heap: PathHeap, n_heap: int, score: float, path: int, depth: int, hyps_of_path: Any,
    hyps: Hypotheses, n_pops: int,
) -> int:  # fmt: skip
    """Push the paths replacing one hypothesis of the path, beyond `depth`, by one of its arcs."""
    for i in range(depth + 1, len(hyps_of_path)):
        hyp = hyps_of_path[i]
        arc = hyps.arcs[hyp]
        while arc != NONE:
            if n_heap == len(heap.scores):
                n_heap = _forget_worst(heap, n_heap, n_pops)
            heap.scores[n_heap] = score + hyps.scores[arc] - hyps.scores[hyp]
            heap.parents[n_heap], heap.depths[n_heap] = path, i
            heap.hyps[n_heap] = arc
            n_heap += 1
            _sift_up(heap, n_heap - 1)
            arc = hyps.next_arcs[arc]
    return n_heap


@inner_maker
def _forget_worst(heap: PathHeap, n_heap: int, n_kept: int) -> int:
    """Keep the best n_kept entries, sorted and so still a heap."""
    ranked = np.argsort(-heap.scores[:n_heap], kind="mergesort")[:n_kept]
    _move_to_front(heap.scores, ranked)
    _move_to_front(heap.parents, ranked)
    _move_to_front(heap.depths, ranked)
    _move_to_front(heap.hyps, ranked)
    return n_kept


@inner_maker
def _move_to_front(values: Any, places: Any) -> None:
    moved = values[places]
    for i in range(len(moved)):
        values[i] = moved[i]


@inner
def _swap(heap: PathHeap, i: int, j: int) -> None:
    heap.scores[i], heap.scores[j] = heap.scores[j], heap.scores[i]
    heap.parents[i], heap.parents[j] = heap.parents[j], heap.parents[i]
    heap.depths[i], heap.depths[j] = heap.depths[j], heap.depths[i]
    heap.hyps[i], heap.hyps[j] = heap.hyps[j], heap.hyps[i]


@inner
def _sift_up(heap: PathHeap, i: int) -> None:
    while i > 0 and heap.scores[(i - 1) // 2] < heap.scores[i]:
        _swap(heap, i, (i - 1) // 2)
        i = (i - 1) // 2


@inner
def _sift_down(heap: PathHeap, n_heap: int) -> None:
    i = 0
    while 2 * i + 1 < n_heap:
        child = 2 * i + 1
        if child + 1 < n_heap and heap.scores[child + 1] > heap.scores[child]:
            child += 1
        if heap.scores[child] <= heap.scores[i]:
            return
        _swap(heap, i, child)
        i = child


@inner
def _words_code(path: Any, hyps: Hypotheses, options: Options) -> int:
    """Hash the path's words to 63 bits: of a million paths, two share a hash with a probability of 5e-8."""
    code = hash_number(1)
    for i in range(len(path) - 1, -1, -1):
        option = hyps.options[path[i]]
        for j in range(options.word_starts[option], options.word_starts[option + 1]):
            code = hash_next(code, options.words[j])
    return int(np.int64((code ^ (code >> np.uint64(29))) >> np.uint64(1)))


@inner_maker
def _collect(
    chosen: Any, taken: Any, lengths: Any, hyps: Hypotheses, options: Options, model: WeightedModel
) -> Paths:
    n_paths = len(chosen)
    paths = Paths(
        np.zeros(n_paths + 1, np.int64),
        np.empty(lengths[chosen].sum(), np.int32),
        np.empty(n_paths),
        np.empty((n_paths, len(model.weights))),
    )
    for i in range(n_paths):
        first, n_phrases = paths.phrase_starts[i], lengths[chosen[i]]
        phrases = paths.options[first : first + n_phrases]
        for j in range(n_phrases):
            phrases[j] = hyps.options[taken[chosen[i], n_phrases - 1 - j]]
        paths.phrase_starts[i + 1] = first + n_phrases
        features = score_path(
            options.rows[phrases], options.starts[phrases], options.ends[phrases],
            words_of_options(phrases, options), model,
        )  # fmt: skip
        for j in range(len(features)):
            paths.features[i, j] = features[j]
        paths.totals[i] = (features * model.weights).sum()
    return paths


@compiled
def words_of_options(phrases: Any, options: Options) -> Any:
    """The concatenated target words of options, *Shape:* (n_words,) int32."""
    n_words = 0
    for option in phrases:
        n_words += options.word_starts[option + 1] - options.word_starts[option]
    words = np.empty(n_words, np.int32)
    place = 0
    for option in phrases:
        for i in range(options.word_starts[option], options.word_starts[option + 1]):
            words[place] = options.words[i]
            place += 1
    return words


@compiled
def score_path(rows: Any, starts: Any, ends: Any, words: Any, model: WeightedModel) -> Any:
    """Compute the feature vector of a translation, *Shape:* (n_features,), in the order of `feature_slots`.

    Args:
        rows: (n_phrases,) row of each phrase in the phrase tables, in target order; -1 for an unknown word,
            less for a given translation, whose scores are left out (`given_phrases`).
        starts: (n_phrases,) first source word of each phrase.
        ends: (n_phrases,) end of its source words, exclusive.
        words: (n_words,) all target words.
        model: tables and weights.
    """
    table_scores = model.rows.scores
    further = model.lm.further
    n_further = len(further.masks)
    values = np.zeros(len(model.weights))
    previous_start, previous_end, previous_row = -1, 0, UNKNOWN_ROW
    for i in range(len(rows)):
        row = rows[i]
        kind = compiled_orientation(previous_start, previous_end, starts[i], ends[i])
        values[slots.DISTORTION] -= abs(starts[i] - previous_end)
        if row >= 0:
            values[slots.REORDERING + kind] += model.reordering[row, kind]
            for j in range(table_scores.shape[1]):
                values[slots.PHRASE_TABLE + j] += table_scores[row, j]
        elif row == UNKNOWN_ROW:
            values[slots.UNKNOWN_WORD] += UNKNOWN_SCORE
        if previous_row >= 0:
            half = slots.N_REORDERING // 2
            values[slots.REORDERING + half + kind] += model.reordering[previous_row, half + kind]
        previous_start, previous_end, previous_row = starts[i], ends[i], row
    if model.early_distortion:
        values[slots.DISTORTION] = -_early_costs(starts, ends)
    values[slots.PHRASE_PENALTY] = len(rows)
    values[slots.WORD_PENALTY] = -len(words)
    for word in words:
        values[slots.UNKNOWN_TO_MODEL] += word >= model.lm.n_words
    values[slots.LANGUAGE_MODEL] = LN10 * sentence_log10(words, model.lm)
    contexts = np.empty(further.places[-1], np.int32)
    for i in range(n_further):
        start_contexts(further, contexts)
        values[len(values) - n_further + i] = LN10 * _further_log10(i, words, further, contexts)
    return values


@inner
def _further_log10(number: int, words: Any, further: FurtherModels, contexts: Any) -> float:
    """Log10 probability of target words from <s> to </s> by one of the further language models."""
    total = 0.0
    for word in words:
        total += word_log10(number, word, further, contexts)
    return float(total + word_log10(number, END, further, contexts))


@inner_maker
def _early_costs(starts: Any, ends: Any) -> int:
    covered = np.zeros(ends.max() + 1, np.bool_)
    gap, previous_end, total = 0, 0, 0
    for i in range(len(starts)):
        total += compiled_early_cost(previous_end, gap, starts[i], ends[i])
        covered[starts[i] : ends[i]] = True
        while covered[gap]:
            gap += 1
        previous_end = ends[i]
    return total


@inner_maker
def sentence_log10(words: Any, lm: LanguageModel) -> float:
    """Log10 probability of target words from <s> to </s>."""
    context = np.zeros(max(1, lm.order - 1), np.int32)
    context[0] = lm.bos_id
    n_context = min(1, lm.order - 1)
    total = 0.0
    for word in words:
        log_prob, n_context = lm_score(lm.tables, context, n_context, lm_word(lm, word), context)
        total += log_prob
    log_prob, n_context = lm_score(lm.tables, context, n_context, lm.eos_id, context)
    return float(total + log_prob)
