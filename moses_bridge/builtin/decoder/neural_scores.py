"""N-grams of options, hypotheses and paths for a neural model, and its values in their scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.hypotheses import Hypotheses
from moses_bridge.builtin.decoder.lm_index import lm_score
from moses_bridge.builtin.decoder.options import Options
from moses_bridge.builtin.decoder.weighted_model import LanguageModel
from moses_bridge.compiled.inner import inner


class FeatureWords(NamedTuple):
    """The words of a sentence's options as a neural model knows them.

    Attributes:
        ids: int32, the model's number of each word in options.words.
        places: int32, its source place; none (length 0) if the model does not see the source.
        end_id: the number of the end of a sentence.
        end_place: its source place.
        n_asked: how many words of a phrase depend on what stands before it.
    """

    ids: NDArray[np.int32]
    places: NDArray[np.int32]
    end_id: int
    end_place: int
    n_asked: int


@njit(cache=True)
def stack_ngrams(
    first: int, is_last: bool, words: FeatureWords, word_starts: Any, previous: Any, phrases: Any,
    contexts: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The n-grams that the last phrases of hypotheses add, those within the phrases left out.

    Single arrays are asked for, here and below, and no whole `Options` and `Hypotheses`: to take those
    apart costs a call from Python more than the work itself.

    Args:
        first: the first hypothesis.
        is_last: whether the hypotheses are complete; then each adds the end of its sentence.
        words: of the sentence.
        word_starts: of its options.
        previous: (n_hypotheses,) what each one extends.
        phrases: (n_hypotheses,) the option that extends it.
        contexts: (room, order - 1) int32, last words of each hypothesis, oldest first; filled from
            `first` on.

    Returns:
        (n_ngrams, row width) int32, and (n_hypotheses + 1,) where those of each start.
    """
    n_hyps = len(phrases)
    starts = np.zeros(n_hyps + 1, np.int64)
    for i in range(n_hyps):
        n_words = word_starts[phrases[i] + 1] - word_starts[phrases[i]]
        starts[i + 1] = starts[i] + min(n_words, words.n_asked) + int(is_last)
    n_context, n_before = contexts.shape[1], int(len(words.places) > 0)
    ngrams = np.empty((starts[n_hyps], n_before + n_context + 1), np.int32)
    for i in range(n_hyps):
        context = contexts[first + i]
        context[:] = contexts[previous[i]]
        place, first_word = starts[i], word_starts[phrases[i]]
        for word in range(first_word, word_starts[phrases[i] + 1]):
            if word - first_word < words.n_asked:
                if n_before:
                    ngrams[place, 0] = words.places[word]
                _fill_ngram(words.ids[word], context, ngrams[place, n_before:])
                place += 1
            _move_on(words.ids[word], context)
        if is_last:
            if n_before:
                ngrams[place, 0] = words.end_place
            _fill_ngram(words.end_id, context, ngrams[place, n_before:])
    return ngrams, starts


@njit(cache=True)
def option_ngrams(words: FeatureWords, open_id: int, order: int, options: Options) -> Any:
    """The n-grams of all options in isolation, *Shape:* (n_target_words, row width).

    Args:
        words: of the sentence.
        open_id: what stands before the first word of each phrase.
        order: words of an n-gram.
        options: of the sentence.
    """
    n_before = int(len(words.places) > 0)
    ngrams = np.empty((len(words.ids), n_before + order), np.int32)
    context = np.empty(order - 1, np.int32)
    for option in range(len(options.rows)):
        context[:] = open_id
        for word in range(options.word_starts[option], options.word_starts[option + 1]):
            if n_before:
                ngrams[word, 0] = words.places[word]
            _fill_ngram(words.ids[word], context, ngrams[word, n_before:])
            _move_on(words.ids[word], context)
    return ngrams


@njit(cache=True)
def option_sums(values: Any, n_left_out: int, options: Options) -> Any:
    """Sums of values of words over each option, without those of its first words, *Shape:* (n_options,)."""
    sums = np.zeros(len(options.rows))
    for option in range(len(sums)):
        first = options.word_starts[option] + n_left_out
        for word in range(first, options.word_starts[option + 1]):
            sums[option] += values[word]
    return sums


