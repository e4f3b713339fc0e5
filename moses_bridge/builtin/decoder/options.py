"""Translation options of a sentence: all applicable phrase pairs with their scores, and future costs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.further_models import no_contexts, phrase_score
from moses_bridge.builtin.decoder.source_trie import NO_NODE, ROOT, child_of
from moses_bridge.builtin.decoder.weighted_model import (
    WeightedModel,
    ask_alone,
    choose,
    further_alone,
    lm_word,
    stateless_score,
    unknown_to_model,
)
from moses_bridge.builtin.language_model.lm_index import LN10, lm_score

UNKNOWN_SCORE = -100.0  # UnknownWordPenaltyProducer::EvaluateInIsolation: the floor of scores
UNKNOWN_ROW = -1
DROPPED = -1
# Arrays of `Options` with an entry for each option, and for each of their words.
OF_OPTIONS = (
    *("rows", "starts", "ends", "stateless_scores", "estimates", "reordering", "context_sizes"),
)
OF_WORDS = ("words", "lm_words", "suffix_scores")
# At least the search's MAX_WINDOW, the limit of gaps and source phrases. For sentences of up to LONGEST_SPAN
# words, the future costs equal those of Moses's table of all spans to the last bit. Longer sentences are
# rounded differently: sums of more than two parts are added up from the right only.
LONGEST_SPAN = 256


class Options(NamedTuple):
    """Translation options of one sentence, those of a span together, best first.

    Attributes:
        n_words: number of words of the sentence.
        max_words: length of the longest source phrase, in words.
        span_starts: (n_words * max_words + 1,) int32; the options of the span of k words from s on start at
            span_starts[s * max_words + k - 1].
        rows: int64, row of the phrase tables, -1 for a copied unknown word.
        starts, ends: int32, source words starts..ends-1.
        stateless_scores: weighted sum of the stateless features.
        estimates: stateless score plus the weighted scores of all language models for the phrase alone.
        reordering: (n, 6) weighted reordering scores.
        between: (n_words + 1,) weighted scores of source words between two separate phrases, summed over all
            words before each.
        word_starts: (n + 1,) int32, indices of `words`, `lm_words` and `suffix_scores`.
        words: int32, target words.
        lm_words: int32, their numbers in the first language model.
        suffix_scores: weighted score of the first language model for the words after this one, in the phrase
            alone.
        context_sizes: int32, number of words of its context after the phrase alone.
        future_costs: the best estimates for spans and for the end of the sentence.
    """

    n_words: int
    max_words: int
    span_starts: NDArray[np.int32]
    rows: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    stateless_scores: NDArray[np.float64]
    estimates: NDArray[np.float64]
    reordering: NDArray[np.float64]
    between: NDArray[np.float64]
    word_starts: NDArray[np.int32]
    words: NDArray[np.int32]
    lm_words: NDArray[np.int32]
    suffix_scores: NDArray[np.float64]
    context_sizes: NDArray[np.int32]
    future_costs: FutureCosts


@inner_maker
def _span_nodes(source: Any, max_words: int, model: WeightedModel) -> Any:
    """Find the trie node of each span with translations, else NO_NODE, (n_words, max_words) int32."""
    nodes = np.full((len(source), max_words), NO_NODE, np.int32)
    for start in range(len(source)):
        node = ROOT
        for length in range(1, min(max_words, len(source) - start) + 1):
            word = source[start + length - 1]
            node = child_of(model.trie, node, word) if word >= 0 else NO_NODE
            if node == NO_NODE:
                break
            if model.node_starts[node] < model.node_starts[node + 1]:
                nodes[start, length - 1] = node
    return nodes


@compiled
def choose_for_sentence(source: Any, max_words: int, model: WeightedModel) -> None:
    """Choose the translations of all source phrases of a sentence, so that worker processes share them.

    `source` has source word numbers, (n_words,) int32, -1 for unknown words; max_words limits a phrase.
    """
    nodes = _span_nodes(source, max_words, model).ravel()
    for i in range(len(nodes)):
        node = nodes[i]
        if node != NO_NODE and not model.choices.done[node]:
            choose(node, model)


@compiled
def spans_to_choose(source: Any, max_words: int, model: WeightedModel) -> Any:
    """The source phrases of a sentence yet to choose: node, first word, number of words, *Shape:* (n, 3)."""
    nodes = _span_nodes(source, max_words, model)
    spans = np.empty((nodes.size, 3), np.int64)
    n_spans = 0
    for start in range(nodes.shape[0]):
        for length in range(1, max_words + 1):
            node = nodes[start, length - 1]
            if node != NO_NODE and not model.choices.done[node]:
                spans[n_spans, 0] = node
                spans[n_spans, 1], spans[n_spans, 2] = start, length
                n_spans += 1
    return spans[:n_spans]


def make_options(source: Any, copies: Any, max_words: int, model: WeightedModel) -> Options:
    """Make the options of a sentence, choosing the translations of its phrases where necessary.

    Args:
        source: (n_words,) int32, source word numbers, -1 for words unknown to the table.
        copies: (n_words,) int32, target word numbers for copying the same words; DROPPED for those left out.
        max_words: length of the longest source phrase.
        model: tables and weights.
    """
    choose_for_sentence(source, max_words, model)
    options: Options = _chosen_options(source, copies, max_words, model)
    return options


@compiled
def _chosen_options(source: Any, copies: Any, max_words: int, model: WeightedModel) -> Options:
    """See `make_options`; a function of its own takes no code of the choice in, so it is compiled faster."""
    nodes = _span_nodes(source, max_words, model)
    n_options, n_target_words, span_starts = _measure(nodes, copies, model)
    options: Options = empty_options(len(source), max_words, span_starts, n_options, n_target_words)
    _fill(nodes, copies, model, options)
    _fill_future_costs(options)
    return options


@inner_maker
def empty_options(
    n_words: int, max_words: int, span_starts: Any, n_options: int, n_target_words: int
) -> Options:
    """Make options to be filled; their weighted reordering scores are 0."""
    return Options(
        n_words=n_words,
        max_words=max_words,
        span_starts=span_starts,
        rows=np.empty(n_options, np.int64),
        starts=np.empty(n_options, np.int32),
        ends=np.empty(n_options, np.int32),
        stateless_scores=np.empty(n_options),
        estimates=np.empty(n_options),
        reordering=np.zeros((n_options, 6)),
        between=np.zeros(n_words + 1),
        word_starts=np.zeros(n_options + 1, np.int32),
        words=np.empty(n_target_words, np.int32),
        lm_words=np.empty(n_target_words, np.int32),
        suffix_scores=np.empty(n_target_words),
        context_sizes=np.empty(n_options, np.int32),
        future_costs=compiled_no_costs(n_words),
    )


@inner_maker
def _measure(nodes: Any, copies: Any, model: WeightedModel) -> tuple[int, int, Any]:
    """Count the options and their target words, and compute `span_starts`."""
    n_words, max_words = nodes.shape
    choices, rows = model.choices, model.rows
    span_starts = np.zeros(n_words * max_words + 1, np.int32)
    n_options, n_target_words = 0, 0
    for span in range(n_words * max_words):
        node = nodes[span // max_words, span % max_words]
        if node != NO_NODE:
            for i in range(choices.starts[node], choices.ends[node]):
                row = choices.rows[i]
                n_target_words += rows.word_starts[row + 1] - rows.word_starts[row]
            n_options += choices.ends[node] - choices.starts[node]
        elif span % max_words == 0:
            n_options += 1
            if copies[span // max_words] != DROPPED:
                n_target_words += 1
        span_starts[span + 1] = n_options
    return n_options, n_target_words, span_starts


@inner_maker
def _fill(nodes: Any, copies: Any, model: WeightedModel, options: Options) -> None:
    context = np.zeros(max(1, model.lm.order - 1), np.int32)
    contexts = np.empty(model.lm.further.places[-1], np.int32)
    choices = model.choices
    for span in range(nodes.size):
        start, length = span // nodes.shape[1], span % nodes.shape[1] + 1
        first = options.span_starts[span]
        for option in range(first, options.span_starts[span + 1]):
            options.starts[option], options.ends[option] = start, start + length
            node = nodes[start, length - 1]
            if node != NO_NODE:
                row = choices.rows[choices.starts[node] + option - first]
                _fill_known(option, row, model, options)
            else:
                _fill_unknown(option, copies[start], model, options)
            fill_lm_scores(option, model, options, context)
            options.estimates[option] += _further_score(option, model, options, contexts)


@inner
def _fill_known(option: int, row: int, model: WeightedModel, options: Options) -> None:
    rows, weights = model.rows, model.weights
    options.rows[option] = row
    options.stateless_scores[option] = stateless_score(row, model)
    for i in range(6):
        options.reordering[option, i] = weights[i] * model.reordering[row, i]
    place = options.word_starts[option]
    for i in range(rows.word_starts[row], rows.word_starts[row + 1]):
        options.words[place] = rows.words[i]
        place += 1
    options.word_starts[option + 1] = place


@inner
def _fill_unknown(option: int, word: int, model: WeightedModel, options: Options) -> None:
    weights = model.weights
    options.rows[option] = UNKNOWN_ROW
    score = UNKNOWN_SCORE * weights[slots.UNKNOWN_WORD]
    place = options.word_starts[option]
    if word != DROPPED:
        options.words[place] = word
        place += 1
        score -= weights[slots.WORD_PENALTY]
    first = options.word_starts[option]
    score += weights[slots.PHRASE_PENALTY] + unknown_to_model(options.words, first, place, model)
    options.stateless_scores[option] = score
    options.word_starts[option + 1] = place


@inner
def _ask_language_model(option: int, model: WeightedModel, options: Options, context: Any) -> None:
    """Fill suffix_scores with log10 probabilities of the words of the phrase alone; fill lm_words."""
    lm, row = model.lm, options.rows[option]
    first, last = options.word_starts[option], options.word_starts[option + 1]
    for i in range(first, last):
        options.lm_words[i] = lm_word(lm, options.words[i])
    if row < 0:
        n_context = 0
        for i in range(first, last):
            options.suffix_scores[i], n_context = lm_score(
                lm.tables, context, n_context, options.lm_words[i], context
            )
        options.context_sizes[option] = n_context
        return
    ask_alone(row, model, context)
    options.context_sizes[option] = model.alone.context_sizes[row]
    start_in_rows = model.rows.word_starts[row]
    for i in range(first, last):
        options.suffix_scores[i] = model.alone.word_log10s[start_in_rows + i - first]


@inner
def _further_score(option: int, model: WeightedModel, options: Options, contexts: Any) -> float:
    if options.rows[option] != UNKNOWN_ROW:
        return float(further_alone(options.rows[option], model, contexts))
    no_contexts(contexts)
    first, last = options.word_starts[option], options.word_starts[option + 1]
    return float(
        phrase_score(options.words, first, last, False, model.lm.further, model.weights, contexts)
    )


@inner
def fill_lm_scores(option: int, model: WeightedModel, options: Options, context: Any) -> None:
    """Fill the first language model's scores of the phrase alone."""
    _ask_language_model(option, model, options, context)
    weight = LN10 * model.weights[slots.LANGUAGE_MODEL]
    first, last = options.word_starts[option], options.word_starts[option + 1]
    total = 0.0
    for i in range(last - 1, first - 1, -1):
        score = weight * options.suffix_scores[i]
        options.suffix_scores[i] = total
        total += score
    options.estimates[option] = options.stateless_scores[option] + total


