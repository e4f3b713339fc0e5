"""N-grams of hypotheses and paths for a neural language model, and its values in their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from moses_bridge.builtin.decoder.hypotheses import Hypotheses
from moses_bridge.builtin.decoder.lm_index import LN10, lm_score
from moses_bridge.builtin.decoder.options import Options
from moses_bridge.builtin.decoder.weighted_model import LanguageModel
from moses_bridge.compiled.inner import inner


@njit(cache=True)
def stack_ngrams(
    first: int, ids: Any, end_id: int, is_last: bool, options: Options, hyps: Hypotheses,
    contexts: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The n-grams that the last phrases of hypotheses add.

    Args:
        first: the first hypothesis; the last one is the last of all.
        ids: the neural model's number of each word in options.words.
        end_id: that of the end of a sentence, which a complete hypothesis adds.
        is_last: whether the hypotheses are complete.
        options: of the sentence.
        hyps: hypotheses.
        contexts: (room, order - 1) int32, last words of each hypothesis, oldest first; filled from
            `first` on.

    Returns:
        (n_ngrams, order) int32, and (n_hypotheses + 1,) where those of each start.
    """
    n_hyps = hyps.size[0] - first
    starts = np.zeros(n_hyps + 1, np.int64)
    for i in range(n_hyps):
        option = hyps.options[first + i]
        n_words = options.word_starts[option + 1] - options.word_starts[option]
        starts[i + 1] = starts[i] + n_words + int(is_last)
    ngrams = np.empty((starts[n_hyps], contexts.shape[1] + 1), np.int32)
    for i in range(n_hyps):
        hyp = first + i
        contexts[hyp] = contexts[hyps.previous[hyp]]
        _add_ngrams(
            hyps.options[hyp], ids, options, contexts[hyp], ngrams[starts[i] : starts[i + 1]]
        )
        if is_last:
            _add_ngram(end_id, contexts[hyp], ngrams[starts[i + 1] - 1])
    return ngrams, starts


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
            place += _add_ngrams(option, ids, options, context, ngrams[place:])
        _add_ngram(end_id, context, ngrams[place])
    return ngrams, starts


@inner
def _add_ngrams(option: int, ids: Any, options: Options, context: Any, out: Any) -> int:
    """Fill `out` with the n-grams of an option's words; their number."""
    first, last = options.word_starts[option], options.word_starts[option + 1]
    for i in range(first, last):
        _add_ngram(ids[i], context, out[i - first])
    return int(last - first)


@inner
def _add_ngram(word: int, context: Any, out: Any) -> None:
    """Fill `out` with a word behind its context, and move the context on."""
    n_context = len(context)
    for i in range(n_context):
        out[i] = context[i]
    out[n_context] = word
    for i in range(n_context):
        context[i] = out[i + 1]


@njit(cache=True)
def exchange_scores(
    first: int, log_probs: Any, starts: Any, weight: float, is_last: bool, options: Options,
    lm: LanguageModel, hyps: Hypotheses,
) -> None:  # fmt: skip
    """Put the neural values of the last phrases in the place of the n-gram model's.

    Args:
        first: the first hypothesis.
        log_probs: of the n-grams of `stack_ngrams`.
        starts: of `stack_ngrams`.
        weight: of the neural model, with which the n-gram model has stood in for it.
        is_last: whether the hypotheses are complete.
        options: of the sentence.
        lm: the n-gram model.
        hyps: their scores and estimates change.
    """
    context = np.zeros(max(1, lm.order - 1), np.int32)
    for i in range(len(starts) - 1):
        neural = 0.0
        for j in range(starts[i], starts[i + 1]):
            neural += log_probs[j]
        stand_in = LN10 * _added_log10(first + i, is_last, options, lm, hyps, context)
        hyps.scores[first + i] += weight * (neural - stand_in)
        hyps.estimates[first + i] += weight * (neural - stand_in)


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
