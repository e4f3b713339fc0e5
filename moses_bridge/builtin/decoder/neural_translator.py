"""The search with neural models: sentences side by side, a stack of all of them at a time.

A stack is filled as always, with something in the place of the neural values, which future costs and the
order of options see too. For a model that sees the source and knows a number for a previous word that is open,
these are its own values of each option in isolation; one that knows none has nothing in its place. For a model
that does not see the source it is the n-gram model, whose weight is raised by its own, when a source
phrase's options are chosen too. Before the stack is pruned, the n-grams of all its hypotheses are scored in
one call, and the neural values take the place of what stood in for them. While one half of the sentences
waits for its values, the stacks of the other half are filled.

Three things are approximate in the search. Hypotheses are recombined as without neural models, by the
n-gram model's states; when the n-best list goes back through a hypothesis that was recombined into a
better one, the words that follow have the scores they had behind the better one. The search goes by the
scorers' quick estimates. And a target word without links has the source word of the nearest linked one of its
phrase. The values in the n-best list are exact: they are computed from the words and links of its entries,
and the entries are sorted by totals made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.feature_slots import LANGUAGE_MODEL
from moses_bridge.builtin.decoder.hypotheses import (
    Groups,
    Hypotheses,
    close_stack,
    make_groups,
    make_hypotheses,
)
from moses_bridge.builtin.decoder.lattice import Paths, take_paths
from moses_bridge.builtin.decoder.lm_index import LN10
from moses_bridge.builtin.decoder.nbest_lines import (
    NBestFormat,
    Sentence,
    nbest_lines,
    sentence_texts,
)
from moses_bridge.builtin.decoder.neural_feature import NeuralFeature, PhraseValues
from moses_bridge.builtin.decoder.neural_scores import (
    add_values,
    added_log10s,
    stack_ngrams,
)
from moses_bridge.builtin.decoder.options import raise_options
from moses_bridge.builtin.decoder.search import open_stack, start_search
from moses_bridge.builtin.decoder.translator import Translation, Translator
from moses_bridge.builtin.decoder.weighted_model import no_choices
from moses_bridge.builtin.decoder.word_places import WordPlaces, option_places
from moses_bridge.formats.words import split_words

NO_PLACES = np.zeros(0, np.int32)
N_GROUPS = 2  # of sentences: one is searched while the other one is scored


@dataclass(frozen=True)
class _Search:
    """The search of one sentence between two stacks.

    Attributes:
        sentence: to translate.
        linked: of the options' `WordPlaces`; of length 0 if no model sees the source.
        values: what each feature knows of the options.
        stand_ins: (n_options,) the weighted sum of the values in isolation.
        hyps, groups: of the search.
        contexts: each feature's (room, order - 1) int32, its last words of each hypothesis.
    """

    sentence: Sentence
    linked: NDArray[np.int32]
    values: list[PhraseValues]
    stand_ins: NDArray[np.float64]
    hyps: Hypotheses
    groups: Groups
    contexts: list[NDArray[np.int32]]

    @property
    def n_words(self) -> int:
        return self.sentence.options.n_words


@dataclass(frozen=True)
class _OpenStack:
    """A stack whose hypotheses wait for their values.

    Attributes:
        search: that it belongs to.
        first: its first hypothesis.
        phrases: the options by which its hypotheses extend others.
        windows, gaps: of its coverages.
        ngrams, starts: of `stack_ngrams`, of each feature with a weight.
    """

    search: _Search
    first: int
    phrases: NDArray[np.int32]
    windows: NDArray[np.uint64]
    gaps: NDArray[np.int32]
    ngrams: list[NDArray[np.int32]]
    starts: list[NDArray[np.int64]]


class NeuralTranslator:
    """Translates batches of sentences with neural models as features of the search.

    Args:
        translator: of the model without them.
        features: the neural models.
    """

    def __init__(self, translator: Translator, features: Sequence[NeuralFeature]) -> None:
        self._model = translator.model
        self._weights = translator.weighted.weights
        self._features = features
        self._asked = [i for i, feature in enumerate(features) if feature.weight]
        self._reads_source = any(feature.scorer.reads_source for feature in features)
        self._raised = sum(f.weight for f in features if not f.scorer.reads_source)
        self._translator = _raised_translator(translator, self._raised)

    def translate_batch(
        self, first_id: int, lines: Sequence[bytes], nbest: NBestFormat | None
    ) -> list[Translation]:
        """The best translation and the n-best lines of each line; see `Translator.translate`.

        Raises:
            UserError: a scorer fails.
        """
        found = {i: self._translator.sentence(line) for i, line in enumerate(lines)}
        sentences = {i: sentence for i, sentence in found.items() if sentence is not None}
        texts = [b" ".join(split_words(lines[i])) for i in sentences]
        searches = dict(zip(sentences, self._start(texts, [*sentences.values()]), strict=True))
        self._fill_all([*searches.values()])
        return [
            self._finish(first_id + i, searches[i], nbest) if i in searches else (b"", [])
            for i in found
        ]

    def _start(self, texts: Sequence[bytes], sentences: Sequence[Sentence]) -> list[_Search]:
        """Searches with their first stacks; each feature is asked for all sentences at once."""
        if not sentences:
            return []
        places = [self._places(sentence) for sentence in sentences]
        values = [feature.phrase_values(texts, sentences, places) for feature in self._features]
        return [
            self._start_one(sentence, places[i].linked, [of_feature[i] for of_feature in values])
            for i, sentence in enumerate(sentences)
        ]

    def _places(self, sentence: Sentence) -> WordPlaces:
        if not self._reads_source:
            return WordPlaces(NO_PLACES, NO_PLACES)
        places: WordPlaces = option_places(self._model.table.rows, sentence.options)
        return places

    def _start_one(
        self, sentence: Sentence, linked: NDArray[np.int32], values: list[PhraseValues]
    ) -> _Search:
        stand_ins = np.zeros(len(sentence.options.rows))
        for feature, value in zip(self._features, values, strict=True):
            stand_ins += feature.weight * value.alone
        if stand_ins.any():
            options, order, word_order = raise_options(sentence.options, stand_ins)
            sentence = Sentence(options, sentence.names)
            linked, stand_ins = linked[word_order], stand_ins[order]
            values = [value.reordered(order, word_order) for value in values]
        return self._open_search(sentence, linked, values, stand_ins)

    def _open_search(
        self, sentence: Sentence, linked: NDArray[np.int32], values: list[PhraseValues],
        stand_ins: NDArray[np.float64],
    ) -> _Search:  # fmt: skip
        options, limits = sentence.options, self._translator.limits
        hyps = make_hypotheses(options.n_words, limits.pop_limit, self._model.lm.order)
        groups = make_groups(options.n_words, limits.stack_size, limits.pop_limit)
        start_search(options, self._translator.weighted.lm, hyps, groups)
        contexts = []
        for feature in self._features:
            contexts.append(np.empty((len(hyps.previous), feature.n_history), np.int32))
            contexts[-1][0] = feature.scorer.start_id
        return _Search(sentence, linked, values, stand_ins, hyps, groups, contexts)

    def _fill_all(self, searches: Sequence[_Search]) -> None:
        """Fill the stacks of all sentences, those of a group while another one waits for values."""
        by_length = sorted(searches, key=lambda search: search.n_words)
        parts = [by_length[i::N_GROUPS] for i in range(N_GROUPS)]
        finish: Callable[[], None] = _nothing
        for n_covered in range(1, max((s.n_words for s in searches), default=0) + 1):
            for part in parts:
                stacks = [self._open(n_covered, s) for s in part if s.n_words >= n_covered]
                finish()
                finish = self._ask(n_covered, stacks)
        finish()

    def _open(self, n_covered: int, search: _Search) -> _OpenStack:
        options, hyps = search.sentence.options, search.hyps
        translator, edges = self._translator, self._translator.work.edges
        first, n_coverages = open_stack(
            n_covered, options, translator.weighted.lm, translator.weighted.weights,
            translator.limits, hyps, search.groups, translator.work,
        )  # fmt: skip
        added = slice(first, int(hyps.size[0]))
        previous, phrases = hyps.previous[added], hyps.options[added]
        found = [
            stack_ngrams(
                first, n_covered == options.n_words, search.values[i].words, options.word_starts,
                previous, phrases, search.contexts[i],
            )
            for i in self._asked
        ]  # fmt: skip
        windows, gaps = edges.windows[:n_coverages].copy(), edges.gaps[:n_coverages].copy()
        ngrams, starts = [rows for rows, _ in found], [starts for _, starts in found]
        return _OpenStack(search, first, phrases, windows, gaps, ngrams, starts)

    def _ask(self, n_covered: int, stacks: Sequence[_OpenStack]) -> Callable[[], None]:
        """Begin to score the hypotheses of some stacks; what it returns waits and closes the stacks."""
        if not stacks:
            return _nothing
        answers = [
            self._features[asked].ask(np.concatenate([stack.ngrams[i] for stack in stacks]))
            for i, asked in enumerate(self._asked)
        ]

        def finish() -> None:
            values = [answer() for answer in answers]
            first = [0] * len(values)
            for stack in stacks:
                of_stack = []
                for i, rows in enumerate(stack.ngrams):
                    of_stack.append(values[i][first[i] : first[i] + len(rows)])
                    first[i] += len(rows)
                self._close(n_covered, stack, of_stack)

        return finish

    def _close(
        self, n_covered: int, stack: _OpenStack, values: Sequence[NDArray[np.float32]]
    ) -> None:
        """Put the neural values in the place of what has stood in for them, and prune the stack."""
        search, translator = stack.search, self._translator
        options, hyps = search.sentence.options, search.hyps
        change = self._neural_values(stack, values) - search.stand_ins[stack.phrases]
        if self._raised:
            is_last, lm = n_covered == options.n_words, translator.weighted.lm
            log10s = added_log10s(stack.first, is_last, options, lm, hyps)
            change -= self._raised * LN10 * log10s
        hyps.scores[stack.first : hyps.size[0]] += change
        hyps.estimates[stack.first : hyps.size[0]] += change
        close_stack(
            n_covered, stack.first, stack.windows, stack.gaps, translator.limits.stack_size,
            options, hyps, search.groups,
        )  # fmt: skip

    def _neural_values(
        self, stack: _OpenStack, values: Sequence[NDArray[np.float32]]
    ) -> NDArray[np.float64]:
        """The weighted sum of all models' values of the last phrases of a stack's hypotheses."""
        totals = np.zeros(len(stack.phrases))
        for i, asked in enumerate(self._asked):
            closed = stack.search.values[asked].closed
            add_values(
                self._features[asked].weight, values[i], stack.starts[i], closed, stack.phrases,
                totals,
            )  # fmt: skip
        return totals

    def _finish(self, sentence_id: int, search: _Search, nbest: NBestFormat | None) -> Translation:
        sentence = search.sentence
        paths = self._translator.paths(sentence, search.hyps, search.groups, nbest)
        texts = sentence_texts(self._model, sentence, paths)
        if nbest is None:
            return texts[0], []
        values = self._path_values(search, paths)
        totals = paths.features @ self._weights
        for feature in self._features:
            totals = totals + feature.weight * values[feature.name]
        ranking = np.argsort(-totals, kind="stable")
        ranked = take_paths(paths._replace(totals=totals), ranking)
        listed = [texts[i] for i in ranking]
        added = {name: of_paths[ranking] for name, of_paths in values.items()}
        return texts[0], nbest_lines(
            self._model, sentence_id, sentence, listed, ranked, nbest, added
        )

    def _path_values(self, search: _Search, paths: Paths) -> dict[str, NDArray[np.float64]]:
        return {
            feature.name: feature.path_values(values.words, search.linked, search.sentence, paths)
            for feature, values in zip(self._features, search.values, strict=True)
        }


def _raised_translator(translator: Translator, raised: float) -> Translator:
    """A translator whose n-gram model stands in for neural ones, when options are chosen too."""
    model, weights = translator.model, translator.weighted.weights.copy()
    weights[LANGUAGE_MODEL] += raised
    choices = no_choices(model.table.node_starts, model.table_limit)
    weighted = translator.weighted._replace(choices=choices, weights=weights)
    return Translator(model, weighted, translator.limits)


def _nothing() -> None:
    """What there is to wait for where nothing was asked."""
