"""Derivations of given translations: the best one (forced decoding), or the segmentation in an n-best list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.decoder.feature_slots import DISTORTION
from moses_bridge.builtin.decoder.jumps import DISCONTINUOUS, early_cost, orientation, words_between
from moses_bridge.builtin.decoder.lattice import Paths, score_path, words_of_options
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.nbest_lines import (
    NBestFormat,
    SentenceOptions,
    nbest_lines,
    sentence_texts,
)
from moses_bridge.builtin.decoder.options import FutureCosts, Options, combined, no_costs
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translation, Translator, add_given_scores
from moses_bridge.builtin.decoder.weighted_model import WeightedModel
from moses_bridge.formats.nbest import (
    NBestEntry,
    parse_segmentation,
    read_nbest,
    without_escaped_bars,
)
from moses_bridge.formats.words import split_words

STACK_SIZE = 1000  # far more than the usual search keeps: a given target has few derivations
Phrase = tuple[int, int, tuple[int, ...]]  # source words start..end-1, numbers of target words


class _Step(NamedTuple):
    """A partial derivation: the previous one, extended by an option."""

    score: float  # weighted, without the language model's, which depends on the target alone
    option: int  # -1 for none
    previous: _Step | None


class _State(NamedTuple):
    """The state of a partial derivation, which determines the possible continuations."""

    covered: int  # a bit for each source word
    place: int  # number of target words produced
    start: int  # the last source phrase is start..end-1
    end: int
    scores: tuple[float, ...]  # weighted scores of its three orientations towards the next one


class ForcedTranslator(Translator):
    """Finds the best derivation of a given translation of each sentence.

    It searches all derivations within the distortion limit, the only one used of `limits`, keeping the best
    STACK_SIZE of those with equally many covered words. With table limit 0 all rows are options. `targets` are
    the translations of the lines.
    """

    def __init__(
        self, model: Model, weighted: WeightedModel, limits: Limits, targets: Sequence[bytes],
        sparse_weights: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model, weighted, limits, sparse_weights)
        self._targets = targets

    def translate(self, sentence_id: int, line: bytes, nbest: NBestFormat | None) -> Translation:
        """The target and its n-best line; both empty if it cannot be produced."""
        sentence = self.sentence(line)
        if sentence is None:
            return b"", []
        target = target_numbers(self.model, sentence, split_words(self._targets[sentence_id]))
        derivation = None if target is None else self._search(sentence.options, target)
        if derivation is None:
            return b"", []
        paths = paths_of([derivation], sentence, self.weighted)
        texts = sentence_texts(self.model, sentence, paths)
        if nbest is None:
            return texts[0], []
        return texts[0], nbest_lines(self.model, sentence_id, sentence, texts, paths, nbest)

    def _search(self, options: Options, target: tuple[int, ...]) -> list[int] | None:
        """The options of the best derivation in target order, None if there is none."""
        usable = _usable(options, target)
        costs = _future_costs(options, {option for found in usable for option in found})
        stacks: list[dict[_State, _Step]] = [{} for _ in range(options.n_words + 1)]
        stacks[0][_State(0, 0, -1, 0, (0.0, 0.0, 0.0))] = _Step(0.0, -1, None)
        for stack in stacks[:-1]:
            for state, step in _best(stack, costs):
                for option in usable[state.place]:
                    self._extend(state, step, option, options, stacks)
        finished = [step for state, step in stacks[-1].items() if state.place == len(target)]
        return _options_of(max(finished, key=lambda step: step.score)) if finished else None

    def _extend(
        self, state: _State, step: _Step, option: int, options: Options,
        stacks: list[dict[_State, _Step]],
    ) -> None:  # fmt: skip
        """Add the derivation with one more option if its span is free and within the distortion limit."""
        start, end = int(options.starts[option]), int(options.ends[option])
        span = (1 << end) - (1 << start)
        limit = self.limits.distortion_limit
        gap = (~state.covered & (state.covered + 1)).bit_length() - 1
        too_far = abs(start - state.end) > limit or (start > gap and end - gap > limit)
        if state.covered & span or too_far:
            return
        kind = orientation(state.start, state.end, start, end)
        score = step.score + float(
            options.stateless_scores[option] + options.reordering[option, kind]
        )
        score += state.scores[kind]
        if kind == DISCONTINUOUS:
            first, last = words_between(state.start, state.end, start, end)
            score += float(options.between[last] - options.between[first])
        early = self.weighted.early_distortion
        jump = early_cost(state.end, gap, start, end) if early else abs(start - state.end)
        score -= float(self.weighted.weights[DISTORTION]) * jump
        length = int(options.word_starts[option + 1] - options.word_starts[option])
        following = _State(
            state.covered | span,
            state.place + length,
            start,
            end,
            tuple(options.reordering[option, 3:].tolist()),
        )
        stack = stacks[following.covered.bit_count()]
        if following not in stack or stack[following].score < score:
            stack[following] = _Step(score, option, step)


def target_numbers(
    model: Model, sentence: SentenceOptions, words: Sequence[bytes]
) -> tuple[int, ...] | None:
    """The words as numbers of the sentence's options; None if one occurs in no option."""
    new = {name: number for number, name in sentence.names.items()}
    numbers = [model.target_ids.get(word, new.get(word, -1)) for word in words]
    return None if -1 in numbers else tuple(numbers)


def option_words(options: Options, option: int) -> tuple[int, ...]:
    """The target words of an option."""
    first, last = options.word_starts[option : option + 2]
    return tuple(options.words[first:last].tolist())


