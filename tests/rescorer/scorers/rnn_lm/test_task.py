from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.data import Data
from rescorer.scorers.rnn_lm.network import RnnLmConfig
from rescorer.scorers.rnn_lm.task import RnnLmTrainingConfig, prepare

SIZES = RnnLmConfig("lstm", 8, 4, 4)


def write(path: Path, n: int = 30) -> Data:
    path.write_bytes(b"".join(b"a b w%d\n\n" % i for i in range(n)))
    return Data(path)


def test_the_text_is_read_and_the_network_made_for_its_words(tmp_path: Path) -> None:
    config = RnnLmTrainingConfig(model=SIZES, shortlist=20, n_held_out=2, self_normalisation=0.1)
    prepared = prepare(write(tmp_path / "text"), config, 1)
    assert prepared.shortlists.source is None and len(prepared.shortlists.target) == 22
    assert prepared.network.output.out_features == 22  # type: ignore[union-attr]
    bias = prepared.network.output.bias  # type: ignore[union-attr]
    assert bias.tolist() == pytest.approx([-math.log(22)] * 22)  # type: ignore[operator]
    assert prepared.task.n_held_out == 2
    assert prepare(write(tmp_path / "other", 29), config, 1).digest != prepared.digest


def test_the_same_text_and_seed_are_the_same_training(tmp_path: Path) -> None:
    data, found = write(tmp_path / "text"), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        prepared = prepare(data, RnnLmTrainingConfig(model=SIZES, batch_words=10), seed)
        batches = [batch.rows.tolist() for batch in prepared.task.batches(0)]
        found.append((batches, prepared.network.output.weight.tolist()))  # type: ignore[operator, union-attr]
    assert found[0] == found[1] and found[0][0] != found[2][0] and found[0][1] != found[2][1]


def test_an_empty_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\n \n")
    with pytest.raises(InputError, match="no sentence, expected target text"):
        prepare(Data(tmp_path / "text"), RnnLmTrainingConfig(), 1)


def test_sentences_that_are_all_too_long_are_refused(tmp_path: Path) -> None:
    config = RnnLmTrainingConfig(max_sentence_words=2)
    with pytest.raises(InputError, match="expected sentences of at most 2 words"):
        prepare(write(tmp_path / "text"), config, 1)
