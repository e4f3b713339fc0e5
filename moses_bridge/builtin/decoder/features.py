"""Feature values of a translation with a given segmentation."""

from __future__ import annotations

from typing import Any

import numpy as np

from moses_bridge.base.compiled.inner import inner, inner_maker
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.further_models import (
    END,
    FurtherModels,
    start_contexts,
    word_log10,
)
from moses_bridge.builtin.decoder.jumps import compiled_early_cost, compiled_orientation
from moses_bridge.builtin.decoder.options import UNKNOWN_ROW, UNKNOWN_SCORE
from moses_bridge.builtin.decoder.weighted_model import LanguageModel, WeightedModel, lm_word
from moses_bridge.builtin.language_model.lm_index import LN10, lm_score


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
