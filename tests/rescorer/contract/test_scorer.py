from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from rescorer.contract.batch import Batch
from rescorer.contract.trained_model import TrainedModel, TrainingRecord
from rescorer.contract.vocabulary import Shortlists, Vocabulary


def test_a_batch_has_as_many_of_each() -> None:
    assert len(Batch([b"a", b"b"], [b"x", b"y"], [b"0-0", b""])) == 2
    assert len(Batch([], [])) == 0


@pytest.mark.parametrize(
    "columns",
    [([b"a"], []), ([], [b"x"]), ([b"a"], [b"x", b"y"]), ([b"a"], [b"x"], [b"0-0", b"1-1"])],
)
def test_a_batch_with_gaps_is_refused(columns: Any) -> None:
    with pytest.raises(ValueError, match=r"\d sources, \d targets"):
        Batch(*columns)


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ({}, False),
        ({"training": {}}, False),
        ({"training": {"config": {}}}, False),
        ({"training": {"config": {"self_normalisation": 0.0}}}, False),
        ({"training": {"config": {"self_normalisation": 0.1}}}, True),
    ],
)
def test_self_normalisation_is_what_the_training_had(
    description: dict[str, Any], expected: bool
) -> None:
    shortlists = Shortlists(None, Vocabulary([]))
    model = TrainedModel("cslm", nn.Identity(), shortlists, description)
    assert model.training.is_self_normalised is expected


@pytest.mark.parametrize("report", [{}, {"log_z_mean": None, "log_z_sd": None}])
def test_log_z_that_was_not_measured_is_none(report: dict[str, Any]) -> None:
    assert TrainingRecord.of({"training": {"report": report}}).log_z is None
    assert TrainingRecord.of({}).log_z is None


def test_log_z_in_words() -> None:
    report = {"log_z_mean": -0.5, "log_z_sd": 0.25}
    found = TrainingRecord.of({"training": {"report": report}}).log_z
    assert str(found) == "log Z held out: mean -0.5000, s.d. 0.2500"
