"""Translation options: the phrase pairs of a sentence, best first under given weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.phrase_model import PhraseModel

UNKNOWN_WORD_SCORE = -100.0  # Moses's value of UnknownWordPenalty (moses/TypeDef.h, LOWEST_SCORE)


@dataclass(frozen=True)
class SearchWeights:
    """Weights by what they weigh.

    Attributes:
        lm: of the natural log probability of the language model.
        distortion: of minus the words jumped over.
        reordering: (6,), of the reordering scores.
        scores: (n_scores,), of the phrase table's scores.
        word: of minus the number of words.
        phrase: of the number of phrases.
        unknown: of -100 for each copied word.
    """

    lm: float
    distortion: float
    reordering: NDArray[np.float64]
    scores: NDArray[np.float64]
    word: float
    phrase: float
    unknown: float


class OptionTables(NamedTuple):
    """What the search reads of each row of a PhraseModel (see there), with weighted sums.

    Attributes:
        fixed: (n_rows,) weighted sum of all that is known of the phrase pair but the language model.
        estimate: (n_rows,) `fixed` and the weighted language model of the phrase by itself.
    """

    fixed: Any
    estimate: Any
    first_word: Any
    words: Any
    lm_ids: Any
    lm_rest: Any
    n_context: Any
    scores: Any
    reordering: Any
    is_unknown: Any


class SentenceOptions(NamedTuple):
    """The options of a sentence.

    Attributes:
        rows: (n_options,) int64 rows of the model, by span, best estimate first.
        first: (n_words, max_phrase_words) int64; the options of source words i .. i + k are
            rows[first[i, k]:last[i, k]].
        last: like first.
    """

    rows: Any
    first: Any
    last: Any


class OptionRanking:
    """The phrase pairs of a model under given weights.

    Args:
        model: with a row for each word of the input.
        weights: of all features.
        table_limit: how many translations of a source phrase are used; 0 for all.
    """

    def __init__(self, model: PhraseModel, weights: SearchWeights, table_limit: int) -> None:
        self.model = model
        self.table_limit = table_limit
        self.max_phrase_words = max(source.count(b" ") + 1 for source in model.groups)
        fixed = _fixed_scores(model, weights)
        estimate = fixed + weights.lm * model.lm_total
        self._by_estimate = np.lexsort((-estimate, _group_numbers(model)))
        self.tables = OptionTables(
            fixed=fixed,
            estimate=estimate,
            first_word=model.first_word,
            words=model.words,
            lm_ids=model.lm_ids,
            lm_rest=model.lm_rest,
            n_context=model.n_context,
            scores=model.scores,
            reordering=model.reordering,
            is_unknown=model.is_unknown,
        )

    def of_sentence(self, words: Sequence[bytes]) -> SentenceOptions:
        """The options of each span of a sentence."""
        width = min(self.max_phrase_words, len(words))
        first = np.zeros((len(words), width), np.int64)
        last = np.zeros((len(words), width), np.int64)
        parts = [self._by_estimate[:0]]
        n_options = 0
        for i in range(len(words)):
            for k in range(min(width, len(words) - i)):
                group = self.model.groups.get(b" ".join(words[i : i + k + 1]))
                if group is None:
                    continue
                part = self._best_rows(*group)
                parts.append(part)
                first[i, k], last[i, k] = n_options, n_options + len(part)
                n_options += len(part)
        return SentenceOptions(np.concatenate(parts), first, last)

    def _best_rows(self, first: int, last: int) -> NDArray[np.int64]:
        if self.table_limit > 0:
            last = min(last, first + self.table_limit)
        return self._by_estimate[first:last]


def _fixed_scores(model: PhraseModel, weights: SearchWeights) -> NDArray[np.float64]:
    scores: NDArray[np.float64] = model.scores @ weights.scores + weights.phrase
    scores -= weights.word * np.diff(model.first_word)
    scores[model.is_unknown] += weights.unknown * UNKNOWN_WORD_SCORE
    return scores


def _group_numbers(model: PhraseModel) -> NDArray[np.int64]:
    bounds = np.array(list(model.groups.values()))
    return np.repeat(np.arange(len(bounds)), bounds[:, 1] - bounds[:, 0])
