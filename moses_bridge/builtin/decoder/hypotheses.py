"""Hypotheses of a search, their recombination, and the coverage groups of each stack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.empty_arrays import empty_arrays
from moses_bridge.base.compiled.hash_table import (
    FREE,
    compiled_n_slots,
    hash_next,
    hash_number,
    next_slot,
    slot_of,
)
from moses_bridge.base.compiled.inner import inlined, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder.options import Options

NONE = -1


class Hypotheses(NamedTuple):
    """Partial translations; number 0 is the empty one.

    Attributes:
        size: (1,) int64, the number of hypotheses.
        previous, options: int32, the extended hypothesis and the option; -1 for the empty hypothesis.
        starts, ends: int32, source words of the last phrase: starts..ends-1 (-1, 0 for the empty one).
        scores: weighted score; estimates: the same plus the future cost.
        lm_scores: the first language model's score of the last phrase.
        coverages: int32, number of the coverage within the stack.
        windows, gaps: uint64 and int32, the coverage; see `Groups`.
        contexts: (n, order - 1) int32, contexts of the first language model, most recent word first.
        context_sizes: int32, number of words used from them.
        further_contexts: (n, width) int32, contexts of the further models; see `FurtherModels`.
        arcs: int32, the first hypothesis recombined into this one, or -1.
        next_arcs: int32, the next hypothesis recombined into the same one, or -1.
    """

    size: NDArray[np.int64]
    previous: NDArray[np.int32]
    options: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: NDArray[np.float64]
    estimates: NDArray[np.float64]
    lm_scores: NDArray[np.float64]
    coverages: NDArray[np.int32]
    windows: NDArray[np.uint64]
    gaps: NDArray[np.int32]
    contexts: NDArray[np.int32]
    context_sizes: NDArray[np.int32]
    further_contexts: NDArray[np.int32]
    arcs: NDArray[np.int32]
    next_arcs: NDArray[np.int32]


class Groups(NamedTuple):
    """Surviving hypotheses by stack and, in a stack, by coverage.

    Attributes:
        stack_starts: (n_words + 2,) int32; groups of stack c: stack_starts[c]..stack_starts[c+1]-1.
        windows: uint64, bit i: word gap + i is covered; gaps: int32, first uncovered word.
        starts: int32; members of group g: members[starts[g]:starts[g + 1]], best first.
        members: int32, hypotheses.
    """

    stack_starts: NDArray[np.int32]
    windows: NDArray[np.uint64]
    gaps: NDArray[np.int32]
    starts: NDArray[np.int32]
    members: NDArray[np.int32]


def make_hypotheses(
    n_words: int, pop_limit: int, order: int, further_width: int, n_sentences: int = 1
) -> Hypotheses:
    """Empty arrays for the searches of n_sentences sentences with at most n_words words in total.

    For pop_limit see `search.Limits`; `order` is that of the first language model, further_width the width of
    the contexts of the further ones.
    """
    n = n_words * pop_limit + n_sentences
    return empty_arrays(
        Hypotheses,
        n,
        size=np.zeros(n_sentences, np.int64),
        contexts=np.empty((n, max(1, order - 1)), np.int32),
        further_contexts=np.empty((n, further_width), np.int32),
    )


def make_groups(n_words: int, stack_size: int, pop_limit: int, n_sentences: int = 1) -> Groups:
    """Empty arrays for the same searches as in `make_hypotheses`; for stack_size see `search.Limits`."""
    n = n_words * stack_size + n_sentences * (pop_limit + 1)
    return empty_arrays(
        Groups,
        n,
        stack_starts=np.zeros(n_words + 2 * n_sentences, np.int32),
        starts=np.empty(n + n_sentences, np.int32),
    )


@inlined
def add_hypothesis(
    hyps: Hypotheses, previous: int, option: int, start: int, end: int, score: float,
    estimate: float,
) -> int:  # fmt: skip
    """Add a hypothesis, without its context and coverage, and return its number."""
    hyp = int(hyps.size[0])
    hyps.size[0] += 1
    hyps.previous[hyp], hyps.options[hyp] = previous, option
    hyps.starts[hyp], hyps.ends[hyp] = start, end
    hyps.scores[hyp], hyps.estimates[hyp] = score, estimate
    hyps.arcs[hyp], hyps.next_arcs[hyp] = NONE, NONE
    return hyp


@inlined
def _code(hyps: Hypotheses, hyp: int) -> Any:
    """Hash everything compared by `same_future` except the reordering scores."""
    code = hash_number(hyps.coverages[hyp])
    code = hash_next(code, (hyps.starts[hyp] << 16) ^ hyps.ends[hyp])
    for i in range(hyps.context_sizes[hyp]):
        code = hash_next(code, hyps.contexts[hyp, i])
    for i in range(hyps.further_contexts.shape[1]):
        code = hash_next(code, hyps.further_contexts[hyp, i])
    return code


@inlined
def same_future(options: Options, hyps: Hypotheses, one: int, other: int) -> bool:
    """Whether two hypotheses of a stack can be recombined: any extension adds the same score to both.

    They have equal coverages, last source spans, language model contexts and reordering scores of the next
    phrase (PhraseBasedReorderingState, DistortionState_traditional, KenLMState of Moses).
    """
    if (
        hyps.coverages[one] != hyps.coverages[other]
        or hyps.ends[one] != hyps.ends[other]
        or hyps.starts[one] != hyps.starts[other]
        or hyps.context_sizes[one] != hyps.context_sizes[other]
    ):
        return False
    for i in range(hyps.context_sizes[one]):
        if hyps.contexts[one, i] != hyps.contexts[other, i]:
            return False
    for i in range(hyps.further_contexts.shape[1]):
        if hyps.further_contexts[one, i] != hyps.further_contexts[other, i]:
            return False
    for i in range(3, 6):
        if options.reordering[hyps.options[one], i] != options.reordering[hyps.options[other], i]:
            return False
    return True


@compiled
def close_stack(
    n_covered: int, first: int, stack_size: int, options: Options, hyps: Hypotheses, groups: Groups
) -> None:
    """Recombine the hypotheses from `first` on, all of stack n_covered, and group the best by coverage.

    stack_size is the number of hypotheses to keep; the last stack keeps all. Those recombined into better ones
    become their arcs.
    """
    winners = _recombine(first, options, hyps)
    estimates = np.empty(len(winners))
    n_coverages = 0
    for i in range(len(winners)):
        estimates[i] = hyps.estimates[winners[i]]
        n_coverages = max(n_coverages, hyps.coverages[winners[i]] + 1)
    ranked = np.argsort(-estimates, kind="mergesort")
    if n_covered < options.n_words:
        ranked = ranked[:stack_size]
    sizes = np.zeros(n_coverages, np.int32)
    examples = np.empty(n_coverages, np.int32)
    for i in ranked:
        coverage = hyps.coverages[winners[i]]
        sizes[coverage] += 1
        examples[coverage] = winners[i]
    places = np.empty(n_coverages, np.int32)
    group = groups.stack_starts[n_covered]
    for coverage in range(n_coverages):
        if sizes[coverage] > 0:
            groups.windows[group] = hyps.windows[examples[coverage]]
            groups.gaps[group] = hyps.gaps[examples[coverage]]
            places[coverage] = groups.starts[group]
            groups.starts[group + 1] = groups.starts[group] + sizes[coverage]
            group += 1
    groups.stack_starts[n_covered + 1] = group
    for i in ranked:
        coverage = hyps.coverages[winners[i]]
        groups.members[places[coverage]] = winners[i]
        places[coverage] += 1


@inner_maker
def _recombine(first: int, options: Options, hyps: Hypotheses) -> Any:
    """The best hypothesis of each recombined set from `first` on, in the order of the sets' first members."""
    n_hyps = hyps.size[0] - first
    slots = np.full(compiled_n_slots(n_hyps), FREE, np.int32)
    winners = np.empty(n_hyps, np.int32)
    n_winners = 0
    for hyp in range(first, first + n_hyps):
        slot = slot_of(_code(hyps, hyp), len(slots))
        while slots[slot] != FREE and not same_future(options, hyps, winners[slots[slot]], hyp):
            slot = next_slot(slot, len(slots))
        if slots[slot] == FREE:
            slots[slot] = n_winners
            winners[n_winners] = hyp
            n_winners += 1
        else:
            winners[slots[slot]] = _join(hyps, winners[slots[slot]], hyp)
    return winners[:n_winners]


@inlined
def _join(hyps: Hypotheses, winner: int, hyp: int) -> int:
    """Make the worse of two hypotheses an arc of the better one, and return the better one."""
    if hyps.estimates[hyp] > hyps.estimates[winner]:
        winner, hyp = hyp, winner
        hyps.arcs[winner] = hyps.arcs[hyp]
    hyps.next_arcs[hyp] = hyps.arcs[winner]
    hyps.arcs[winner] = hyp
    return winner
