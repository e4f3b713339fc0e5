from __future__ import annotations

import numpy as np
import pytest

from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.neural_feature import (
    FeatureWords,
    StackWords,
    add_values,
    option_ngrams,
    option_sums,
    path_ngrams,
    stack_ngrams,
    stack_starts,
)
from moses_bridge.builtin.decoder.ngram_memo import free_table
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.searches import (
    Memory,
    hypotheses_of,
    join_searches,
    last_phrases,
    next_stacks,
    start_searches,
)
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model

START, END = 1000, 2000


@pytest.mark.parametrize("order", [1, 2, 4])
def test_ngrams_of_paths_are_the_windows_of_their_words(toy: Model, order: int) -> None:
    weighted = make_weighted_model(toy, toy.weight_vector(None))
    search = Translator(toy, weighted, Limits(50, 50, 3))
    sentence = search.sentence(b"u v w x")
    assert sentence is not None
    search.translate(0, b"u v w x", None)
    nbest = NBestFormat(9, 20, False, False)
    hyps, groups = search.memory.hypotheses(sentence.options.n_words)
    paths = search.paths(sentence, hyps, groups, nbest)
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
    weighted = make_weighted_model(toy, toy.weight_vector(None))
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


@pytest.mark.parametrize("n_dependent", [1, 9])
@pytest.mark.parametrize("reads_source", [False, True])
def test_ngrams_and_values_of_stacks_are_those_of_the_word_sequences(
    toy: Model, n_dependent: int, reads_source: bool
) -> None:
    weighted = make_weighted_model(toy, toy.weight_vector(None))
    search = Translator(toy, weighted, Limits(9, 9, 3))
    found = [search.sentence(line) for line in (b"u v w x", b"v u")]
    options = [sentence.options for sentence in found if sentence is not None]
    stand_ins = [np.zeros(len(each.rows)) for each in options]
    searches = join_searches(options, stand_ins, Memory(search.limits, toy.lm.order, 0))
    ids = [each.words + 10 * (i + 1) for i, each in enumerate(options)]
    places = [np.arange(len(each), dtype=np.int32) + 500 * i for i, each in enumerate(ids)]
    joined_places = np.concatenate(places)[: None if reads_source else 0]
    contexts = np.full((len(searches.hyps.previous), 2), START, np.int32)
    words = StackWords(
        np.concatenate(ids), joined_places, END, np.array([7, 8], np.int32), n_dependent, contexts
    )
    closed = np.random.default_rng(1).normal(size=len(searches.stand_ins))
    start_searches(searches, weighted.lm)
    added, totals, known = (
        last_phrases(searches),
        np.zeros(0),
        np.zeros((0, 3 + reads_source), np.int32),
    )
    table = free_table(1 << 11)
    for n_covered in range(1, 5):
        next_stacks(n_covered, totals, 0.0, searches, search.work)
        starts = stack_starts(n_covered, n_dependent, added)
        in_memo, new = stack_ngrams(n_covered, starts, words, added, table, len(known))
        known = np.concatenate([known, new])
        assert len({tuple(row) for row in known.tolist()}) == len(known)
        ngrams = known[in_memo]
        of_known = np.random.default_rng(n_covered).normal(size=len(known)).astype(np.float32)
        values, totals = of_known[in_memo], np.ones(len(starts) - 1)
        add_values(0.5, of_known, in_memo, starts, closed, added, totals)
        k = 0
        for i, each in enumerate(options):
            hyps = hypotheses_of(i, searches)
            for hyp in range(searches.firsts[i], hyps.size[0]):
                chain, before = [int(hyps.options[hyp])], int(hyps.previous[hyp])
                while before > 0:
                    chain, before = [int(hyps.options[before]), *chain], int(hyps.previous[before])
                window = [START, START]
                for option in chain:
                    first, end = each.word_starts[option : option + 2].tolist()
                    new = [([places[i][w]], w - first < n_dependent) for w in range(first, end)]
                    at = len(window)
                    window += ids[i][first:end].tolist()
                if n_covered == each.n_words:
                    new.append(([(7, 8)[i]], True))
                    window.append(END)
                expected = [
                    [*(place if reads_source else []), *window[at + j - 2 : at + j + 1]]
                    for j, (place, is_asked) in enumerate(new)
                    if is_asked
                ]
                assert ngrams[starts[k] : starts[k + 1]].tolist() == expected
                total = closed[searches.parts.options[i] + chain[-1]]
                total += values[starts[k] : starts[k + 1]].sum(dtype=np.float64)
                assert totals[k] == pytest.approx(1 + 0.5 * total, abs=1e-6)
                k += 1
        assert k == len(totals)
