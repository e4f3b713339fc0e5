"""A neural model as a feature of the search: its values of options, stacks and paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder.lattice import Paths
from moses_bridge.builtin.decoder.nbest_lines import SentenceOptions
from moses_bridge.builtin.decoder.ngram_memo import NgramMemo, NgramTable, enter_ngrams
from moses_bridge.builtin.decoder.options import Options
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


class FeatureWords(NamedTuple):
    """The words of a sentence's options in a neural model's numbers.

    Attributes:
        ids: (n_words,) int32, the model's number of each word in options.words.
        places: (n_words,) int32, the source place of each word; length 0 if the model does not see the source.
        end_id: the model's number of the end of a sentence.
        end_place: source place of the end of the sentence.
        n_dependent: number of first words of a phrase whose values depend on words before the phrase.
    """

    ids: NDArray[np.int32]
    places: NDArray[np.int32]
    end_id: int
    end_place: int
    n_dependent: int


class StackWords(NamedTuple):
    """The `FeatureWords` of several sentences, concatenated.

    `contexts`, (n_hypotheses, order - 1) int32, are the last words of each hypothesis, oldest first, with room
    for all of `Searches.hyps`.
    """

    ids: NDArray[np.int32]
    places: NDArray[np.int32]
    end_id: int
    end_places: NDArray[np.int32]
    n_dependent: int
    contexts: NDArray[np.int32]


@compiled
def stack_starts(n_covered: int, n_dependent: int, added: LastPhrases) -> Any:
    """The start of each hypothesis' n-grams in `stack_ngrams`, for open stacks, (n_hypotheses + 1,).

    The stacks have n_covered covered words; a complete hypothesis adds the end of its sentence.
    """
    starts = np.zeros((added.sizes - added.firsts).sum() + 1, np.int64)
    parts, place = added.parts, 0
    for i in range(len(added.firsts)):
        n_ends = int(n_covered == parts.words[i + 1] - parts.words[i])
        for hyp in range(parts.hyps[i] + added.firsts[i], parts.hyps[i] + added.sizes[i]):
            option = parts.options[i] + i + added.options[hyp]
            n_words = added.word_starts[option + 1] - added.word_starts[option]
            starts[place + 1] = starts[place] + min(n_words, n_dependent) + n_ends
            place += 1
    return starts


@compiled
def stack_ngrams(
    n_covered: int, starts: Any, words: StackWords, added: LastPhrases, table: NgramTable, size: int
) -> tuple[Any, Any]:
    """Enter the n-grams added by the last phrases of hypotheses, except those within the phrases.

    `starts` are from `stack_starts`; the contexts of the hypotheses are filled in `words`. `table` has the
    places of the `size` known n-grams (`NgramMemo`).

    Returns:
        The places of the n-grams in the memo, (n_ngrams,), and the new n-grams, (n_new, row width) int32. A
        row is the source place, if the model sees the source, and `order` words.
    """
    n_ngrams, width = starts[-1], int(len(words.places) > 0) + words.contexts.shape[1] + 1
    places, new = np.empty(n_ngrams, np.int64), np.empty((n_ngrams, width), np.int32)
    ngrams = np.empty((n_ngrams, width), np.int32)  # reused from the start for each sentence
    hyp, n_new = 0, 0
    for i in range(len(added.firsts)):
        first, hyp = starts[hyp], hyp + added.sizes[i] - added.firsts[i]
        of_sentence = ngrams[: starts[hyp] - first]
        _fill_ngrams(i, n_covered, words, added, of_sentence)
        n_new += enter_ngrams(
            of_sentence, table, size + n_new, places[first : starts[hyp]], new[n_new:]
        )
    return places, new[:n_new]


@inner
def _fill_ngrams(
    sentence: int, n_covered: int, words: StackWords, added: LastPhrases, ngrams: Any
) -> None:
    parts, place = added.parts, 0
    n_before = int(len(words.places) > 0)
    first_hyp, first_option = parts.hyps[sentence], parts.options[sentence] + sentence
    is_last = n_covered == parts.words[sentence + 1] - parts.words[sentence]
    for hyp in range(first_hyp + added.firsts[sentence], first_hyp + added.sizes[sentence]):
        option, context = first_option + added.options[hyp], words.contexts[hyp]
        _copy(words.contexts[first_hyp + added.previous[hyp]], context)
        first_word = parts.target_words[sentence] + added.word_starts[option]
        end_word = parts.target_words[sentence] + added.word_starts[option + 1]
        for word in range(first_word, end_word):
            if word - first_word < words.n_dependent:
                if n_before:
                    ngrams[place, 0] = words.places[word]
                _fill_ngram(words.ids[word], context, ngrams[place, n_before:])
                place += 1
            _move_on(words.ids[word], context)
        if is_last:
            if n_before:
                ngrams[place, 0] = words.end_places[sentence]
            _fill_ngram(words.end_id, context, ngrams[place, n_before:])
            place += 1


@compiled
def option_ngrams(words: FeatureWords, open_id: int, order: int, options: Options) -> Any:
    """The n-grams of all options in isolation, *Shape:* (n_target_words, row width).

    open_id is the number of an open word, the context of the first word of each phrase.
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


@compiled
def option_sums(values: Any, n_left_out: int, options: Options) -> Any:
    """Sum the values of each option's words, (n_words,), except its n_left_out first ones: (n_options,)."""
    sums = np.zeros(len(options.rows))
    for option in range(len(sums)):
        first = options.word_starts[option] + n_left_out
        for word in range(first, options.word_starts[option + 1]):
            sums[option] += values[word]
    return sums


@compiled
def path_ngrams(
    phrase_starts: Any, phrases: Any, ids: Any, start_id: int, end_id: int, order: int,
    options: Options,
) -> tuple[Any, Any]:  # fmt: skip
    """All n-grams of whole translations, the ends of sentence included; see `stack_ngrams`.

    phrase_starts, (n_paths + 1,), are indices of `phrases`, the paths' options; `ids` is the neural model's
    number of each word in options.words, start_id the context of the first word of a sentence.

    Returns:
        The n-grams without source places, (n_ngrams, order) int32, and the start of those of each path,
        (n_paths + 1,).
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
def _copy(numbers: Any, out: Any) -> None:
    for i in range(len(numbers)):
        out[i] = numbers[i]


@inner
def _fill_ngram(word: int, context: Any, out: Any) -> None:
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


@compiled
def add_values(
    weight: float, values: Any, places: Any, starts: Any, closed: Any, added: LastPhrases,
    totals: Any,
) -> None:  # fmt: skip
    """Add a neural model's weighted values of the last phrases of hypotheses to their totals, (n_hypotheses,).

    `places` are those of the stacks' n-grams among `values`, from `stack_ngrams`, `starts` from `stack_starts`,
    `closed` the summed values of each option's n-grams left out there.
    """
    parts, place = added.parts, 0
    for i in range(len(added.firsts)):
        for hyp in range(parts.hyps[i] + added.firsts[i], parts.hyps[i] + added.sizes[i]):
            total = closed[parts.options[i] + added.options[hyp]]
            for j in range(starts[place], starts[place + 1]):
                total += values[places[j]]
            totals[place] += weight * total
            place += 1
