"""A neural model as a feature of the search: its values of options, stacks and paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.lattice import Paths
from moses_bridge.builtin.decoder.nbest_lines import SentenceOptions
from moses_bridge.builtin.decoder.neural_scores import (
    FeatureWords,
    StackWords,
    add_values,
    option_ngrams,
    option_sums,
    path_ngrams,
    stack_ngrams,
    stack_starts,
)
from moses_bridge.builtin.decoder.ngram_memo import NgramMemo
from moses_bridge.builtin.decoder.searches import LastPhrases, Searches
from moses_bridge.builtin.decoder.word_places import WordPlaces, path_places
from moses_bridge.formats.ngram_scorer import NO_ID, NgramScorer, begin_estimates

ALL_WORDS = np.iinfo(np.int32).max


@dataclass(frozen=True)
class PhraseValues:
    """A model's values of the options of a sentence, known before the search.

    Attributes:
        words: words of the options.
        alone: (n_options,) values in isolation; 0 without `NeuralFeature.scores_alone` or a weight.
        closed: (n_options,) the part of these values independent of previous words.
    """

    words: FeatureWords
    alone: NDArray[np.float64]
    closed: NDArray[np.float64]

    def reordered(self, order: NDArray[np.int64], word_order: NDArray[np.int64]) -> PhraseValues:
        """The values of reordered options, by old indices of options and of their words (`raise_options`)."""
        words = self.words
        places = words.places[word_order] if len(words.places) else words.places
        moved = words._replace(ids=words.ids[word_order], places=places)
        return PhraseValues(moved, self.alone[order], self.closed[order])


class NeuralFeature:
    """A neural model as a feature; target_words are those of the translation model, by number."""

    def __init__(
        self, name: str, weight: float, scorer: NgramScorer, target_words: Sequence[bytes]
    ) -> None:
        self.name = name
        self.weight = weight
        self.scorer = scorer
        self._log_probs = NgramMemo(lambda ngrams: partial(scorer.log_probs, ngrams))
        self._estimates = NgramMemo(partial(begin_estimates, scorer))
        self._target_ids = scorer.encode(target_words)

    @property
    def scores_alone(self) -> bool:
        """Whether the search uses its values of options in isolation until their history is known."""
        return self.scorer.reads_source and self.scorer.open_id != NO_ID

    @property
    def n_history(self) -> int:
        """The number of previous words seen by the model."""
        return self.scorer.order - 1

    def ask(
        self, n_covered: int, words: StackWords, closed: NDArray[np.float64], added: LastPhrases
    ) -> Callable[[NDArray[np.float64]], None]:
        """Begin to score the hypotheses of open stacks; `closed` are values of options (`PhraseValues`).

        Returns:
            A function waiting for the values and adding the weighted sum of each hypothesis to its number,
            (n_hypotheses,); call it before the next `ask`. It raises UserError if the scorer fails or a value
            is not finite.
        """
        starts = stack_starts(n_covered, words.n_dependent, added)
        wait, places = self._estimates.ask_entered(
            int(starts[-1]), partial(stack_ngrams, n_covered, starts, words, added)
        )
        return lambda totals: add_values(self.weight, wait(), places, starts, closed, added, totals)

    def phrase_values(
        self, lines: Sequence[bytes], sentences: Sequence[SentenceOptions], places: Sequence[WordPlaces]
    ) -> list[PhraseValues]:  # fmt: skip
        """Score the options of some sentences, and use these sentences from now on.

        `places` are source places of the options' words, empty if the model does not see the source.

        Raises:
            UserError: the scorer fails, or a value is not finite.
        """
        words = self._words(lines, sentences, places)
        if not (self.scores_alone and self.weight):
            nothing = [np.zeros(len(sentence.options.rows)) for sentence in sentences]
            return [PhraseValues(w, none, none) for w, none in zip(words, nothing, strict=True)]
        order, open_id = self.scorer.order, self.scorer.open_id
        ngrams = [
            option_ngrams(w, open_id, order, sentence.options)
            for w, sentence in zip(words, sentences, strict=True)
        ]
        ends = np.cumsum([len(rows) for rows in ngrams])
        values = np.split(self._estimates(np.concatenate(ngrams)), ends[:-1])
        return [
            PhraseValues(
                w._replace(n_dependent=self.n_history),
                option_sums(v, 0, sentence.options),
                option_sums(v, self.n_history, sentence.options),
            )
            for w, v, sentence in zip(words, values, sentences, strict=True)
        ]

    def path_values(
        self, words: Sequence[FeatureWords], linked: Sequence[NDArray[np.int32]],
        sentences: Sequence[SentenceOptions], paths: Sequence[Paths],
    ) -> list[NDArray[np.float64]]:  # fmt: skip
        """Compute the exact values of the paths of some sentences, *Shape:* (n_paths,) each.

        `words` are those of each sentence's options, `linked` the linked places of these words (`WordPlaces`).

        Raises:
            UserError: the scorer fails, or a value is not finite.
        """
        found = list(map(self._path_ngrams, words, linked, sentences, paths))
        log_probs = self._log_probs(np.concatenate([ngrams for ngrams, _ in found]))
        ends = np.cumsum([len(ngrams) for ngrams, _ in found])
        of_each = np.split(log_probs.astype(np.float64), ends[:-1])
        return [
            np.add.reduceat(v, starts[:-1]) for v, (_, starts) in zip(of_each, found, strict=True)
        ]

    def _path_ngrams(
        self, words: FeatureWords, linked: NDArray[np.int32], sentence: SentenceOptions, paths: Paths
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:  # fmt: skip
        scorer, options = self.scorer, sentence.options
        ngrams, starts = path_ngrams(
            paths.phrase_starts, paths.options, words.ids, scorer.start_id, scorer.end_id,
            scorer.order, options,
        )  # fmt: skip
        if scorer.reads_source:
            places = path_places(paths.phrase_starts, paths.options, linked, options)
            first = words.end_place - options.n_words
            ngrams = np.column_stack([first + places, ngrams]).astype(np.int32)
        return ngrams, starts

    def _words(
        self, lines: Sequence[bytes], sentences: Sequence[SentenceOptions], places: Sequence[WordPlaces]
    ) -> list[FeatureWords]:  # fmt: skip
        """Encode the words of sentences; those unknown to the translation model in one call."""
        new = list({name: 0 for sentence in sentences for name in sentence.names.values()})
        ids = dict(zip(new, self.scorer.encode(new).tolist(), strict=True))
        none, end_id = np.zeros(0, np.int32), self.scorer.end_id
        words = [FeatureWords(self._ids(s, ids), none, end_id, 0, ALL_WORDS) for s in sentences]
        self.scorer.read(lines)
        if not self.scorer.reads_source:
            return words
        self._log_probs.forget()
        self._estimates.forget()
        lengths = np.array([sentence.options.n_words for sentence in sentences])
        ends = np.cumsum(lengths + 1) - 1
        return [
            w._replace(places=(end - n + p.in_phrase).astype(np.int32), end_place=int(end))
            for w, p, n, end in zip(words, places, lengths, ends, strict=True)
        ]

    def _ids(self, sentence: SentenceOptions, ids_of_new: dict[bytes, int]) -> NDArray[np.int32]:
        words, known = sentence.options.words, len(self._target_ids)
        new = np.array([ids_of_new[name] for name in sentence.names.values()], np.int32)
        ids = np.empty(len(words), np.int32)
        is_known = words < known
        ids[is_known] = self._target_ids[words[is_known]]
        ids[~is_known] = new[words[~is_known] - known]
        return ids


def stack_words(
    words: Sequence[FeatureWords], feature: NeuralFeature, searches: Searches
) -> StackWords:
    """Join the words of several sentences in a model's numbers, with room for the contexts of hypotheses."""
    contexts = np.empty((len(searches.hyps.previous), feature.n_history), np.int32)
    contexts[searches.parts.hyps[:-1]] = feature.scorer.start_id
    return StackWords(
        ids=np.concatenate([each.ids for each in words]),
        places=np.concatenate([each.places for each in words]),
        end_id=words[0].end_id,
        end_places=np.array([each.end_place for each in words], np.int32),
        n_dependent=words[0].n_dependent,
        contexts=contexts,
    )
