"""The searches of several sentences with concatenated arrays, so that one call serves all of them.

Passing the arrays of one search from Python to compiled code takes a tenth of the time for a stack. Besides,
the neural values of all sentences are in one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder.hypotheses import (
    Groups,
    Hypotheses,
    close_stack,
    make_groups,
    make_hypotheses,
)
from moses_bridge.builtin.decoder.options import FutureCosts, Options
from moses_bridge.builtin.decoder.search import Limits, Workspace, open_stack, start_search
from moses_bridge.builtin.decoder.weighted_model import LanguageModel


class Parts(NamedTuple):
    """The first index of each sentence's part, then the end of the last part, (n_sentences + 1,) int64 each.

    Attributes:
        words: source words.
        options: translation options.
        target_words: target words of the options.
        span_costs: future costs of spans, row by row.
        hyps: room for hypotheses.
        groups: room for coverage groups and their members.
    """

    words: NDArray[np.int64]
    options: NDArray[np.int64]
    target_words: NDArray[np.int64]
    span_costs: NDArray[np.int64]
    hyps: NDArray[np.int64]
    groups: NDArray[np.int64]


class LastPhrases(NamedTuple):
    """The part of `Searches` with the last phrases of the hypotheses of open stacks.

    `sizes`, `previous` and `options` are of the hypotheses, word_starts of the options. A call from Python with
    all arrays of `Searches` takes a tenth of a millisecond.
    """

    parts: Parts
    sizes: NDArray[np.int64]
    previous: NDArray[np.int32]
    options: NDArray[np.int32]
    firsts: NDArray[np.int64]
    word_starts: NDArray[np.int32]


class Searches(NamedTuple):
    """The searches of some sentences; each sentence numbers its options, words and hypotheses from 0.

    Attributes:
        parts: parts of the sentences in all arrays.
        options: options of all sentences; n_words is their sum, the future costs of spans are flattened.
        stand_ins: (n_options,) stand-ins for the neural values in the scores of the options.
        hyps, groups: hypotheses and coverage groups of all sentences.
        firsts: (n_sentences,) int64, first hypothesis of each sentence's open stack; without an open stack,
            the number of its hypotheses.
    """

    parts: Parts
    options: Options
    stand_ins: NDArray[np.float64]
    hyps: Hypotheses
    groups: Groups
    firsts: NDArray[np.int64]


class Memory:
    """Memory for searches, reused by the next ones: new pages cost a twentieth of the search's time.

    For the arguments see `make_hypotheses`.
    """

    def __init__(self, limits: Limits, order: int, further_width: int) -> None:
        self.limits = limits
        self._widths = order, further_width
        self._n_words, self._n_sentences = 0, 0

    def hypotheses(self, n_words: int, n_sentences: int = 1) -> tuple[Hypotheses, Groups]:
        """Room for the searches of sentences with n_words words in total; see `make_hypotheses`."""
        if n_words > self._n_words or n_sentences > self._n_sentences:
            self._n_words = max(n_words + n_words // 2, self._n_words)
            self._n_sentences = max(n_sentences, self._n_sentences)
            limits, sizes = self.limits, (self._n_words, self._n_sentences)
            self._hyps = make_hypotheses(sizes[0], limits.pop_limit, *self._widths, sizes[1])
            self._groups = make_groups(sizes[0], limits.stack_size, limits.pop_limit, sizes[1])
        return self._hyps._replace(size=np.zeros(n_sentences, np.int64)), self._groups


def join_searches(
    options: Sequence[Options], stand_ins: Sequence[NDArray[np.float64]], memory: Memory
) -> Searches:
    """Join the searches of sentences before they are started, ending earlier ones in the same memory."""
    n, n_words = len(options), np.array([each.n_words for each in options])
    limits = memory.limits
    parts = Parts(
        words=_starts(n_words),
        options=_starts(np.array([len(each.rows) for each in options])),
        target_words=_starts(np.array([len(each.words) for each in options])),
        span_costs=_starts(np.array([each.future_costs.spans.size for each in options])),
        hyps=_starts(n_words * limits.pop_limit + 1),
        groups=_starts(n_words * limits.stack_size + limits.pop_limit + 1),
    )
    hyps, groups = memory.hypotheses(int(parts.words[-1]), n)
    return Searches(
        parts=parts,
        options=_join_options(options),
        stand_ins=np.concatenate(stand_ins),
        hyps=hyps,
        groups=groups,
        firsts=np.zeros(n, np.int64),
    )


def _join_options(options: Sequence[Options]) -> Options:
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in options])
        for name, value in options[0]._asdict().items()
        if isinstance(value, np.ndarray)
    }
    costs = FutureCosts(
        np.concatenate([each.future_costs.spans.ravel() for each in options]),
        np.concatenate([each.future_costs.tails for each in options]),
    )
    n_words = sum(each.n_words for each in options)
    return options[0]._replace(n_words=n_words, future_costs=costs, **arrays)


def last_phrases(searches: Searches) -> LastPhrases:
    """The last phrases of present and later hypotheses."""
    hyps = searches.hyps
    return LastPhrases(
        searches.parts, hyps.size, hyps.previous, hyps.options, searches.firsts,
        searches.options.word_starts,
    )  # fmt: skip


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def hypotheses_of(sentence: int, searches: Searches) -> Hypotheses:
    """The hypotheses of one of the sentences."""
    hyps = searches.hyps
    first, end = searches.parts.hyps[sentence], searches.parts.hyps[sentence + 1]
    return Hypotheses(
        size=hyps.size[sentence : sentence + 1],
        previous=hyps.previous[first:end],
        options=hyps.options[first:end],
        starts=hyps.starts[first:end],
        ends=hyps.ends[first:end],
        scores=hyps.scores[first:end],
        estimates=hyps.estimates[first:end],
        lm_scores=hyps.lm_scores[first:end],
        coverages=hyps.coverages[first:end],
        windows=hyps.windows[first:end],
        gaps=hyps.gaps[first:end],
        contexts=hyps.contexts[first:end],
        context_sizes=hyps.context_sizes[first:end],
        further_contexts=hyps.further_contexts[first:end],
        arcs=hyps.arcs[first:end],
        next_arcs=hyps.next_arcs[first:end],
    )


def groups_of(sentence: int, searches: Searches) -> Groups:
    """The coverage groups of one of the sentences."""
    groups, words = searches.groups, searches.parts.words
    first, end = searches.parts.groups[sentence], searches.parts.groups[sentence + 1]
    return Groups(
        stack_starts=groups.stack_starts[
            words[sentence] + 2 * sentence : words[sentence + 1] + 2 * sentence + 2
        ],
        windows=groups.windows[first:end],
        gaps=groups.gaps[first:end],
        starts=groups.starts[first + sentence : end + sentence + 1],
        members=groups.members[first:end],
    )


_hypotheses_of = inner_maker(hypotheses_of)
_groups_of = inner_maker(groups_of)


@inner_maker
def _options_of(sentence: int, searches: Searches) -> Options:
    options, parts = searches.options, searches.parts
    n_words = parts.words[sentence + 1] - parts.words[sentence]
    first, end = parts.options[sentence], parts.options[sentence + 1]
    first_word, end_word = parts.target_words[sentence], parts.target_words[sentence + 1]
    first_span = parts.words[sentence] * options.max_words + sentence
    costs = options.future_costs
    spans = costs.spans[parts.span_costs[sentence] : parts.span_costs[sentence + 1]]
    return Options(
        n_words=n_words,
        max_words=options.max_words,
        span_starts=options.span_starts[first_span : first_span + n_words * options.max_words + 1],
        rows=options.rows[first:end],
        starts=options.starts[first:end],
        ends=options.ends[first:end],
        stateless_scores=options.stateless_scores[first:end],
        estimates=options.estimates[first:end],
        reordering=options.reordering[first:end],
        between=options.between[
            parts.words[sentence] + sentence : parts.words[sentence + 1] + sentence + 1
        ],
        word_starts=options.word_starts[first + sentence : end + sentence + 1],
        words=options.words[first_word:end_word],
        lm_words=options.lm_words[first_word:end_word],
        suffix_scores=options.suffix_scores[first_word:end_word],
        context_sizes=options.context_sizes[first:end],
        future_costs=FutureCosts(
            spans.reshape((n_words + 1, len(spans) // (n_words + 1))),
            costs.tails[
                parts.words[sentence] + sentence : parts.words[sentence + 1] + sentence + 1
            ],
        ),
    )


@compiled
def start_searches(searches: Searches, lm: LanguageModel) -> None:
    """Make the stacks of the empty hypotheses; see `start_search`."""
    for i in range(len(searches.firsts)):
        options = _options_of(i, searches)
        start_search(options, lm, _hypotheses_of(i, searches), _groups_of(i, searches))


@compiled
def next_stacks(
    n_covered: int, values: Any, stand_in_share: float, searches: Searches, work: Workspace
) -> None:
    """Close the stacks before those of n_covered words, and open these, sentence by sentence.

    In closing, the neural values replace their stand-ins before the stack is pruned; see `close_stack` and
    `open_stack`. Shorter sentences have nothing to close or open. `values` are (n_hypotheses,) weighted neural
    values of the last phrases in open stacks, stand_in_share is the share of the first n-gram model's weight
    standing in for neural models.
    """
    n_closed = n_covered - 1
    place = 0
    for i in range(len(searches.firsts)):
        hyps, groups = _hypotheses_of(i, searches), _groups_of(i, searches)
        options, first = _options_of(i, searches), searches.firsts[i]
        stand_ins = searches.stand_ins[searches.parts.options[i] : searches.parts.options[i + 1]]
        n_hyps = hyps.size[0] - first if n_closed else 0
        of_hyps = values[place : place + n_hyps]
        _replace_stand_ins(first, of_hyps, stand_ins, stand_in_share, hyps)
        place += n_hyps
        if 0 < n_closed <= options.n_words:
            close_stack(n_closed, first, work.limits.stack_size, options, hyps, groups)
        searches.firsts[i] = hyps.size[0]
        if n_covered <= options.n_words:
            open_stack(n_covered, options, hyps, groups, work)


@inner
def _replace_stand_ins(
    first: int, values: Any, stand_ins: Any, stand_in_share: float, hyps: Hypotheses
) -> None:
    for i in range(len(values)):
        hyp = first + i
        change = values[i] - stand_ins[hyps.options[hyp]] - stand_in_share * hyps.lm_scores[hyp]
        hyps.scores[hyp] += change
        hyps.estimates[hyp] += change
