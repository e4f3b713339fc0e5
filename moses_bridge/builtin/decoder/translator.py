"""Translation of one sentence, from its bytes to its translations; some may be given ([xml-input])."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.decoder.feature_slots import PHRASE_PENALTY, PHRASE_TABLE, WORD_PENALTY
from moses_bridge.builtin.decoder.hypotheses import Groups, Hypotheses
from moses_bridge.builtin.decoder.ini_settings import IniValues
from moses_bridge.builtin.decoder.lattice import Paths, best_paths
from moses_bridge.builtin.decoder.model import MAX_WINDOW, Model
from moses_bridge.builtin.decoder.nbest_lines import (
    NBestFormat,
    SentenceOptions,
    nbest_lines,
    sentence_texts,
)
from moses_bridge.builtin.decoder.options import (
    DROPPED,
    OF_OPTIONS,
    OF_WORDS,
    UNKNOWN_ROW,
    Options,
    choose_for_sentence,
    empty_options,
    fill_lm_scores,
    make_options,
    raise_options,
    take_options,
)
from moses_bridge.builtin.decoder.search import Limits, make_workspace, search
from moses_bridge.builtin.decoder.searches import Memory
from moses_bridge.builtin.decoder.sparse_values import SentenceValues, SparseValues
from moses_bridge.builtin.decoder.weighted_model import WeightedModel, unknown_to_model
from moses_bridge.formats.marked_text import Given, MarkedText, Place, first_factors, parse_marked
from moses_bridge.formats.words import split_words

UNNAMED = Place("the source text", None)
DIGIT = re.compile(rb"[0-9]")
Translation = tuple[bytes, list[bytes]]  # the best one, and the lines of the n-best list
FIRST_GIVEN_ROW = UNKNOWN_ROW - 1  # translation i of a sentence has the row FIRST_GIVEN_ROW - i
Words = tuple[int, ...]


def source_text(line: bytes, model: Model, place: Place = UNNAMED) -> MarkedText:
    """Read the words of a line.

    Raises:
        InputError: a tag is malformed, a given translation has too many source words, or a word has another
            number of factors than the ini.
    """
    values, text = model.values, MarkedText(tuple(split_words(line)))
    if is_plain(values):
        return text
    if values.xml_input != "pass-through" and b"<" in line:
        text = parse_marked(line, place)
    if values.n_input_factors > 1:
        words = first_factors(text.words, values.n_input_factors, values.factor_delimiter, place)
        text = MarkedText(words, text.given)
    if values.xml_input == "ignore":
        return MarkedText(text.words)
    for each in text.given:
        if each.end - each.start > model.max_phrase_words:
            found = f"a translation of {each.end - each.start} source words"
            expected = f"at most {model.max_phrase_words}, the max-phrase-length"
            raise InputError(place.path, place.line, found, expected)
    return text


def check_source(lines: Sequence[bytes], model: Model, path: StrPath) -> None:
    """Read all lines before the first is translated; see `source_text`. `path` is named in errors."""
    if not is_plain(model.values):
        for number, line in enumerate(lines, start=1):
            source_text(line, model, Place(path, number))


def is_plain(values: IniValues) -> bool:
    """Whether lines consist of words alone, without tags or factors."""
    return values.xml_input == "pass-through" and values.n_input_factors == 1


class Translator:
    """Translates one sentence after the other under fixed weights, sparse ones of the ini by default."""

    def __init__(
        self, model: Model, weighted: WeightedModel, limits: Limits,
        sparse_weights: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.weighted = weighted
        self.limits = limits
        self.sparse = None
        if model.sparse is not None:
            weights = model.sparse.weights if sparse_weights is None else sparse_weights
            self.sparse = SparseValues(model.sparse, weights, weighted)
        lm, max_words = weighted.lm, model.max_phrase_words
        self.work = make_workspace(lm, weighted.weights, limits, max_words)
        self.memory = Memory(limits, lm.order, lm.further.width)

    def choose(self, line: bytes) -> None:
        """Choose the options of all phrases of a line; see `choose_for_sentence`."""
        words = self.words(line)
        source, max_words = self._source(words), self.model.max_phrase_words
        if self.sparse:
            self.sparse.prepare(source, words, max_words)
        choose_for_sentence(source, max_words, self.weighted)

    def translate(self, sentence_id: int, line: bytes, nbest: NBestFormat | None) -> Translation:
        """The best translation of sentence number sentence_id, and its n-best lines (none without words)."""
        sentence = self.sentence(line)
        if sentence is None:
            return b"", []
        hyps, groups = self.memory.hypotheses(sentence.options.n_words)
        search(sentence.options, hyps, groups, self.work)
        paths = self.paths(sentence, hyps, groups, nbest)
        texts = sentence_texts(self.model, sentence, paths)
        if nbest is None:
            return texts[0], []
        listed = nbest_lines(self.model, sentence_id, sentence, texts, paths, nbest)
        return texts[0], listed

    def translate_batch(
        self, first_id: int, lines: Sequence[bytes], nbest: NBestFormat | None
    ) -> list[Translation]:
        """Translate consecutive lines, the first with the id `first_id`; see `translate`."""
        return [self.translate(first_id + i, line, nbest) for i, line in enumerate(lines)]

    def sentence(self, line: bytes) -> SentenceOptions | None:
        """A line with its options; None if it has no words."""
        text = source_text(line, self.model)
        if not text.words:
            return None
        ids, names = self._target_ids(text)
        copies = np.array([self._copy(word, ids) for word in text.words], np.int32)
        if not self.sparse:
            return SentenceOptions(self._options(text, copies, ids), names, text.given)
        sparse = SentenceValues(self.sparse, text.words, names)
        options = self._options(text, copies, ids)
        options = raise_options(options, sparse.added(options))[0]
        sparse.add_reordering(options)
        return SentenceOptions(options, names, sparse=sparse)

    def words(self, line: bytes) -> tuple[bytes, ...]:
        """The source words of a line."""
        return source_text(line, self.model).words

    def paths(
        self, sentence: SentenceOptions, hyps: Hypotheses, groups: Groups, nbest: NBestFormat | None
    ) -> Paths:
        """The paths of a finished search: those of the n-best list, or only the best without `nbest`."""
        n_words = sentence.options.n_words
        first_group, end_group = groups.stack_starts[n_words : n_words + 2]
        finals = groups.members[groups.starts[first_group] : groups.starts[end_group]]
        size, n_pops = (1, 1) if nbest is None else (nbest.size, nbest.n_pops)
        paths: Paths = best_paths(finals, size, n_pops, hyps, sentence.options, self.weighted)
        if sentence.sparse:
            return sentence.sparse.with_sums(paths, sentence.options)
        if not sentence.given:
            return paths
        return add_given_scores(paths, sentence.options, sentence.given, self.weighted.weights)

    def _source(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        return np.array([self.model.source_ids.get(word, -1) for word in words], np.int32)

    def _options(
        self, text: MarkedText, copies: NDArray[np.int32], ids: Mapping[bytes, int]
    ) -> Options:
        source, max_words = self._source(text.words), self.model.max_phrase_words
        if self.sparse:
            self.sparse.prepare(source, text.words, max_words)
        if not text.given:
            options: Options = make_options(source, copies, max_words, self.weighted)
            return options
        words = [tuple(ids[word] for word in each.words) for each in text.given]
        return options_with_given(
            source, copies, max_words, self.weighted, text.given, words,
            self.model.values.xml_input,
        )  # fmt: skip

    def _target_ids(self, text: MarkedText) -> tuple[dict[bytes, int], dict[int, bytes]]:
        """The number of each word as a target word, and the names of unknown ones, numbered last."""
        known, n_known = self.model.target_ids, len(self.model.target_words)
        ids: dict[bytes, int] = {}
        names: dict[int, bytes] = {}
        for word in chain(text.words, *(each.words for each in text.given)):
            if word not in ids:
                ids[word] = known.get(word, n_known + len(names))
                if word not in known:
                    names[ids[word]] = word
        return ids, names

    def _copy(self, word: bytes, ids: Mapping[bytes, int]) -> int:
        """The target word for an unknown word; words with a digit are never dropped."""
        is_dropped = self.model.values.drop_unknown and not DIGIT.search(word)
        return DROPPED if is_dropped else ids[word]


def effective_distortion_limit(limit: int) -> int:
    """The distortion limit used by the search: at most MAX_WINDOW, even without a limit (negative)."""
    return min(limit, MAX_WINDOW) if limit >= 0 else MAX_WINDOW


def options_with_given(
    source: NDArray[np.int32], copies: NDArray[np.int32], max_words: int, weighted: WeightedModel,
    given: Sequence[Given], given_words: Sequence[Words], xml_input: str,
) -> Options:  # fmt: skip
    """Make the options of a sentence: those of the table allowed by [xml-input], and the given ones.

    As in Moses, a given translation has the logarithm of its probability as scores of the table, in equal
    parts. It has no reordering scores; Moses takes them from its table if it has the pair. It has at most
    max_words source words; given_words are its target words. The other arguments are those of `make_options`.

    The options of the table to keep are for xml_input "inclusive" all, "exclusive" those of words without a
    given translation, "constraint" those containing the given one.
    """
    known = make_options(source, copies, max_words, weighted)
    unknown = make_options(np.full(len(source), -1, np.int32), copies, max_words, weighted)
    added = _given_options(
        np.array([(each.start, each.end) for each in given], np.int32),
        np.cumsum([0, *map(len, given_words)], dtype=np.int32),
        np.array([word for words in given_words for word in words], np.int32),
        np.array([each.log_prob for each in given]), len(source), max_words, weighted,
    )  # fmt: skip
    from_table = np.flatnonzero(known.rows >= 0).tolist()
    kept = [i for i in from_table if _is_kept(known, i, given, given_words, xml_input)]
    parts = [(known, kept), (added, list(range(len(given))))]
    single = {
        int(part.starts[i]) for part, chosen in parts for i in chosen if part.ends[i] - part.starts[i] == 1
    }  # fmt: skip
    parts.append((unknown, [i for i in range(len(source)) if int(unknown.starts[i]) not in single]))
    joined = _joined(parts, len(source), max_words)
    return raise_options(joined, np.zeros(len(joined.rows)))[0]


def add_given_scores(
    paths: Paths, options: Options, given: Sequence[Given], weights: NDArray[np.float64]
) -> Paths:
    """Add the table's scores of given translations to the features of paths, which leave them out."""
    features = paths.features.copy()
    n_scores = features.shape[1] - PHRASE_TABLE
    for i in range(len(features)):
        first, end = paths.phrase_starts[i : i + 2]
        for row in options.rows[paths.options[first:end]].tolist():
            if row <= FIRST_GIVEN_ROW:
                features[i, PHRASE_TABLE:] += given[FIRST_GIVEN_ROW - row].log_prob / n_scores
    return paths._replace(features=features, totals=features @ weights)


