"""The search with a neural language model: sentences side by side, a stack of all of them at a time.

A stack is filled as always, with the n-gram model in the neural one's place (its weight is raised by
the neural model's, in future costs and table limits too). Before the stack is pruned, the n-grams of
all its hypotheses, in all sentences, are scored in one call, and the neural values take the place
of the n-gram model's. So the n-gram model decides which cells are taken from the cube, and the
neural one which of these hypotheses are kept and extended.

Two things are approximate in the search. Hypotheses are recombined as without the neural model, by the
n-gram model's states; when the n-best list goes back through a hypothesis that was recombined into a
better one, the words that follow have the scores they had behind the better one. And the search goes by
the scorer's quick estimates. The values in the n-best list are exact: they are computed from the words of
its entries, and the entries are sorted by totals made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.feature_slots import LANGUAGE_MODEL, Vector
from moses_bridge.builtin.decoder.hypotheses import (
    Groups,
    Hypotheses,
    close_stack,
    make_groups,
    make_hypotheses,
)
from moses_bridge.builtin.decoder.lattice import Paths, take_paths
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.nbest_lines import (
    NBestFormat,
    Sentence,
    nbest_lines,
    sentence_texts,
)
from moses_bridge.builtin.decoder.neural_scores import exchange_scores, path_ngrams, stack_ngrams
from moses_bridge.builtin.decoder.ngram_memo import NgramMemo
from moses_bridge.builtin.decoder.search import Limits, open_stack, start_search
from moses_bridge.builtin.decoder.translator import Translation, Translator
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model
from moses_bridge.ngram_scorer import NgramScorer


@dataclass(frozen=True)
class _Search:
    """The search of one sentence between two stacks.

    Attributes:
        sentence: to translate.
        ids: the neural model's number of each word of the options.
        hyps, groups: of the search.
        contexts: (room, order - 1) int32, the neural model's last words of each hypothesis.
    """

    sentence: Sentence
    ids: NDArray[np.int32]
    hyps: Hypotheses
    groups: Groups
    contexts: NDArray[np.int32]

    @property
    def n_words(self) -> int:
        return self.sentence.options.n_words


@dataclass(frozen=True)
class _OpenStack:
    """A stack whose hypotheses wait for their values.

    Attributes:
        search: that it belongs to.
        first: its first hypothesis.
        windows, gaps: of its coverages.
        ngrams, starts: of `stack_ngrams`.
    """

    search: _Search
    first: int
    windows: NDArray[np.uint64]
    gaps: NDArray[np.int32]
    ngrams: NDArray[np.int32]
    starts: NDArray[np.int64]


def stand_in_translator(
    model: Model, lm_scores: NDArray[np.float32], weights: Vector, neural_weight: float,
    limits: Limits,
) -> Translator:  # fmt: skip
    """A translator whose n-gram model stands in for a neural one too.

    Args:
        model: tables.
        lm_scores: see `make_weighted_model`.
        weights: of the model's features.
        neural_weight: of the neural model.
        limits: of the search.
    """
    raised = weights.copy()
    raised[LANGUAGE_MODEL] += neural_weight
    return Translator(model, make_weighted_model(model, lm_scores, raised), limits)


class NeuralTranslator:
    """Translates batches of sentences with a neural language model as a feature of the search.

    Args:
        translator: of `stand_in_translator`.
        weights: of the model's features.
        name: of the neural model's feature.
        weight: of it.
        scorer: the neural model.
    """

    def __init__(
        self, translator: Translator, weights: Vector, name: str, weight: float, scorer: NgramScorer
    ) -> None:
        self._translator = translator
        self._model = translator.model
        self._weights = weights
        self._name = name
        self._weight = weight
        self._scorer = scorer
        self._log_probs = NgramMemo(scorer.log_probs, scorer.order)
        self._estimates = NgramMemo(scorer.estimates, scorer.order)
        self._target_ids = scorer.encode(self._model.target_words)

    def translate_batch(
        self, first_id: int, lines: Sequence[bytes], nbest: NBestFormat | None
    ) -> list[Translation]:
        """The best translation and the n-best lines of each line; see `Translator.translate`.

        Raises:
            UserError: the scorer fails.
        """
        searches = self._start([self._translator.sentence(line) for line in lines])
        found = [search for search in searches if search is not None]
        for n_covered in range(1, max((search.n_words for search in found), default=0) + 1):
            self._fill_stacks(n_covered, [s for s in found if s.n_words >= n_covered])
        return [
            (b"", []) if search is None else self._finish(first_id + i, search, nbest)
            for i, search in enumerate(searches)
        ]

    def _start(self, sentences: Sequence[Sentence | None]) -> list[_Search | None]:
        """Searches with their first stacks; the batch's new words are encoded in one call."""
        new = {name: 0 for s in sentences if s is not None for name in s.names.values()}
        ids = dict(zip(new, self._scorer.encode(list(new)).tolist(), strict=True))
        return [s if s is None else self._start_one(s, ids) for s in sentences]

    def _start_one(self, sentence: Sentence, ids_of_new: dict[bytes, int]) -> _Search:
        options, limits = sentence.options, self._translator.limits
        new = [ids_of_new[name] for name in sentence.names.values()]
        known = len(self._target_ids)
        ids = np.empty(len(options.words), np.int32)
        is_known = options.words < known
        ids[is_known] = self._target_ids[options.words[is_known]]
        ids[~is_known] = np.array(new, np.int32)[options.words[~is_known] - known]
        hyps = make_hypotheses(options.n_words, limits.pop_limit, self._model.lm.order)
        groups = make_groups(options.n_words, limits.stack_size, limits.pop_limit)
        contexts = np.empty((len(hyps.previous), self._scorer.order - 1), np.int32)
        contexts[0] = self._scorer.start_id
        start_search(options, self._translator.weighted.lm, hyps, groups)
        return _Search(sentence, ids, hyps, groups, contexts)

    def _fill_stacks(self, n_covered: int, searches: Sequence[_Search]) -> None:
        stacks = [self._open(n_covered, search) for search in searches]
        values = self._estimates(np.concatenate([stack.ngrams for stack in stacks]))
        ends = np.cumsum([len(stack.ngrams) for stack in stacks])
        for stack, log_probs in zip(stacks, np.split(values, ends[:-1]), strict=True):
            self._close(n_covered, stack, log_probs)

    def _open(self, n_covered: int, search: _Search) -> _OpenStack:
        options, hyps = search.sentence.options, search.hyps
        translator, edges = self._translator, self._translator.work.edges
        first, n_coverages = open_stack(
            n_covered, options, translator.weighted.lm, translator.weighted.weights,
            translator.limits, hyps, search.groups, translator.work,
        )  # fmt: skip
        ngrams, starts = stack_ngrams(
            first, search.ids, self._scorer.end_id, n_covered == options.n_words, options, hyps,
            search.contexts,
        )  # fmt: skip
        windows, gaps = edges.windows[:n_coverages].copy(), edges.gaps[:n_coverages].copy()
        return _OpenStack(search, first, windows, gaps, ngrams, starts)

    def _close(self, n_covered: int, stack: _OpenStack, log_probs: NDArray[np.float32]) -> None:
        search, translator = stack.search, self._translator
        options = search.sentence.options
        exchange_scores(
            stack.first, log_probs, stack.starts, self._weight, n_covered == options.n_words,
            options, translator.weighted.lm, search.hyps,
        )  # fmt: skip
        close_stack(
            n_covered, stack.first, stack.windows, stack.gaps, translator.limits.stack_size,
            options, search.hyps, search.groups,
        )  # fmt: skip

    def _finish(self, sentence_id: int, search: _Search, nbest: NBestFormat | None) -> Translation:
        sentence = search.sentence
        paths = self._translator.paths(sentence, search.hyps, search.groups, nbest)
        texts = sentence_texts(self._model, sentence, paths)
        if nbest is None:
            return texts[0], []
        values = self._path_values(search, paths)
        totals = paths.features @ self._weights + self._weight * values
        ranking = np.argsort(-totals, kind="stable")
        ranked = take_paths(paths._replace(totals=totals), ranking)
        listed = [texts[i] for i in ranking]
        added = {self._name: values[ranking]}
        return texts[0], nbest_lines(
            self._model, sentence_id, sentence, listed, ranked, nbest, added
        )

    def _path_values(self, search: _Search, paths: Paths) -> NDArray[np.float64]:
        scorer = self._scorer
        ngrams, starts = path_ngrams(
            paths.phrase_starts, paths.options, search.ids, scorer.start_id, scorer.end_id,
            scorer.order, search.sentence.options,
        )  # fmt: skip
        log_probs = self._log_probs(ngrams).astype(np.float64)
        return np.add.reduceat(log_probs, starts[:-1])