def paths_of(
    derivations: Sequence[list[int]], sentence: SentenceOptions, weighted: WeightedModel
) -> Paths:
    """Convert derivations, each a list of options in target order, to paths with features and totals."""
    options = sentence.options
    paths = [np.array(derivation, np.int32) for derivation in derivations]
    features = np.array([_features(path, options, weighted) for path in paths])
    starts = np.cumsum([0, *map(len, paths)], dtype=np.int64)
    found = Paths(starts, np.concatenate(paths), features @ weighted.weights, features)
    if sentence.sparse:
        return sentence.sparse.with_sums(found, options)
    if not sentence.given:
        return found
    return add_given_scores(found, options, sentence.given, weighted.weights)


def _features(
    path: NDArray[np.int32], options: Options, weighted: WeightedModel
) -> NDArray[np.float64]:
    words = words_of_options(path, options)
    rows, starts, ends = options.rows[path], options.starts[path], options.ends[path]
    return np.asarray(score_path(rows, starts, ends, words, weighted))


def _usable(options: Options, target: tuple[int, ...]) -> list[list[int]]:
    """The options matching at each place of the target (its end included) after which the rest can follow."""
    by_words = defaultdict(list)
    for option in range(len(options.rows)):
        by_words[option_words(options, option)].append(option)
    longest = max(map(len, by_words))
    usable: list[list[int]] = [[] for _ in range(len(target) + 1)]
    usable[len(target)] = by_words.get((), [])
    ends = {len(target)}
    for place in range(len(target) - 1, -1, -1):
        for end in ends.intersection(range(place + 1, place + longest + 1)):
            usable[place] += by_words.get(target[place:end], [])
        if usable[place]:
            ends.add(place)
            usable[place] += by_words.get((), [])
    return usable


def _future_costs(options: Options, usable: set[int]) -> FutureCosts:
    """The best score of each span and of the end of the sentence, from usable options only."""
    costs = no_costs(options.n_words)
    for option in usable:
        start, end = int(options.starts[option]), int(options.ends[option])
        best = max(costs.spans[start, end - start], options.stateless_scores[option])
        costs.spans[start, end - start] = best
    future_costs: FutureCosts = combined(costs)
    return future_costs


def _best(stack: dict[_State, _Step], costs: FutureCosts) -> list[tuple[_State, _Step]]:
    future_costs: dict[int, float] = {}
    ranked = []
    for state, step in stack.items():
        if state.covered not in future_costs:
            future_costs[state.covered] = _future_cost(state.covered, costs)
        estimate = step.score + future_costs[state.covered]
        if estimate > -np.inf:
            ranked.append((estimate, state, step))
    ranked.sort(key=lambda entry: -entry[0])
    return [(state, step) for _, state, step in ranked[:STACK_SIZE]]


def _future_cost(covered: int, costs: FutureCosts) -> float:
    total, start = 0.0, 0
    for position in range(covered.bit_length()):
        if covered >> position & 1:
            total += float(costs.spans[start, position - start])
            start = position + 1
    return total + float(costs.tails[start])


def _options_of(step: _Step) -> list[int]:
    derivation = []
    while step.previous is not None:
        derivation.append(step.option)
        step = step.previous
    return derivation[::-1]


def rescored_lines(
    translator: Translator, sources: Sequence[bytes], nbest: StrPath
) -> Iterator[bytes]:
    """Yield the lines of an n-best list with the feature values and totals of a model, in order.

    Args:
        translator: translator of the model, with table limit 0, so that all rows are options.
        sources: the sentences, id 0 first.
        nbest: a list with segmentation; of the optional fields only the word links are kept.

    Raises:
        InputError: an entry has no sentence or no valid segmentation, or a phrase pair is not in the table.
    """
    for sentence_id, group in groupby(read_nbest(nbest), key=lambda entry: entry.sentence_id):
        entries = list(group)
        if sentence_id >= len(sources):
            line_number = entries[0].line_number
            expected = f"an id below {len(sources)}, the number of sentences"
            raise InputError(nbest, line_number, f"the sentence id {sentence_id}", expected)
        sentence = translator.sentence(sources[sentence_id])
        yield from _sentence_lines(translator, sentence, entries, nbest)


def _sentence_lines(
    translator: Translator,
    sentence: SentenceOptions | None,
    entries: list[NBestEntry],
    nbest: StrPath,
) -> list[bytes]:
    if sentence is None:
        raise InputError(nbest, entries[0].line_number, "an empty sentence", "words in the source")
    options = sentence.options
    numbers: dict[Phrase, int] = {}
    for i in range(len(options.rows)):
        span = int(options.starts[i]), int(options.ends[i])
        numbers.setdefault((*span, option_words(options, i)), i)
    derivations = [_derivation(translator, sentence, numbers, entry, nbest) for entry in entries]
    paths = paths_of(derivations, sentence, translator.weighted)
    texts = [without_escaped_bars(entry.words) for entry in entries]
    form = NBestFormat(len(entries), 1, True, all(len(entry.rest) > 1 for entry in entries))
    sentence_id = entries[0].sentence_id
    return nbest_lines(translator.model, sentence_id, sentence, texts, paths, form)


def _derivation(
    translator: Translator, sentence: SentenceOptions, numbers: dict[Phrase, int], entry: NBestEntry,
    nbest: StrPath,
) -> list[int]:  # fmt: skip
    words = split_words(without_escaped_bars(entry.words))
    target = target_numbers(translator.model, sentence, words)
    derivation = []
    for start, end, place, following in parse_segmentation(entry, len(words), nbest):
        phrase = (start, end, target[place:following]) if target is not None else None
        if phrase is None or phrase not in numbers:
            target_phrase = shown(b" ".join(words[place:following]))
            found = f"{target_phrase} for the source words {start} to {end - 1}"
            raise InputError(nbest, entry.line_number, found, "a phrase pair of the table")
        derivation.append(numbers[phrase])
    return derivation