@inner
def _fill_future_costs(options: Options) -> None:
    """Fill the best estimate of each span, from one phrase or several."""
    costs = options.future_costs
    for span in range(len(options.span_starts) - 1):
        first = options.span_starts[span]
        if first < options.span_starts[span + 1]:
            start, length = span // options.max_words, span % options.max_words + 1
            costs.spans[start, length] = options.estimates[first]
    combine_spans(costs)


def raise_options(
    options: Options, added: NDArray[np.float64]
) -> tuple[Options, NDArray[np.int64], NDArray[np.int64]]:
    """Add scores, (n_options,), to the options of a sentence, and sort those of each span again, stably.

    Returns:
        The new options, the old index of each, (n_options,), and that of each of their words, (n_words,).
    """
    sizes = np.diff(options.span_starts)
    order = np.lexsort((-(options.estimates + added), np.repeat(np.arange(len(sizes)), sizes)))
    raised, word_order = take_options(options, order)
    raised.stateless_scores[:] += added[order]
    raised.estimates[:] += added[order]
    costs, best = no_costs(options.n_words), options.span_starts[:-1][sizes > 0]
    lengths = raised.ends[best] - raised.starts[best]
    costs.spans[raised.starts[best], lengths] = raised.estimates[best]
    return raised._replace(future_costs=combined(costs)), order, word_order


