from __future__ import annotations

import numpy as np
import pytest

from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.neural_scores import (
    FeatureWords,
    option_ngrams,
    option_sums,
    path_ngrams,
)
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model

START, END = 1000, 2000


@pytest.mark.parametrize("order", [1, 2, 4])
def test_ngrams_of_paths_are_the_windows_of_their_words(toy: Model, order: int) -> None:
    lm_scores = np.full(len(toy.table.rows.nodes), np.nan, np.float32)
    weighted = make_weighted_model(toy, lm_scores, toy.weight_vector(None))
    search = Translator(toy, weighted, Limits(50, 50, 3))
    sentence = search.sentence(b"u v w x")
    assert sentence is not None
    search.translate(0, b"u v w x", None)
    nbest = NBestFormat(9, 20, False, False)
    paths = search.paths(sentence, search._hyps, search._groups, nbest)
    ids = sentence.options.words + 10
    ngrams, starts = path_ngrams(
        paths.phrase_starts, paths.options, ids, START, END, order, sentence.options
    )
    expected, ends = [], [0]
    for i in range(len(paths.totals)):
        words = [START] * (order - 1)
        for option in paths.options[paths.phrase_starts[i] : paths.phrase_starts[i + 1]]:
            first, last = sentence.options.word_starts[option : option + 2]
            words += ids[first:last].tolist()
        words.append(END)
        expected += [words[k : k + order] for k in range(len(words) - order + 1)]
        ends.append(len(expected))
    assert len(ends) > 5
    assert ngrams.tolist() == expected
    assert starts.tolist() == ends


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("reads_source", [False, True])
def test_ngrams_of_options_are_the_windows_of_their_words(
    toy: Model, order: int, reads_source: bool
) -> None:
    lm_scores = np.full(len(toy.table.rows.nodes), np.nan, np.float32)
    weighted = make_weighted_model(toy, lm_scores, toy.weight_vector(None))
    sentence = Translator(toy, weighted, Limits(50, 50, 3)).sentence(b"u v w x")
    assert sentence is not None
    options = sentence.options
    ids, places = options.words + 10, np.arange(len(options.words), dtype=np.int32)[::-1].copy()
    words = FeatureWords(ids, places[: len(ids) * reads_source], END, 9, order - 1)
    ngrams = option_ngrams(words, START, order, options)
    values = np.random.default_rng(1).normal(size=len(ids)).astype(np.float32)
    sums = option_sums(values, order - 1, options)
    for option in range(len(options.rows)):
        first, last = options.word_starts[option : option + 2].tolist()
        window = [START] * (order - 1) + ids[first:last].tolist()
        for i in range(last - first):
            place = [places[first + i]] if reads_source else []
            assert ngrams[first + i].tolist() == [*place, *window[i : i + order]]
        assert sums[option] == pytest.approx(values[first + order - 1 : last].sum(), abs=1e-5)
