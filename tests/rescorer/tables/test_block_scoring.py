"""The numbers that stand in a table for values, and the same bytes in any process."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.formats.phrase_table import Block
from rescorer.contract.scorer import NamedScorer
from rescorer.models.controls import LengthScorer
from rescorer.tables.block_scoring import BlockScoring, floored_log, known_of_rows, moses_prob


@pytest.mark.parametrize(
    ("log_value", "expected"),
    [
        (0.0, 1.0),
        (-1.0, 1 / math.e),
        (-69.0, math.exp(-69)),
        (-70.0, 1e-30),
        (-1e9, 1e-30),
        (2, math.e**2),
        (88.0, math.exp(88)),
        (88.1, math.exp(88)),
        (1e9, math.exp(88)),
        (-np.inf, 1e-30),
    ],
)
def test_moses_prob(log_value: float, expected: float) -> None:
    assert moses_prob(np.array([log_value]))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("log_value", [-1e9, -70.0, -1.0, 0.0, 88.0, 1e9])
def test_what_moses_reads_is_finite_and_no_denormal_number(log_value: float) -> None:
    """It reads scores into float32: moses/TranslationModel/RuleTable/LoaderStandard.cpp."""
    found = np.float32(moses_prob(np.array([log_value]))[0])
    assert np.finfo(np.float32).tiny < found < np.inf


def test_logarithms_have_a_floor_alone() -> None:
    found = floored_log(np.array([-1e9, -2.5, 100.0]))
    np.testing.assert_allclose(found, [30 * -math.log(10), -2.5, 100.0])


def test_what_says_how_blocks_are_scored_can_be_sent() -> None:
    """A block comes back with its rows as they are written, and with what is counted."""
    predictions: dict[str, dict[str, object]] = {"length": {}}
    scoring = BlockScoring("t", True, ("sum",), "prob", 1, predictions, Path("out"))  # type: ignore[arg-type]
    lines = [b"a ||| x ||| 0.5 0.1", b"a ||| x y ||| 0.5 0.1 ||| 0-0"]
    block = Block(lines, [b"a", b"a"], [b"x", b"x y"], 7)
    sent, scorer = pickle.loads(pickle.dumps((scoring, NamedScorer("length", LengthScorer(), ""))))
    found = sent.scored([scorer], pickle.loads(pickle.dumps(block)))
    assert found.data == b"a ||| x ||| 0.5 0.3678794\na ||| x y ||| 0.5 0.1353353 ||| 0-0\n"
    assert found.counts == {"rows": 2, "floored 0": 0}


def test_a_prediction_goes_by_logarithms_of_the_scores() -> None:
    """Natural ones of probabilities, at least log 1e-30; those of a table of logarithms as they stand."""
    lines = [b"a ||| x ||| 0.5 0.25 1 0", b"a ||| x y ||| 0.125 1 0.5 0.5 9"]
    block = Block(lines, [b"a", b"a"], [b"x", b"x y"], 1)
    probs = known_of_rows(block, ("sum", "residual"), "prob").log_scores
    half = math.log(2)
    expected = [[-half, -2 * half, 0, 30 * -math.log(10)], [-3 * half, 0, -half, -half]]
    np.testing.assert_allclose(probs, expected)
    logs = known_of_rows(block, ("residual",), "log").log_scores
    np.testing.assert_allclose(logs, [[0.5, 0.25, 1, 0], [0.125, 1, 0.5, 0.5]])
    assert known_of_rows(block, ("sum", "length-neutral"), "prob").log_scores.shape == (2, 0)
