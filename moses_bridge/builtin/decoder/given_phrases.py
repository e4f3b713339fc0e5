"""Translation options of a sentence with translations given in its text ([xml-input] of moses.ini)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.builtin.decoder.feature_slots import PHRASE_PENALTY, PHRASE_TABLE, WORD_PENALTY
from moses_bridge.builtin.decoder.lattice import Paths
from moses_bridge.builtin.decoder.options import (
    OF_OPTIONS,
    OF_WORDS,
    UNKNOWN_ROW,
    Options,
    empty_options,
    fill_lm_scores,
    make_options,
    raise_options,
    take_options,
)
from moses_bridge.builtin.decoder.phrase_choice import unknown_to_model
from moses_bridge.builtin.decoder.weighted_model import WeightedModel
from moses_bridge.formats.marked_text import Given

FIRST_GIVEN_ROW = UNKNOWN_ROW - 1  # translation i of a sentence has the row FIRST_GIVEN_ROW - i
Words = tuple[int, ...]


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
