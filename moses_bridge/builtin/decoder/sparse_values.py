"""The sparse features in the search: weighted sums of phrase pairs, and the values in n-best lists.

The search knows one number of a row, the weighted sum of the sparse values that count in choosing the
translations of a source phrase; it is one more score, with the weight 1. Later values are added to options;
values depending on the orientation of phrases are added to the weighted reordering scores.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.jumps import DISCONTINUOUS
from moses_bridge.builtin.decoder.lattice import Paths
from moses_bridge.builtin.decoder.options import UNKNOWN_ROW, Options, spans_to_choose
from moses_bridge.builtin.decoder.sparse_features import (
    BEFORE,
    BETWEEN,
    N_ORIENTATIONS,
    NEXT,
    PhrasePair,
    PlacedPair,
    ReorderingSums,
    SparseFeature,
    SparseReordering,
)
from moses_bridge.builtin.decoder.sparse_model import SparseModel, value_name
from moses_bridge.builtin.decoder.weighted_model import WeightedModel

Values = Mapping[str, float]
Key = tuple[int, int]  # row and first source word of an option
NO_OPTION = -1
NO_KEY = -1, -1
LINKS_OF_UNKNOWN = ((0, 0),)  # TranslationOptionCollection::ProcessOneUnknownWord


class SparseValues:
    """The sparse features with weights, 0 if missing; the last score of the rows in `weighted` is made here."""

    def __init__(self, model: SparseModel, weights: Values, weighted: WeightedModel) -> None:
        self.model, self.weights = model, weights
        self.weighted = weighted
        self._sums = weighted.rows.scores[:, -1]
        weighed = [name for name, weight in weights.items() if weight]
        self.features = [
            each
            for each in model.features
            if any(name.startswith(f"{each.name}_") for name in weighed)
        ]
        self._choosing = [each for each in self.features if each.chooses]
        self._added = [each for each in self.features if not each.chooses]
        self._added_sums = np.full(len(self._sums), math.nan if self._added else 0.0)
        self.reordering = ReorderingSums(model.reordering, weights) if model.reordering else None

    def prepare(self, source: NDArray[np.int32], words: Sequence[bytes], max_words: int) -> None:
        """Compute the sums of all rows of source phrases whose translations are not yet chosen.

        `source` and `words` are the source words as numbers (see `make_options`) and as text.
        """
        table = self.model.table
        for node, start, length in spans_to_choose(source, max_words, self.weighted).tolist():
            phrase = words[start : start + length]
            for row in table.node_rows[table.node_starts[node] : table.node_starts[node + 1]]:
                values = self.model.of_table(row)
                if self._choosing:
                    values |= counts(self._choosing, self.model.pair(row, phrase))
                self._sums[row] = self.sum(values)

    def sum(self, values: Values) -> float:
        """The weighted sum of values."""
        return sum(self.weights.get(name, 0.0) * value for name, value in values.items())

    def added(self, row: int, source: Sequence[bytes]) -> float:
        """The part of the values of a row, a translation of `source`, not in its sum."""
        if math.isnan(self._added_sums[row]):
            self._added_sums[row] = self.sum(counts(self._added, self.model.pair(row, source)))
        return float(self._added_sums[row])


class SentenceValues:
    """The sparse values of the options of a sentence; `names` are its words unknown to the model, by number."""

    def __init__(
        self, of_model: SparseValues, words: Sequence[bytes], names: Mapping[int, bytes]
    ) -> None:
        self._of_model, self._words, self._names = of_model, words, names
        self._known: dict[Key, dict[str, float]] = {}
        self._known_steps: dict[tuple[Key, Key], dict[str, float]] = {}

    def added(self, options: Options) -> NDArray[np.float64]:
        """The part of each option's values not in the sum of its row, *Shape:* (n_options,)."""
        return np.array([self._added(option, options) for option in range(len(options.rows))])

    def add_reordering(self, options: Options) -> None:
        """Add the sums of sparse reordering features to the scores of options, in place."""
        sums = self._of_model.reordering
        if sums is None:
            return
        distinct, numbers = np.unique(options.words, return_inverse=True)
        source, words = self._words, [self._target_word(word) for word in distinct.tolist()]
        has_words = np.diff(options.word_starts) > 0
        firsts = numbers[options.word_starts[:-1][has_words]]
        lasts = numbers[options.word_starts[1:][has_words] - 1]
        for what, place in ((NEXT, 0), (BEFORE, N_ORIENTATIONS)):
            scores = options.reordering[:, place : place + N_ORIENTATIONS]
            scores += sums.of_words(what, b"src", b"first", source)[options.starts]
            scores += sums.of_words(what, b"src", b"last", source)[options.ends - 1]
            scores[has_words] += sums.of_words(what, b"tgt", b"first", words)[firsts]
            scores[has_words] += sums.of_words(what, b"tgt", b"last", words)[lasts]
        of_gaps = sums.of_words(BETWEEN, b"src", b"first", source)[:, DISCONTINUOUS]
        options.between[1:] = np.cumsum(of_gaps)

    def with_sums(self, paths: Paths, options: Options) -> Paths:
        """Add all sums to the features and totals of paths."""
        features = paths.features.copy()
        sums = {
            option: self._of_model.sum(self._values(option, options))
            for option in np.unique(paths.options).tolist()
        }
        of_phrases = np.array([sums[option] for option in paths.options.tolist()], np.float64)
        of_paths = np.add.reduceat(of_phrases, paths.phrase_starts[:-1])
        of_paths += [
            sum(map(self._of_model.sum, steps)) for steps in self._steps_of_paths(paths, options)
        ]
        features[:, self._of_model.model.place] = of_paths
        return paths._replace(features=features, totals=features @ self._of_model.weighted.weights)

    def _of_paths(self, paths: Paths, options: Options) -> list[dict[str, float]]:
        ends = paths.phrase_starts.tolist()
        of_phrases = [self._values(option, options) for option in paths.options.tolist()]
        of_steps = self._steps_of_paths(paths, options)
        found = []
        for (first, end), steps in zip(pairwise(ends), of_steps, strict=True):
            values: dict[str, float] = defaultdict(float)
            for of_part in (*of_phrases[first:end], *steps):
                for name, value in of_part.items():
                    values[name] += value
            found.append(values)
        return found

    def _steps_of_paths(self, paths: Paths, options: Options) -> Iterator[list[dict[str, float]]]:
        """The values of each step of each path in the reordering table; none without such features."""
        features = self._of_model.model.reordering
        for first, end in pairwise(paths.phrase_starts.tolist()):
            steps = pairwise((NO_OPTION, *paths.options[first:end].tolist()))
            yield [self._of_step(features, *step, options) for step in steps] if features else []

    def _of_step(
        self, features: SparseReordering, before: int, option: int, options: Options
    ) -> dict[str, float]:
        """The values of an option after another one, or after NO_OPTION."""
        keys = self._key(before, options), self._key(option, options)
        if keys not in self._known_steps:
            last = None if before == NO_OPTION else self._placed(before, options)
            ends = features.of_step(self._words, last, self._placed(option, options))
            self._known_steps[keys] = _counted((features.name, end) for end in ends)
        return self._known_steps[keys]

    def _placed(self, option: int, options: Options) -> PlacedPair:
        span = int(options.starts[option]), int(options.ends[option])
        return PlacedPair(*span, self._pair(option, options))

    def _key(self, option: int, options: Options) -> Key:
        """A key of an option that stays the same when the options are sorted again."""
        if option == NO_OPTION:
            return NO_KEY
        return int(options.rows[option]), int(options.starts[option])

    def fields(self, paths: Paths, options: Options) -> list[bytes]:
        """The values of each path by name, as n-best lists have them after all others."""
        begins = self._of_model.model.listed
        return [
            "".join(f" {name}= {values[name]:g}" for name in sorted(values) if name.startswith(begins))
            .encode("utf-8", "surrogateescape")
            for values in self._of_paths(paths, options)
        ]  # fmt: skip

    def _added(self, option: int, options: Options) -> float:
        row = int(options.rows[option])
        if row == UNKNOWN_ROW:
            pair = self._pair(option, options)
            return self._of_model.sum(counts(self._of_model.features, pair))
        return self._of_model.added(row, self._source(option, options))

    def _values(self, option: int, options: Options) -> dict[str, float]:
        row = int(options.rows[option])
        key = self._key(option, options)
        if key not in self._known:
            model = self._of_model.model
            values = {} if row == UNKNOWN_ROW else model.of_table(row)
            self._known[key] = values | counts(model.features, self._pair(option, options))
        return self._known[key]

    def _pair(self, option: int, options: Options) -> PhrasePair:
        row, source = int(options.rows[option]), self._source(option, options)
        if row != UNKNOWN_ROW:
            return self._of_model.model.pair(row, source)
        first, end = options.word_starts[option : option + 2]
        words = [self._target_word(word) for word in options.words[first:end].tolist()]
        return PhrasePair(source, words, LINKS_OF_UNKNOWN if words else ())

    def _target_word(self, word: int) -> bytes:
        known = self._of_model.model.target_words
        return known[word] if word < len(known) else self._names[word]

    def _source(self, option: int, options: Options) -> Sequence[bytes]:
        return self._words[options.starts[option] : options.ends[option]]


def counts(features: Sequence[SparseFeature], pair: PhrasePair) -> dict[str, float]:
    """Count the occurrences of each name in a phrase pair."""
    return _counted((feature.name, end) for feature in features for end in feature.of_pair(pair))


def _counted(names: Iterable[tuple[str, bytes]]) -> dict[str, float]:
    """Count names, given in two parts: the feature's name and the end."""
    found: dict[str, float] = defaultdict(float)
    for owner, end in names:
        found[value_name(owner, end)] += 1.0
    return found
