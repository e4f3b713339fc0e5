from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec import (
    ARCHITECTURE,
    EncDecConfig,
    EncDecTrainingConfig,
    EncoderDecoder,
    empty_network,
    new_network,
)
from rescorer.training.loop_config import LoopConfig

SIZES = EncDecConfig(40, 20, 20)
WORDS = Vocabulary([b"w%d" % number for number in range(300)])
SHORTLISTS = Shortlists(Vocabulary([b"a"]), WORDS)


@pytest.mark.parametrize(("recipe", "deviation"), [("adam", 0.1), ("paper", 0.01)])
def test_each_recipe_has_its_initial_weights(recipe: str, deviation: float) -> None:
    config = EncDecTrainingConfig(model=SIZES, loop=LoopConfig(recipe=recipe))  # type: ignore[arg-type]
    network = new_network(config, SHORTLISTS)
    assert network.output.weight.std().item() == pytest.approx(deviation, rel=0.1)
    assert not network.output.bias.any()


def test_a_self_normalised_network_begins_with_even_denominators() -> None:
    config = EncDecTrainingConfig(model=SIZES, self_normalisation=0.1)
    bias = new_network(config, SHORTLISTS).output.bias
    assert bias.tolist() == pytest.approx([-math.log(302)] * 302)


def test_the_network_has_a_place_for_each_word() -> None:
    network = empty_network(EncDecTrainingConfig(model=SIZES), SHORTLISTS)
    assert network.source_embedding.weight.shape == (3, 20)
    assert network.output.weight.shape == network.target_embedding.weight.shape == (302, 20)


def test_the_same_data_and_seed_are_the_same_training(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(b"s%d ||| t u ||| 1 1 1 1\n" % n for n in range(30)))
    config = EncDecTrainingConfig(model=SIZES, n_held_out=2, batch_pairs=7)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        prepared = ARCHITECTURE.prepare(Data(table), config, seed)
        assert isinstance(prepared.network, EncoderDecoder)
        batches = [batch.rows.tolist() for batch in prepared.task.batches(0)]
        found.append((batches, prepared.network.output.weight.tolist()))
    assert found[0] == found[1] and found[0][0] != found[2][0] and found[0][1] != found[2][1]


def test_a_malformed_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 1\na ||| b\n")
    with pytest.raises(InputError, match="table:2: found 2 columns"):
        ARCHITECTURE.prepare(Data(tmp_path / "table"), EncDecTrainingConfig(), 1)
