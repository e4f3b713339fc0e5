from __future__ import annotations

import pytest

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.training.loop import LoopConfig
from rescorer.zoo.cstm.network import CstmConfig
from rescorer.zoo.cstm.task import CstmTrainingConfig, new_network


def test_pairs_that_have_no_place_are_not_asked_for() -> None:
    with pytest.raises(
        ConfigError, match="max_phrase_words is 7, but the network has places for 5"
    ):
        from_mapping(CstmTrainingConfig, {"model": {"phrase_words": 5}}, "the test")
    shorter = CstmTrainingConfig(max_phrase_words=5, model=CstmConfig(phrase_words=5))
    assert shorter.model.phrase_words == 5


def test_denominators_are_not_drawn_to_one() -> None:
    with pytest.raises(ConfigError, match="unknown key 'self_normalisation'"):
        from_mapping(CstmTrainingConfig, {"self_normalisation": 0.1}, "the test")


def test_the_recipe_of_the_paper_has_its_initial_weights() -> None:
    shortlists = Shortlists(Vocabulary([b"a"] * 200), Vocabulary([b"x"] * 200))
    paper = CstmTrainingConfig(loop=LoopConfig(recipe="paper"))
    largest = [
        new_network(config, shortlists).embedding.weight.abs().max().item()
        for config in (paper, CstmTrainingConfig())
    ]
    assert largest[0] <= 0.1 < largest[1]
