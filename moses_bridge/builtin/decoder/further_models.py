"""All language models but the first, side by side, in the form for compiled code.

The search has code of its own for the first model, so that a single one costs nothing more. The contexts of the
further models are kept in one row, with a fixed number of places for each, filled up with NO_WORD. So two rows
can be compared without knowing the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner
from moses_bridge.builtin.language_model.lm_index import LN10, LmIndex, LmTables, lm_score

NO_WORD = -1
END = -1  # of a sentence, as the number of a target word


class FurtherModels(NamedTuple):
    """Several language models; empty arrays for none.

    Attributes:
        entries, values, bits: see `LmTables`; those of the models are concatenated.
        nodes: (n_models + 1,) int64, the first node of each model.
        n_words, masks: (n_models,) int64, see `LmTables`.
        has_codes: (n_models,) bool, see `LmTables`.
        numbers: (n_models, n_target_words) int32, each model's number of each target word.
        unk_ids, bos_ids, eos_ids: (n_models,) int32, numbers of <unk>, <s> and </s>.
        places: (n_models + 1,) int64, the first place of each model in a row of contexts.
    """

    entries: NDArray[np.int64]
    values: NDArray[np.float32]
    bits: NDArray[np.int32]
    nodes: NDArray[np.int64]
    n_words: NDArray[np.int64]
    masks: NDArray[np.int64]
    has_codes: NDArray[np.bool_]
    numbers: NDArray[np.int32]
    unk_ids: NDArray[np.int32]
    bos_ids: NDArray[np.int32]
    eos_ids: NDArray[np.int32]
    places: NDArray[np.int64]

    @property
    def width(self) -> int:
        """Number of places in a row of contexts."""
        return int(self.places[-1])


def join_models(models: Sequence[LmIndex], target_words: Sequence[bytes]) -> FurtherModels:
    """Put language models side by side; target words beyond `target_words` are unknown to them."""
    tables = [model.tables for model in models]
    entries = _concatenated([table.entries for table in tables])
    numbers = np.empty((len(models), len(target_words)), np.int32)
    for row, model in zip(numbers, models, strict=True):
        found = map(model.vocabulary.get, target_words, repeat(model.unk_id))
        row[:] = np.fromiter(found, np.int32, len(target_words))
    return FurtherModels(
        entries=entries,
        values=entries.view(np.float32),
        bits=entries.view(np.int32),
        nodes=np.cumsum([0, *(len(table.entries) // 2 for table in tables)]),
        n_words=np.array([table.n_words for table in tables], np.int64),
        masks=np.array([table.mask for table in tables], np.int64),
        has_codes=np.array([table.has_codes for table in tables], np.bool_),
        numbers=numbers,
        unk_ids=np.array([model.unk_id for model in models], np.int32),
        bos_ids=np.array([model.bos_id for model in models], np.int32),
        eos_ids=np.array([model.eos_id for model in models], np.int32),
        places=np.cumsum([0, *(max(1, model.order - 1) for model in models)]),
    )


def _concatenated(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Concatenate arrays without copying a single large one."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])


@inner
def start_contexts(further: FurtherModels, out: Any) -> None:
    """Fill a row with the contexts of the start of a sentence."""
    no_contexts(out)
    for model in range(len(further.masks)):
        out[further.places[model]] = further.bos_ids[model]


@inner
def no_contexts(out: Any) -> None:
    """Fill a row with empty contexts, as for a phrase alone."""
    for i in range(len(out)):
        out[i] = NO_WORD


@inner
def word_log10(model: int, word: int, further: FurtherModels, contexts: Any) -> float:
    """Log10 probability of a target word, or END, after a row's context, which is moved on by the word.

    A model of order 1 has a place for a context but does not use it.
    """
    first, last = further.places[model], further.places[model + 1]
    n_context = 0
    while first + n_context < last and contexts[first + n_context] != NO_WORD:
        n_context += 1
    number = further.unk_ids[model]
    if word == END:
        number = further.eos_ids[model]
    elif word < further.numbers.shape[1]:
        number = further.numbers[model, word]
    node, end = further.nodes[model], further.nodes[model + 1]
    tables = LmTables(
        further.entries[2 * node : 2 * end],
        further.values[4 * node : 4 * end],
        further.bits[4 * node : 4 * end],
        further.n_words[model],
        further.masks[model],
        further.has_codes[model],
    )
    context = contexts[first:last]
    log10, n_context = lm_score(tables, context, n_context, number, context)
    for i in range(n_context, len(context)):
        context[i] = NO_WORD
    return float(log10)


@inner
def phrase_score(
    words: Any, first: int, last: int, is_last: bool, further: FurtherModels, weights: Any,
    contexts: Any,
) -> float:  # fmt: skip
    """Weighted scores of all models for words[first:last], followed by END if `is_last`.

    The models have the last weights. The row of contexts is moved on from before to after the phrase.
    """
    n_models = len(further.masks)
    total = 0.0
    for model in range(n_models):
        log10 = 0.0
        for i in range(first, last):
            log10 += word_log10(model, words[i], further, contexts)
        if is_last:
            log10 += word_log10(model, END, further, contexts)
        total += weights[len(weights) - n_models + model] * LN10 * log10
    return float(total)