def _is_kept(
    options: Options, option: int, given: Sequence[Given], given_words: Sequence[Words], xml_input: str
) -> bool:  # fmt: skip
    """Whether an option of the table is kept next to the given translations."""
    start, end = int(options.starts[option]), int(options.ends[option])
    overlapping = [i for i, each in enumerate(given) if each.start < end and start < each.end]
    if xml_input == "inclusive" or not overlapping:
        return True
    if xml_input == "exclusive":
        return False
    first = given[overlapping[0]]  # Moses ignores any later one
    if not start <= first.start <= first.end <= end:
        return False
    words = options.words[options.word_starts[option] : options.word_starts[option + 1]].tolist()
    sought = list(given_words[overlapping[0]])
    return any(words[i : i + len(sought)] == sought for i in range(len(words)))


@compiled
def _given_options(
    spans: Any, word_starts: Any, words: Any, log_probs: Any, n_words: int, max_words: int,
    model: WeightedModel,
) -> Options:  # fmt: skip
    """Make options of the given translations, without `span_starts`."""
    weights, span_starts = model.weights, np.zeros(0, np.int32)
    options: Options = empty_options(n_words, max_words, span_starts, len(spans), len(words))
    context = np.zeros(max(1, model.lm.order - 1), np.int32)
    for i in range(len(words)):
        options.words[i] = words[i]
    for option in range(len(spans)):
        options.rows[option] = FIRST_GIVEN_ROW - option
        options.starts[option], options.ends[option] = spans[option, 0], spans[option, 1]
        options.word_starts[option + 1] = word_starts[option + 1]
        length = word_starts[option + 1] - word_starts[option]
        options.stateless_scores[option] = (
            weights[PHRASE_TABLE:].mean() * log_probs[option]
            - weights[WORD_PENALTY] * length
            + weights[PHRASE_PENALTY]
            + unknown_to_model(words, word_starts[option], word_starts[option + 1], model)
        )
        fill_lm_scores(option, model, options, context)
    return options


def _joined(parts: Sequence[tuple[Options, list[int]]], n_words: int, max_words: int) -> Options:
    """Join chosen options of several sets, ordered by span; their future costs are not filled."""
    taken = [take_options(part, np.array(chosen, np.int64))[0] for part, chosen in parts]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in taken])
        for name in (*OF_OPTIONS, *OF_WORDS)
    }
    lengths = np.concatenate([np.diff(part.word_starts) for part in taken])
    spans = (arrays["starts"] * max_words + arrays["ends"] - arrays["starts"] - 1).astype(np.int64)
    counts = np.bincount(spans, minlength=n_words * max_words)
    joined = taken[0]._replace(
        span_starts=np.cumsum([0, *counts], dtype=np.int32),
        word_starts=np.cumsum([0, *lengths], dtype=np.int32),
        **arrays,
    )
    return take_options(joined, np.argsort(spans, kind="stable"))[0]
