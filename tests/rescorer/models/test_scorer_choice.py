"""Scorers of a command, made of models, of a mean of them, or of a control."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.models.scorer_choice import ScorerChoice
from rescorer.scorers.cslm import Cslm, CslmConfig

ASKED = Batch([b"a", b"b"], [b"x y", b"y"])


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, ...]:
    words = Vocabulary([b"x", b"y"])
    for seed in (1, 2):
        torch.manual_seed(seed)
        network = Cslm(CslmConfig(2, 4, 4, 4), len(words))
        shortlists = Shortlists(None, words)
        save_model(tmp_path / str(seed), "cslm", network, network.config, shortlists, {})
    return tmp_path / "1", tmp_path / "2"


def test_each_model_is_a_scorer_and_their_mean_is_one(models: tuple[Path, ...]) -> None:
    each = ScorerChoice(models, None, None, 1, Compute()).named()
    (mean,) = ScorerChoice(models, "sentence-log-probs", None, 1, Compute()).named()
    values = [named.scorer.values(ASKED) for named in each]
    assert not np.allclose(*values)
    np.testing.assert_allclose(mean.scorer.values(ASKED), np.mean(values, axis=0))
    assert mean.name.startswith("mean of sentence-log-probs of ")


def test_a_control_is_a_scorer() -> None:
    (named,) = ScorerChoice((), None, "length", 1, Compute()).named()
    assert named.scorer.values(ASKED).tolist() == [-2, -1]


def test_models_and_a_control_are_refused(models: tuple[Path, ...]) -> None:
    with pytest.raises(ConfigError, match="either a model"):
        ScorerChoice(models, None, "length", 1, Compute()).named()
