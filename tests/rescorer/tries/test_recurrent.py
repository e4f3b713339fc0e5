from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from rescorer.layers.units import GatedState, GatedUnit
from rescorer.tries import recurrent
from rescorer.tries.prefix_tree import build_prefix_tree
from rescorer.tries.recurrent import (
    carried_once,
    joined,
    last_states,
    pieces,
    split,
    take,
    unit_states,
)


class TwoFields(NamedTuple):
    """As the state of an LSTM."""

    hidden: Tensor
    cell: Tensor


def numbered(first: int, n: int) -> TwoFields:
    rows = torch.arange(first, first + n)
    return TwoFields(rows[:, None] * torch.ones(1, 3), -rows)


def assert_rows(found: TwoFields, rows: list[int]) -> None:
    assert isinstance(found, TwoFields)
    assert found.hidden.tolist() == [[float(row)] * 3 for row in rows]
    assert found.cell.tolist() == [-row for row in rows]


def test_all_fields_of_a_state_go_together() -> None:
    state = numbered(0, 6)
    assert_rows(take(state, torch.tensor([4, 0, 4])), [4, 0, 4])
    assert_rows(joined([numbered(0, 2), numbered(5, 1), numbered(9, 0)]), [0, 1, 5])
    for part, rows in zip(split(state, [2, 0, 4]), ([0, 1], [], [2, 3, 4, 5]), strict=True):
        assert_rows(part, rows)
    assert joined([state]) is state


def test_parts_that_are_not_the_whole_are_refused() -> None:
    with pytest.raises(RuntimeError):
        split(numbered(0, 6), [2, 3])


def test_states_of_different_kinds_are_not_joined() -> None:
    with pytest.raises(ValueError, match="zip"):
        joined([numbered(0, 2), (torch.zeros(1, 3),)])


def test_no_word_is_no_words_number() -> None:
    assert recurrent.NO_WORD < 0


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9])
def test_pieces_are_small_and_together_the_whole(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(recurrent, "NODES_AT_ONCE", 4)
    numbers, squares = torch.arange(n), torch.arange(n) ** 2
    found = [*pieces(numbers, squares)]
    assert len(found) == max(1, -(-n // 4))
    assert all(len(one) == len(other) <= 4 for one, other in found)
    assert torch.cat([one for one, _ in found]).tolist() == numbers.tolist()
    assert torch.cat([other for _, other in found]).tolist() == squares.tolist()


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        list(pieces(torch.arange(5), torch.arange(2 * recurrent.NODES_AT_ONCE)))


@pytest.mark.parametrize("nodes_at_once", [1, 2, 100])
def test_products_of_a_parent_are_computed_once(
    monkeypatch: pytest.MonkeyPatch, nodes_at_once: int
) -> None:
    monkeypatch.setattr(recurrent, "NODES_AT_ONCE", nodes_at_once)
    asked: list[int] = []

    def carry(state: TwoFields) -> TwoFields:
        asked.extend(state.cell.neg().tolist())
        return TwoFields(10 * state.hidden, 10 * state.cell)

    parents = np.array([0, 0, 2, 2, 2, 5])
    carried, which = carried_once(carry, numbered(0, 6), parents)
    assert asked == [0, 2, 5]
    assert_rows(take(carried, which), [0, 0, 20, 20, 20, 50])


class Digits:
    """A unit whose state spells the words it has read, as digits of a number."""

    def start(self, n_rows: int) -> TwoFields:
        return TwoFields(torch.zeros(n_rows, 3), torch.zeros(n_rows, dtype=torch.long))

    def inputs(self, x: Tensor) -> Tensor:
        return x

    def carry(self, state: TwoFields) -> TwoFields:
        return state

    def step(self, carried: TwoFields, inputs: Tensor) -> TwoFields:
        return TwoFields(10 * carried.hidden + inputs, 10 * carried.cell - inputs[:, 0].long())


@pytest.mark.parametrize("nodes_at_once", [1, 3, 100])
def test_the_last_state_of_each_row_has_read_the_row(
    monkeypatch: pytest.MonkeyPatch, nodes_at_once: int
) -> None:
    monkeypatch.setattr(recurrent, "NODES_AT_ONCE", nodes_at_once)
    rows = [[1, 2, 3], [1], [7, 2], [1, 2, 4], [1, 2, 3], [7, 2, 5, 1], [7]]
    lens = np.array([len(row) for row in rows])
    ids = np.array([row + [9] * (4 - len(row)) for row in rows], np.int32)
    tree = build_prefix_tree(ids, lens)
    inputs = torch.from_numpy(tree.words)[:, None].float().expand(-1, 3)
    found = last_states(Digits(), tree, inputs)
    assert_rows(found, [int("".join(map(str, row))) for row in rows])


def test_a_gated_unit_has_the_same_states_and_gradients_by_autograd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a GPU, where there are no compiled loops."""
    torch.manual_seed(1)
    unit, parents = GatedUnit(4, 5), [np.array([0, 0, 2]), np.array([0, 2, 2, 2])]
    start, inputs = torch.randn(3, 5), torch.randn(7, 15)
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(recurrent, "has_compiled_levels", lambda *_, use=compiled: use)
        given = [tensor.clone().requires_grad_() for tensor in (start, inputs)]
        states = unit_states(unit, GatedState(given[0]), parents, given[1])
        weights = unit.recurrent_gates.weight, unit.recurrent_candidate.weight
        gradients = torch.autograd.grad(states.hidden.square().sum(), [*given, *weights])
        found.append([states.hidden.detach(), *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
