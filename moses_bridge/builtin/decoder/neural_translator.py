"""The search with neural models: sentences of similar length are searched together, stack by stack.

A stack is first filled with stand-ins for the neural values, which future costs and the order of options use
too. There are three kinds of models:

- A model seeing the source and having a number for an open previous word: the stand-ins are its own values of
  each option in isolation.
- A model seeing the source without such a number has no stand-in.
- A model not seeing the source: its weight is added to that of the first n-gram model, also for choosing the
  options of a source phrase.

Before the stack is pruned, the n-grams of all its hypotheses are scored in one call, and the neural values
replace their stand-ins. While one half of the sentences waits for its values, the stacks of the other half
are filled.

docs/decisions/neural-models-in-the-search.md has the approximations of the search. The values in the n-best
list are exact: they are computed from the words and links of its entries, and the entries are sorted by the
resulting totals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.feature_slots import LANGUAGE_MODEL
from moses_bridge.builtin.decoder.lattice import Paths, take_paths
from moses_bridge.builtin.decoder.nbest_lines import (
    NBestFormat,
    SentenceOptions,
    nbest_lines,
    sentence_texts,
)
from moses_bridge.builtin.decoder.neural_feature import (
    NeuralFeature,
    PhraseValues,
    StackWords,
    stack_words,
)
from moses_bridge.builtin.decoder.options import raise_options
from moses_bridge.builtin.decoder.searches import (
    LastPhrases,
    Memory,
    Searches,
    groups_of,
    hypotheses_of,
    join_searches,
    last_phrases,
    next_stacks,
    start_searches,
)
from moses_bridge.builtin.decoder.translator import Translation, Translator
from moses_bridge.builtin.decoder.weighted_model import no_choices
from moses_bridge.builtin.decoder.word_places import WordPlaces, option_places

NO_PLACES = np.zeros(0, np.int32)
N_GROUPS = 2  # groups of sentences: one is searched while the other is scored
SIDE_BY_SIDE = 128  # largest number of sentences searched together


@dataclass(frozen=True)
class _Prepared:
    """A sentence before its search, with the values of its options by each feature."""

    sentence: SentenceOptions
    linked: NDArray[np.int32]  # see `WordPlaces`; length 0 if no model sees the source
    values: list[PhraseValues]
    stand_ins: NDArray[np.float64]  # (n_options,) the weighted sum of the values in isolation


@dataclass
class _Group:
    """Sentences searched together; `words` and `closed` (`PhraseValues`) are of each feature with a weight."""

    n_stacks: int
    searches: Searches
    added: LastPhrases
    words: list[StackWords]
    closed: list[NDArray[np.float64]]
    totals: NDArray[np.float64]  # (n_hypotheses,) weighted values of the open stacks


class NeuralTranslator:
    """Translates batches of sentences with neural models as features of the search of `translator`."""

    def __init__(self, translator: Translator, features: Sequence[NeuralFeature]) -> None:
        self._model = translator.model
        self._weights = translator.weighted.weights
        self._features = features
        self._weighted = [i for i, feature in enumerate(features) if feature.weight]
        self._reads_source = any(feature.scorer.reads_source for feature in features)
        # A float also without such a model: another type would compile the search once more.
        raised = sum((f.weight for f in features if not f.scorer.reads_source), 0.0)
        weight = self._weights[LANGUAGE_MODEL] + raised
        if weight == 0:  # the model would not be in the scores at all, so there is no stand-in
            raised, weight = 0.0, 1.0
        self._stand_in_share = float(raised / weight)
        self._translator = _raised_translator(translator, raised)
        widths = self._model.lm.order, self._model.further.width
        self._memories = [Memory(translator.limits, *widths) for _ in range(N_GROUPS)]

    def translate_batch(
        self, first_id: int, lines: Sequence[bytes], nbest: NBestFormat | None
    ) -> list[Translation]:
        """The best translation and the n-best lines of each line; see `Translator.translate`.

        The first line has the sentence id first_id.

        Raises:
            UserError: a scorer fails, or a value is not finite.
        """
        found = {i: self._translator.sentence(line) for i, line in enumerate(lines)}
        sentences = {i: sentence for i, sentence in found.items() if sentence is not None}
        translations: dict[int, Translation] = {}
        for part in _parts_of_similar_length(sentences):
            texts = [b" ".join(self._translator.words(lines[i])) for i in part]
            ids, chosen = [first_id + i for i in part], [sentences[i] for i in part]
            translated = self._translate(ids, texts, chosen, nbest)
            translations |= zip(part, translated, strict=True)
        return [translations.get(i, (b"", [])) for i in found]

    def _translate(
        self, ids: Sequence[int], texts: Sequence[bytes], sentences: Sequence[SentenceOptions],
        nbest: NBestFormat | None,
    ) -> list[Translation]:  # fmt: skip
        prepared = self._prepare(texts, sentences)
        groups = [
            self._group(part, memory)
            for k, memory in enumerate(self._memories)
            if (part := prepared[k::N_GROUPS])
        ]
        self._fill_all(groups)
        paths = [
            self._paths(each, i // N_GROUPS, groups[i % N_GROUPS], nbest)
            for i, each in enumerate(prepared)
        ]
        if nbest is None:
            of_each = zip(prepared, paths, strict=True)
            return [(sentence_texts(self._model, s.sentence, p)[0], []) for s, p in of_each]
        values = self._path_values(prepared, paths)
        return [
            self._listed(ids[i], each.sentence, paths[i], values[i], nbest)
            for i, each in enumerate(prepared)
        ]

    def _prepare(
        self, texts: Sequence[bytes], sentences: Sequence[SentenceOptions]
    ) -> list[_Prepared]:
        """Prepare sentences for their searches; each feature scores the options of all of them at once."""
        rows, none = self._model.table.rows, WordPlaces(NO_PLACES, NO_PLACES)
        reads = self._reads_source
        places = [option_places(rows, s.options) if reads else none for s in sentences]
        values = [feature.phrase_values(texts, sentences, places) for feature in self._features]
        return [
            self._prepare_one(sentence, places[i].linked, [of_feature[i] for of_feature in values])
            for i, sentence in enumerate(sentences)
        ]

    def _prepare_one(
        self, sentence: SentenceOptions, linked: NDArray[np.int32], values: list[PhraseValues]
    ) -> _Prepared:
        stand_ins = np.zeros(len(sentence.options.rows))
        for feature, value in zip(self._features, values, strict=True):
            stand_ins += feature.weight * value.alone
        if stand_ins.any():
            options, order, word_order = raise_options(sentence.options, stand_ins)
            sentence = replace(sentence, options=options)
            linked, stand_ins = linked[word_order], stand_ins[order]
            values = [value.reordered(order, word_order) for value in values]
        return _Prepared(sentence, linked, values, stand_ins)

    def _group(self, sentences: Sequence[_Prepared], memory: Memory) -> _Group:
        searches = join_searches(
            [each.sentence.options for each in sentences],
            [each.stand_ins for each in sentences],
            memory,
        )
        start_searches(searches, self._translator.weighted.lm)
        values = [[each.values[number] for each in sentences] for number in self._weighted]
        words = [
            stack_words([value.words for value in of_feature], self._features[number], searches)
            for number, of_feature in zip(self._weighted, values, strict=True)
        ]
        closed = [np.concatenate([value.closed for value in of_feature]) for of_feature in values]
        n_stacks = max(each.sentence.options.n_words for each in sentences)
        added, none = last_phrases(searches), np.zeros(0)
        return _Group(n_stacks, searches, added, words, closed, none)

    def _fill_all(self, groups: Sequence[_Group]) -> None:
        """Fill the stacks of all sentences; those of a group are filled while another group awaits values."""
        n_stacks = max((group.n_stacks for group in groups), default=0)
        steps = [(n, group) for n in range(1, n_stacks + 2) for group in groups]
        wait: Callable[[], None] = _nothing
        waiting: _Group | None = None
        for n_covered, group in steps:
            if n_covered > group.n_stacks + 1:  # one more: the last stack is closed
                continue
            if group is waiting:  # all other groups are finished
                wait()
                wait = _nothing
            self._next_stacks(n_covered, group)
            wait()
            wait, waiting = self._ask(n_covered, group), group

    def _next_stacks(self, n_covered: int, group: _Group) -> None:
        searches, work = group.searches, self._translator.work
        next_stacks(n_covered, group.totals, self._stand_in_share, searches, work)
        group.totals = np.zeros(int((searches.hyps.size - searches.firsts).sum()))

    def _ask(self, n_covered: int, group: _Group) -> Callable[[], None]:
        """Begin to score the hypotheses of open stacks; return a function waiting for the values."""
        features = [self._features[number] for number in self._weighted]
        add = [
            feature.ask(n_covered, group.words[i], group.closed[i], group.added)
            for i, feature in enumerate(features)
        ]

        def wait() -> None:
            for add_values in add:
                add_values(group.totals)

        return wait

    def _paths(
        self, prepared: _Prepared, place: int, group: _Group, nbest: NBestFormat | None
    ) -> Paths:
        hyps, groups = hypotheses_of(place, group.searches), groups_of(place, group.searches)
        return self._translator.paths(prepared.sentence, hyps, groups, nbest)

    def _path_values(
        self, prepared: Sequence[_Prepared], paths: Sequence[Paths]
    ) -> list[dict[str, NDArray[np.float64]]]:
        linked, sentences = [each.linked for each in prepared], [each.sentence for each in prepared]
        values: list[dict[str, NDArray[np.float64]]] = [{} for _ in prepared]
        for number, feature in enumerate(self._features):
            words = [each.values[number].words for each in prepared]
            found = feature.path_values(words, linked, sentences, paths)
            for of_sentence, added in zip(values, found, strict=True):
                of_sentence[feature.name] = added
        return values

    def _listed(
        self, sentence_id: int, sentence: SentenceOptions, paths: Paths,
        values: Mapping[str, NDArray[np.float64]], nbest: NBestFormat,
    ) -> Translation:  # fmt: skip
        """The best path, and the n-best lines in the order of their exact totals."""
        texts = sentence_texts(self._model, sentence, paths)
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


def _parts_of_similar_length(sentences: Mapping[int, SentenceOptions]) -> list[list[int]]:
    """Divide sentences into parts to search together, of similar length and almost equal size."""
    ranking = sorted(sentences, key=lambda i: sentences[i].options.n_words)
    n, n_parts = len(ranking), -(-len(ranking) // SIDE_BY_SIDE)
    return [ranking[n * k // n_parts : n * (k + 1) // n_parts] for k in range(n_parts)]


def _raised_translator(translator: Translator, raised: float) -> Translator:
    """Raise the weight of the n-gram model, as a stand-in for neural models."""
    model, weights = translator.model, translator.weighted.weights.copy()
    weights[LANGUAGE_MODEL] += raised
    choices = no_choices(model.table, model.table_limits, model.members)
    weighted = translator.weighted._replace(choices=choices, weights=weights)
    sparse = translator.sparse.weights if translator.sparse else None
    return Translator(model, weighted, translator.limits, sparse)


def _nothing() -> None:
    """Wait for nothing."""