def take_options(options: Options, numbers: NDArray[np.int64]) -> tuple[Options, NDArray[np.int64]]:
    """Options by number, (n,), with spans and future costs of all, and the old index of each of their words."""
    word_starts, words = taken_parts(options.word_starts, numbers)
    arrays: dict[str, Any] = {name: getattr(options, name)[numbers] for name in OF_OPTIONS}
    arrays |= {name: getattr(options, name)[words] for name in OF_WORDS}
    return options._replace(word_starts=word_starts.astype(np.int32), **arrays), words


def taken_parts(
    starts: NDArray[Any], numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The starts of parts taken by number, (n + 1,), and the old places of their members.

    The members of part i are those from starts[i] to before starts[i + 1].
    """
    lengths = np.diff(starts)[numbers]
    new_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    moves = np.repeat(starts[numbers] - new_starts[:-1], lengths)
    return new_starts, np.arange(new_starts[-1]) + moves


class FutureCosts(NamedTuple):
    """The best estimate for source words, from one phrase or several; a "cost", although higher is better.

    The uncovered words of a hypothesis are gaps, each shorter than the distortion limit, and the end of the
    sentence. So two kinds of spans are enough, and their number is linear in the length of the sentence.

    Attributes:
        spans: (n_words + 1, longest + 1); spans[start, length] is the cost of `length` words from `start` on.
            The longest span has min(n_words, LONGEST_SPAN) words.
        tails: (n_words + 1,); tails[start] is the cost of all words from `start` on.
    """

    spans: NDArray[np.float64]
    tails: NDArray[np.float64]


def no_costs(n_words: int) -> FutureCosts:
    """The costs of a sentence without phrases, minus infinity, to be filled by `combine_spans`."""
    longest = min(n_words, LONGEST_SPAN)
    return FutureCosts(np.full((n_words + 1, longest + 1), -np.inf), np.full(n_words + 1, -np.inf))


compiled_no_costs = inner_maker(no_costs)


@inner
def combine_spans(costs: FutureCosts) -> None:
    """Set the best estimate of each span from those of its parts (TranslationOptionCollection of Moses).

    At first, each span has the estimate of its best single phrase, minus infinity without one.
    """
    spans, tails = costs.spans, costs.tails
    n_words, longest = len(tails) - 1, spans.shape[1] - 1
    for start in range(n_words + 1):
        spans[start, 0] = 0.0
    for length in range(2, longest + 1):
        for start in range(n_words - length + 1):
            best = spans[start, length]
            for first in range(1, length):
                best = max(best, spans[start, first] + spans[start + first, length - first])
            spans[start, length] = best
    for start in range(n_words, -1, -1):
        if n_words - start <= longest:
            tails[start] = spans[start, n_words - start]
        else:
            best = -np.inf
            for first in range(1, longest + 1):
                best = max(best, spans[start, first] + tails[start + first])
            tails[start] = best


@compiled
def combined(costs: FutureCosts) -> FutureCosts:
    """The same costs after `combine_spans`."""
    combine_spans(costs)
    return costs