@njit(cache=True)
def path_ngrams(
    phrase_starts: Any, phrases: Any, ids: Any, start_id: int, end_id: int, order: int,
    options: Options,
) -> tuple[Any, Any]:  # fmt: skip
    """All n-grams of whole translations, the ends of sentence included; see `stack_ngrams`.

    Args:
        phrase_starts: (n_paths + 1,), into `phrases`.
        phrases: the paths' options.
        ids: the neural model's number of each word in options.words.
        start_id: what stands before the first word.
        end_id: the number of the end of a sentence.
        order: words of an n-gram.
        options: of the sentence.
    """
    n_paths = len(phrase_starts) - 1
    starts = np.zeros(n_paths + 1, np.int64)
    for i in range(n_paths):
        starts[i + 1] = starts[i] + 1
        for option in phrases[phrase_starts[i] : phrase_starts[i + 1]]:
            starts[i + 1] += options.word_starts[option + 1] - options.word_starts[option]
    ngrams = np.empty((starts[n_paths], order), np.int32)
    context = np.empty(order - 1, np.int32)
    for i in range(n_paths):
        context[:] = start_id
        place = starts[i]
        for option in phrases[phrase_starts[i] : phrase_starts[i + 1]]:
            for word in range(options.word_starts[option], options.word_starts[option + 1]):
                _fill_ngram(ids[word], context, ngrams[place])
                _move_on(ids[word], context)
                place += 1
        _fill_ngram(end_id, context, ngrams[place])
    return ngrams, starts


@inner
def _fill_ngram(word: int, context: Any, out: Any) -> None:
    """Fill `out` with a word behind its context."""
    n_context = len(context)
    for i in range(n_context):
        out[i] = context[i]
    out[n_context] = word


@inner
def _move_on(word: int, context: Any) -> None:
    n_context = len(context)
    for i in range(n_context - 1):
        context[i] = context[i + 1]
    if n_context > 0:
        context[n_context - 1] = word


@njit(cache=True)
def add_values(
    weight: float, values: Any, starts: Any, closed: Any, phrases: Any, totals: Any
) -> None:
    """Add a neural model's weighted values of the last phrases of hypotheses.

    Args:
        weight: of the model.
        values: of the n-grams of `stack_ngrams`.
        starts: of `stack_ngrams`.
        closed: for each option, the sum of the n-grams within it that `stack_ngrams` leaves out.
        phrases: (n_hypotheses,) the options.
        totals: (n_hypotheses,); grow by the values.
    """
    for i in range(len(totals)):
        total = closed[phrases[i]]
        for j in range(starts[i], starts[i + 1]):
            total += values[j]
        totals[i] += weight * total


@njit(cache=True)
def added_log10s(
    first: int, is_last: bool, options: Options, lm: LanguageModel, hyps: Hypotheses
) -> Any:
    """The n-gram model's log10 probabilities of what hypotheses add, *Shape:* (n_hypotheses,).

    Args:
        first: the first hypothesis; the last one is the last of all.
        is_last: whether the hypotheses are complete.
        options: of the sentence.
        lm: the n-gram model.
        hyps: hypotheses.
    """
    context = np.zeros(max(1, lm.order - 1), np.int32)
    log10s = np.empty(hyps.size[0] - first)
    for i in range(len(log10s)):
        log10s[i] = _added_log10(first + i, is_last, options, lm, hyps, context)
    return log10s


@inner
def _added_log10(
    hyp: int, is_last: bool, options: Options, lm: LanguageModel, hyps: Hypotheses, context: Any
) -> float:
    """The n-gram model's log10 probability of the words that a hypothesis adds."""
    previous, option = hyps.previous[hyp], hyps.options[hyp]
    n_context = hyps.context_sizes[previous]
    for i in range(n_context):
        context[i] = hyps.contexts[previous, i]
    total = 0.0
    for i in range(options.word_starts[option], options.word_starts[option + 1]):
        log_prob, n_context = lm_score(lm.tables, context, n_context, options.lm_words[i], context)
        total += log_prob
    if is_last:
        log_prob, n_context = lm_score(lm.tables, context, n_context, lm.eos_id, context)
        total += log_prob
    return total
