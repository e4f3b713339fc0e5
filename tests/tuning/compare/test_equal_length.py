"""The weight that gives a length: on straight and on bent lines, whose answers are known by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest

from tuning.compare.scan import Decoding, at_length, next_weights


def decoding(against: float, length: float, matches: float = 5.0) -> Decoding:
    """One sentence of 10 reference words."""
    words = 10 * length
    return Decoding(against, np.array([[matches, words, 4, words - 1, 3, 6, 2, 5, 10.0]]))


def tried_for(
    length_of: Callable[[float], float], slope: float, n: int, tolerance: float = 1e-6
) -> list[Decoding]:
    """The decodings that a search from 0 for length 1 makes."""
    tried = [decoding(0.0, length_of(0.0))]
    for against in islice(next_weights(tried, 1.0, slope, tolerance), n):
        tried.append(decoding(against, length_of(against)))
    return tried


def test_on_a_straight_line_one_step_is_enough() -> None:
    tried = tried_for(lambda against: 0.9 - 2 * against, -2.0, 5)
    assert [each.against for each in tried] == [0.0, -0.05]


def test_a_bent_line_is_followed_by_its_secants() -> None:
    tried = tried_for(lambda against: math.exp(-0.5 - against), -1.0, 6)
    assert tried[-1].against == pytest.approx(-0.5, abs=1e-5)
    assert 3 < len(tried) <= 6


def test_a_slope_by_chance_is_not_followed() -> None:
    lengths = {0.0: 0.9, -0.1: 0.9001, -0.1999: 0.98}
    tried = tried_for(lambda against: lengths[against], -1.0, 2)
    assert [each.against for each in tried] == [0.0, -0.1, -0.1999]


@pytest.mark.parametrize("share", [0.2, 0.25, 0.5, 3.5, 4.0, 4.5])
def test_secants_by_hand(share: float) -> None:
    """The second slope is a share of the first, -0.25; from a quarter to four times it is followed."""
    second = 0.5 + 0.5 * share
    tried = tried_for(lambda against: second if against else 0.5, -0.25, 2)
    slope = -0.25 * (share if 0.25 <= share <= 4.0 else 1.0)
    assert tried[1].against == -2.0
    assert tried[2].against == pytest.approx(-2.0 + (1.0 - second) / slope, abs=1e-6)


def test_it_ends_at_the_length_and_without_a_slope() -> None:
    assert len(tried_for(lambda against: 1.0005, -1.0, 5, tolerance=0.001)) == 1
    assert len(tried_for(lambda against: 0.75, -1.0, 5, tolerance=0.25)) == 1
    assert len(tried_for(lambda against: 0.9, 0.0, 5)) == 1
    second_is_near = {0.0: 0.9, -0.1: 0.995}
    assert len(tried_for(second_is_near.__getitem__, -1.0, 5, tolerance=0.01)) == 2


def test_values_have_six_digits() -> None:
    assert tried_for(lambda against: 0.9, -3.0, 1)[1].against == -0.033333


def test_between_two_decodings_counts_change_in_proportion() -> None:
    tried = [decoding(0.0, 0.8, 4.0), decoding(-0.4, 1.2, 9.0), decoding(-0.2, 0.9, 6.0)]
    tried.append(decoding(-0.7, 1.5, 3.0))
    found = at_length(tried, 1.0)
    # a third of the way from 0.9 to 1.2
    assert found.length == pytest.approx(1.0)
    assert found.against == pytest.approx(-0.2 - 0.2 / 3)
    assert found.statistics[0, 0] == pytest.approx(7.0)


def test_what_lies_on_one_side_is_not_extended() -> None:
    tried = [decoding(0.0, 0.8), decoding(-0.1, 0.9)]
    assert at_length(tried, 1.0) is tried[1]


def test_an_output_of_the_length_stays_as_it_is() -> None:
    tried = [decoding(0.0, 0.9), decoding(-0.1, 1.0), decoding(-0.2, 1.1)]
    assert at_length(tried, 1.0) is tried[1]
    assert at_length(tried[1:2], 1.0) is tried[1]
