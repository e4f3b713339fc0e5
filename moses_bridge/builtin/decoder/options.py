"""Translation options of a sentence: every phrase pair that fits, with its scores, and future costs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.feature_slots import (
    LANGUAGE_MODEL,
    PHRASE_PENALTY,
    UNKNOWN_WORD,
    WORD_PENALTY,
)
from moses_bridge.builtin.decoder.lm_index import LN10, lm_score
from moses_bridge.builtin.decoder.loaded_table import PairTables
from moses_bridge.builtin.decoder.phrase_choice import (
    Choices,
    Language,
    choose,
    lm_word,
    static_score,
)
from moses_bridge.builtin.decoder.source_trie import ROOT, TrieTables, child_of
from moses_bridge.compiled.inner import inner

UNKNOWN_SCORE = -100.0  # UnknownWordPenaltyProducer::EvaluateInIsolation: the floor of scores
UNKNOWN_ROW = -1


class Knowledge(NamedTuple):
    """What options are made of; the same for all sentences of a run.

    Attributes:
        rows, trie, node_starts, node_rows: of PhrasePairs.
        reordering: (n_rows, 6) natural logarithms.
        lm_scores: (n_rows,) of `choose`.
        language: the language model.
        choices: the rows kept for each source phrase.
        weights: the weight vector.
    """

    rows: PairTables
    trie: TrieTables
    node_starts: NDArray[np.int64]
    node_rows: NDArray[np.int64]
    reordering: NDArray[np.float32]
    lm_scores: NDArray[np.float32]
    language: Language
    choices: Choices
    weights: NDArray[np.float64]


class Options(NamedTuple):
    """Translation options of one sentence, those of a span together, best first.

    Attributes:
        n_words: length of the sentence.
        max_words: longest source phrase.
        span_starts: (n_words * max_words + 1,) int32; options of the span that begins at s and has
            k words: from span_starts[s * max_words + k - 1] to the next.
        rows: int64, row of the phrase table, -1 for an unknown word that is copied.
        starts, ends: int32, source words starts..ends-1.
        statics: weighted sum of the stateless features.
        outlooks: statics plus the weighted language model score of the phrase alone.
        reordering: (n, 6) weighted reordering scores.
        word_starts: (n + 1,) int32, into the next three.
        words: int32, target words.
        lm_words: int32, their numbers in the language model.
        tails: weighted language model score of the words behind this one, in the phrase alone.
        context_sizes: int32, words of language model context after the phrase alone.
        future: (n_words + 1, n_words + 1); best outlook for words s..e-1.
    """

    n_words: int
    max_words: int
    span_starts: NDArray[np.int32]
    rows: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    statics: NDArray[np.float64]
    outlooks: NDArray[np.float64]
    reordering: NDArray[np.float64]
    word_starts: NDArray[np.int32]
    words: NDArray[np.int32]
    lm_words: NDArray[np.int32]
    tails: NDArray[np.float64]
    context_sizes: NDArray[np.int32]
    future: NDArray[np.float64]


@inner
def _span_nodes(source: Any, max_words: int, knowledge: Knowledge) -> Any:
    """(n_words, max_words) int32: trie node of each span that has translations, else -1."""
    nodes = np.full((len(source), max_words), -1, np.int32)
    for start in range(len(source)):
        node = ROOT
        for length in range(1, min(max_words, len(source) - start) + 1):
            word = source[start + length - 1]
            node = child_of(knowledge.trie, node, word) if word >= 0 else -1
            if node < 0:
                break
            if knowledge.node_starts[node] < knowledge.node_starts[node + 1]:
                nodes[start, length - 1] = node
    return nodes


@njit(cache=True)
def choose_for_sentence(source: Any, max_words: int, knowledge: Knowledge) -> None:
    """Make the choices of all source phrases of a sentence, so that worker processes share them."""
    nodes = _span_nodes(source, max_words, knowledge).ravel()
    for i in range(len(nodes)):
        node = nodes[i]
        if node >= 0 and not knowledge.choices.done[node]:
            choose(
                node, knowledge.rows, knowledge.node_starts, knowledge.node_rows,
                knowledge.lm_scores, knowledge.language, knowledge.weights, knowledge.choices,
            )  # fmt: skip


@njit(cache=True)
def make_options(source: Any, copies: Any, max_words: int, knowledge: Knowledge) -> Options:
    """The options of a sentence.

    Args:
        source: (n_words,) int32, source word numbers, -1 for words that the table does not know.
        copies: (n_words,) int32, the same words as target words, should they be copied.
        max_words: longest source phrase.
        knowledge: tables and weights; the choices of the sentence's phrases are made if need be.
    """
    choose_for_sentence(source, max_words, knowledge)
    nodes = _span_nodes(source, max_words, knowledge)
    n_options, n_target_words, span_starts = _measure(nodes, knowledge)
    options = Options(
        len(source),
        max_words,
        span_starts,
        np.empty(n_options, np.int64),
        np.empty(n_options, np.int32),
        np.empty(n_options, np.int32),
        np.empty(n_options),
        np.empty(n_options),
        np.zeros((n_options, 6)),
        np.zeros(n_options + 1, np.int32),
        np.empty(n_target_words, np.int32),
        np.empty(n_target_words, np.int32),
        np.empty(n_target_words),
        np.empty(n_options, np.int32),
        np.full((len(source) + 1, len(source) + 1), -np.inf),
    )
    _fill(nodes, copies, knowledge, options)
    _fill_future(options)
    return options


@inner
def _measure(nodes: Any, knowledge: Knowledge) -> tuple[int, int, Any]:
    """Number of options, number of their target words, and the start of each span's options."""
    n_words, max_words = nodes.shape
    choices, rows = knowledge.choices, knowledge.rows
    span_starts = np.zeros(n_words * max_words + 1, np.int32)
    n_options, n_target_words = 0, 0
    for span in range(n_words * max_words):
        node = nodes[span // max_words, span % max_words]
        if node >= 0:
            for i in range(choices.starts[node], choices.starts[node + 1]):
                row = choices.rows[i]
                n_target_words += rows.word_starts[row + 1] - rows.word_starts[row]
            n_options += choices.starts[node + 1] - choices.starts[node]
        elif span % max_words == 0:
            n_options, n_target_words = n_options + 1, n_target_words + 1
        span_starts[span + 1] = n_options
    return n_options, n_target_words, span_starts


@inner
def _fill(nodes: Any, copies: Any, knowledge: Knowledge, options: Options) -> None:
    context = np.zeros(max(1, knowledge.language.order - 1), np.int32)
    choices = knowledge.choices
    for span in range(nodes.size):
        start, length = span // nodes.shape[1], span % nodes.shape[1] + 1
        first = options.span_starts[span]
        for option in range(first, options.span_starts[span + 1]):
            options.starts[option], options.ends[option] = start, start + length
            node = nodes[start, length - 1]
            if node >= 0:
                row = choices.rows[choices.starts[node] + option - first]
                _fill_known(option, row, knowledge, options)
            else:
                _fill_unknown(option, copies[start], knowledge, options)
            _fill_language(option, knowledge, options, context)


@inner
def _fill_known(option: int, row: int, knowledge: Knowledge, options: Options) -> None:
    rows, weights = knowledge.rows, knowledge.weights
    options.rows[option] = row
    options.statics[option] = static_score(rows, row, weights)
    for i in range(6):
        options.reordering[option, i] = weights[i] * knowledge.reordering[row, i]
    place = options.word_starts[option]
    for i in range(rows.word_starts[row], rows.word_starts[row + 1]):
        options.words[place] = rows.words[i]
        place += 1
    options.word_starts[option + 1] = place


@inner
def _fill_unknown(option: int, word: int, knowledge: Knowledge, options: Options) -> None:
    weights = knowledge.weights
    options.rows[option] = UNKNOWN_ROW
    options.statics[option] = (
        UNKNOWN_SCORE * weights[UNKNOWN_WORD] - weights[WORD_PENALTY] + weights[PHRASE_PENALTY]
    )
    place = options.word_starts[option]
    options.words[place] = word
    options.word_starts[option + 1] = place + 1


@inner
def _fill_language(option: int, knowledge: Knowledge, options: Options, context: Any) -> None:
    """Language model scores of the phrase alone."""
    language = knowledge.language
    weight = LN10 * knowledge.weights[LANGUAGE_MODEL]
    first, last = options.word_starts[option], options.word_starts[option + 1]
    n_context = 0
    for i in range(first, last):
        options.lm_words[i] = lm_word(language, options.words[i])
        log_prob, n_context = lm_score(
            language.tables, context, n_context, options.lm_words[i], context
        )
        options.tails[i] = weight * log_prob
    options.context_sizes[option] = n_context
    total = 0.0
    for i in range(last - 1, first - 1, -1):
        score = options.tails[i]
        options.tails[i] = total
        total += score
    options.outlooks[option] = options.statics[option] + total


@inner
def _fill_future(options: Options) -> None:
    """Best outlook of each span, by one phrase or by two parts (TranslationOptionCollection)."""
    n_words, future = options.n_words, options.future
    for start in range(n_words + 1):
        future[start, start] = 0.0
    for length in range(1, n_words + 1):
        for start in range(n_words - length + 1):
            end = start + length
            best = -np.inf
            if length <= options.max_words:
                span = start * options.max_words + length - 1
                if options.span_starts[span] < options.span_starts[span + 1]:
                    best = options.outlooks[options.span_starts[span]]
            for middle in range(start + 1, end):
                best = max(best, future[start, middle] + future[middle, end])
            future[start, end] = best
