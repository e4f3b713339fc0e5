from __future__ import annotations

import pytest

from rescorer.views.alignment_error import AlignmentError


def test_by_hand() -> None:
    """|A| = 4, |S| = 3, two in both: AER = 1 - 2 * 2 / 7."""
    error = AlignmentError.of([(0, 0), (1, 1), (2, 1), (3, 3)], [(0, 0), (1, 1), (2, 2)])
    assert error.rate == pytest.approx(3 / 7)
    assert (error.precision, error.recall) == (pytest.approx(1 / 2), pytest.approx(2 / 3))
    assert str(error) == ("AER 42.9%, precision 50.0%, recall 66.7% (4 links, 3 given, 2 in both)")


def test_counts_of_pairs_add_up() -> None:
    """The rate of all links, not the mean of the pairs' rates."""
    total = AlignmentError.of([(0, 0)], [(0, 0)]) + AlignmentError.of([(0, 1)], [(1, 0), (1, 1)])
    assert total == AlignmentError(2, 3, 1)
    assert total.rate == pytest.approx(3 / 5)


def test_a_link_counts_once() -> None:
    assert AlignmentError.of([(0, 0)] * 3, [(0, 0)] * 2) == AlignmentError(1, 1, 1)


def test_without_links_nothing_is_wrong() -> None:
    assert (AlignmentError().rate, AlignmentError().precision) == (0, 1)
    missed = AlignmentError.of([], [(0, 0)])
    assert (missed.rate, missed.precision, missed.recall) == (1, 1, 0)
