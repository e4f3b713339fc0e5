from __future__ import annotations

from pathlib import Path

import pytest
from numba import njit

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.errors import ConfigError
from moses_bridge.builtin.decoder.decoding_paths import DecodingPath, TableGroup
from moses_bridge.builtin.decoder.loaded_table import TableFile, load_tables
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.table_members import make_members
from moses_bridge.builtin.decoder.weighted_model import (
    LanguageModel,
    lm_word,
    make_weighted_model,
    no_choices,
)
from moses_bridge.formats.moses_ini import Feature


@njit
def number_of(lm: LanguageModel, word: int) -> int:
    return lm_word(lm, word)


def rows(source: str, n_targets: int) -> str:
    return "".join(f"{source} ||| {number} ||| 1\n" for number in range(n_targets))


@pytest.mark.parametrize(
    ("limits", "starts"),
    [
        ((0, 0), [0, 0, 9, 10, 11]),
        ((2, 3), [0, 0, 5, 6, 7]),
        ((9, 1), [0, 0, 6, 7, 8]),
        ((7,), [0, 0, 7, 8, 9]),
    ],
)
def test_there_is_room_for_as_many_rows_as_the_table_limits_allow(
    tmp_path: Path, limits: tuple[int, ...], starts: list[int]
) -> None:
    """The last case is a group of both tables."""
    (tmp_path / "one").write_text(rows("x", 5) + rows("y", 1))
    (tmp_path / "two").write_text(rows("x", 4) + rows("z", 1))
    files = [TableFile(tmp_path / "one", 1), TableFile(tmp_path / "two", 1)]
    table = load_tables(files, Lexicon())
    features = [Feature("PhraseDictionaryMemory", name, {}) for name in ("One", "Two")]
    paths = [DecodingPath(feature, False) for feature in features]
    if len(limits) == 1:
        both = Feature("PhraseDictionaryGroup", "Both", {"num-features": "2"})
        paths = [DecodingPath(both, False, TableGroup(tuple(features)))]
    members = make_members(paths, [0, 0], {"One": 0, "Two": 1}, table.rows.scores)
    choices = no_choices(table, limits, members)
    assert choices.starts.tolist() == starts
    assert (len(choices.rows), choices.done.tolist()) == (starts[-1], [False] * 4)


def test_words_that_the_language_model_lacks_are_unknown_to_it(toy: Model) -> None:
    lm = make_weighted_model(toy, toy.weight_vector(None)).lm
    assert lm.order == 3
    assert number_of(lm, toy.target_ids[b"a"]) == toy.lm.vocabulary[b"a"]
    assert number_of(lm, toy.target_ids[b"c"]) == toy.lm.unk_id
    assert number_of(lm, 10_000) == toy.lm.unk_id


def test_weights_that_do_not_fit_are_refused(toy: Model) -> None:
    with pytest.raises(ConfigError, match="2 weights of LM0, which has 1 scores"):
        toy.weight_vector({"LM0": [0.5, 0.5]})
    with pytest.raises(ConfigError, match="weights of LM1: no such feature"):
        toy.weight_vector({"LM1": [0.5]})
