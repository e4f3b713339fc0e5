"""The numbers that stand in a table for values, and the same bytes in any process."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.formats.phrase_table import Block
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.scorer import NamedScorer
from rescorer.models.scorer_choice import LengthScorer
from rescorer.tables.block_scoring import ScoredBlock, floored_log, moses_prob, score_block
from rescorer.tables.column import ColumnConfig
from rescorer.tables.record import RunRecord


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
    run = RunRecord("t", {}, "out", (("length", ""),), ColumnConfig(n_replaced=1), 1, True)
    lines = [b"a ||| x ||| 0.5 0.1", b"a ||| x y ||| 0.5 0.1 ||| 0-0"]
    block = Block(lines, [b"a", b"a"], [b"x", b"x y"], 7)
    sent, scorer = pickle.loads(pickle.dumps((run, NamedScorer("length", LengthScorer(), ""))))
    found = score_block(sent, [scorer], pickle.loads(pickle.dumps(block)))
    assert found.data == b"a ||| x ||| 0.5 0.3678794\na ||| x y ||| 0.5 0.1353353 ||| 0-0\n"
    assert found.counts == {"rows": 2, "floored 0": 0}


class Given(LengthScorer):
    """Has numbers of its own, and cannot score a target of two words."""

    def values(self, batch: Batch) -> NDArray[np.float32]:
        for row, target in enumerate(batch.targets):
            if target.count(b" ") == 1:
                raise UnscorablePair(row, batch, "target", "2 words", "1", "Leave it out")
        return np.array([float(target) for target in batch.targets], np.float32)


def scored(config: ColumnConfig, *targets: bytes) -> ScoredBlock:
    run = RunRecord("t", {}, "out", (("given", ""),), config, 1, True)
    lines = [b"a ||| %b ||| 0.5" % target for target in targets]
    block = Block(lines, [b"a"] * len(lines), list(targets), 7)
    return score_block(run, [NamedScorer("given", Given(), "")], block)


def test_values_outside_of_what_is_written_are_counted() -> None:
    found = scored(ColumnConfig(), b"-70", b"-69", b"88", b"89", b"0")
    assert found.counts == {"rows": 5, "floored 0": 2}
    written = [line.split()[-1] for line in found.data.splitlines()]
    assert written == [b"1e-30", b"1.080639e-30", b"1.651636e+38", b"1.651636e+38", b"1"]
    found = scored(ColumnConfig(column_format="log"), b"-70", b"-69", b"89")
    assert found.counts == {"rows": 3, "floored 0": 1}


def test_a_row_without_a_score_is_named_with_its_line_where_no_rows_are_left_out() -> None:
    for allowed, place in ((0, "t:8: "), (1, "t: ")):
        (error,) = scored(ColumnConfig(max_bad_rows=allowed), b"1", b"1 2").bad
        found = "found 2 words on the target side of 'a ||| 1 2', expected 1"
        assert str(error).startswith(place + found)
    first, second = scored(ColumnConfig(), b"1", b"nan", b"inf").bad
    assert str(first).startswith("t:8: found the score nan of 'a ||| nan', expected a finite score")
    assert str(second).startswith("t:9: found the score inf of 'a ||| inf'")
