from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from moses_bridge.base.errors import ConfigError
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.weighted_model import (
    LanguageModel,
    lm_word,
    make_weighted_model,
    no_choices,
)


@njit
def number_of(lm: LanguageModel, word: int) -> int:
    return lm_word(lm, word)


@pytest.mark.parametrize(
    ("limit", "starts"), [(0, [0, 0, 5, 6, 6]), (2, [0, 0, 2, 3, 3]), (9, [0, 0, 5, 6, 6])]
)
def test_there_is_room_for_as_many_rows_as_the_table_limit_allows(
    limit: int, starts: list[int]
) -> None:
    choices = no_choices(np.array([0, 0, 5, 6, 6]), limit)
    assert choices.starts.tolist() == starts
    assert (len(choices.rows), choices.done.tolist()) == (starts[-1], [False] * 4)


def test_words_that_the_language_model_lacks_are_unknown_to_it(toy: Model) -> None:
    lm_scores = np.full(len(toy.table.rows.nodes), np.nan, np.float32)
    lm = make_weighted_model(toy, lm_scores, toy.weight_vector(None)).lm
    assert lm.order == 3
    assert number_of(lm, toy.target_ids[b"a"]) == toy.lm.vocabulary[b"a"]
    assert number_of(lm, toy.target_ids[b"c"]) == toy.lm.unk_id
    assert number_of(lm, 10_000) == toy.lm.unk_id


def test_weights_that_do_not_fit_are_refused(toy: Model) -> None:
    with pytest.raises(ConfigError, match="2 weights of LM0, which has 1 scores"):
        toy.weight_vector({"LM0": [0.5, 0.5]})
    with pytest.raises(ConfigError, match="weights of LM1: no such feature"):
        toy.weight_vector({"LM1": [0.5]})
