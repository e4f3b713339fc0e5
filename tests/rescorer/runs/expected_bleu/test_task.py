"""Expected BLEU and its gradient against NumPy float64 and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.runs.expected_bleu.nbest_lists import NBestLists
from rescorer.runs.expected_bleu.task import ExpectedBleuConfig, ExpectedBleuTask, expected_bleu
from rescorer.zoo.cptm.network import Cptm, CptmConfig
from rescorer.zoo.cptm.phrase_values import phrase_values

WEIGHT, SHARPNESS = 0.3, 2.0
# Joint ids of the phrases below: a b c are 2 3 4, x y are 5 6, and "b" is a word of both languages.
PAIRS = Batch([b"a", b"b c", b"c", b"a b"], [b"x", b"y b", b"x x", b""])
IDS = [([2], [5]), ([3, 4], [6, 3]), ([4], [5, 5]), ([2, 3], [])]
LISTS = NBestLists(
    PAIRS,
    uses=np.array([0, 1, 3, 2, 1, 2, 2, 0, 3, 0]),
    n_uses=np.array([2, 1, 2, 3, 2]),
    totals=np.array([-2.0, -1.5, -2.25, -40.0, -39.5]),
    bleu=np.array([0.5, 0.25, 0.75, 0.1, 0.9]),
    starts=np.array([0, 3, 5]),
)
Weights = list[NDArray[np.float64]]


def numpy_values(weights: Weights) -> NDArray[np.float64]:
    """Of the pairs; the equations of Gao et al. (2014)."""
    first, second = weights

    def code(ids: list[int]) -> NDArray[np.float64]:
        return np.tanh(second @ np.tanh(first.T @ np.bincount(np.array(ids, int), minlength=7)))

    return np.array([code(source) @ code(target) for source, target in IDS])


def numpy_expected_bleu(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each list, hypothesis by hypothesis."""
    ends = np.cumsum(LISTS.n_uses)
    uses = [LISTS.uses[end - n : end] for end, n in zip(ends, LISTS.n_uses, strict=True)]
    result = []
    for first, last in zip(LISTS.starts, LISTS.starts[1:], strict=False):
        scores = [LISTS.totals[h] + WEIGHT * values[uses[h]].sum() for h in range(first, last)]
        probs = np.exp(SHARPNESS * (np.array(scores) - max(scores)))
        result.append(probs @ LISTS.bleu[first:last] / probs.sum())
    return np.array(result)


def differences(
    function: Callable[[NDArray[np.float64]], float], at: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The gradient of a function by central differences."""
    gradient, step = np.zeros_like(at), 1e-5
    for place in np.ndindex(at.shape):
        moved = np.zeros_like(at)
        moved[place] = step
        gradient[place] = (function(at + moved) - function(at - moved)) / (2 * step)
    return gradient


def test_expected_bleu_and_its_gradient() -> None:
    values = np.array([0.5, -1.0, 2.0, 0.25])
    tensor = torch.tensor(values, requires_grad=True)
    found = expected_bleu(tensor[LISTS.uses], LISTS, WEIGHT, SHARPNESS)
    np.testing.assert_allclose(found.detach(), numpy_expected_bleu(values), atol=1e-12)
    found.sum().backward()
    expected = differences(lambda at: float(numpy_expected_bleu(at).sum()), values)
    np.testing.assert_allclose(tensor.grad, expected, atol=1e-9)


def test_large_totals_cost_no_digits_of_float32() -> None:
    """What all hypotheses of a list have in common changes nothing; at 1e7 float32 has steps of 1."""
    values = np.array([0.5, -1.0, 2.0, 0.25])
    lists = replace(LISTS, totals=LISTS.totals - 1e7)
    tensor = torch.tensor(values, dtype=torch.float32)
    found = expected_bleu(tensor[LISTS.uses], lists, WEIGHT, SHARPNESS)
    np.testing.assert_allclose(found, numpy_expected_bleu(values), atol=1e-6)


@pytest.fixture
def model() -> TrainedModel[Cptm]:
    torch.manual_seed(2)
    network = Cptm(CptmConfig(hidden_width=4, code_width=3), 7).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    shortlists = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y", b"b"]))
    return TrainedModel("cptm", network, shortlists, {})


def task_of(model: TrainedModel[Cptm], lists: NBestLists, n_held_out: int = 0) -> ExpectedBleuTask:
    config = ExpectedBleuConfig(WEIGHT, SHARPNESS, lists_per_update=2, n_held_out=n_held_out)
    return ExpectedBleuTask(
        phrase_values(model, torch.float32),
        ListsInMemory(lists),
        config,
        seed=1,
    )


@dataclass(frozen=True)
class ListsInMemory:
    """Of which parts have all phrase pairs."""

    lists: NBestLists
    documents: None = None

    def __len__(self) -> int:
        return len(self.lists)

    def part(self, lists: NDArray[np.int64]) -> NBestLists:
        whole = self.lists
        ends = np.append(0, np.cumsum(whole.n_uses))
        spans = [slice(*whole.starts[number : number + 2]) for number in lists]
        return NBestLists(
            whole.pairs,
            np.concatenate([whole.uses[ends[span.start] : ends[span.stop]] for span in spans]),
            *(
                np.concatenate([column[span] for span in spans])
                for column in (whole.n_uses, whole.totals, whole.bleu)
            ),
            np.cumsum([0, *(span.stop - span.start for span in spans)]),
        )


def test_the_loss_and_its_gradient_by_the_network(model: TrainedModel[Cptm]) -> None:
    network = model.network
    parameters = [network.word_vectors.weight, network.projection.weight]
    weights = [parameter.detach().numpy().copy() for parameter in parameters]

    def loss_at(number: int) -> Callable[[NDArray[np.float64]], float]:
        def loss(at: NDArray[np.float64]) -> float:
            moved = [at if place == number else each for place, each in enumerate(weights)]
            return float(-100 * numpy_expected_bleu(numpy_values(moved)).sum())

        return loss

    found, n_lists = task_of(model, LISTS).loss(np.array([0, 1]))
    assert found.item() == pytest.approx(loss_at(0)(weights[0])) and n_lists == 2
    found.backward()
    for number, parameter in enumerate(parameters):
        expected = differences(loss_at(number), weights[number])
        np.testing.assert_allclose(parameter.grad, expected, atol=1e-6)
        assert np.abs(expected).max() > 0.1


def test_a_loss_in_parts_is_the_same(model: TrainedModel[Cptm]) -> None:
    task = task_of(model, LISTS)
    batch = np.array([1, 0])
    with torch.no_grad():
        whole = float(task.loss(batch)[0])
        parts = [float(task.loss(part)[0]) for part in task.parts(batch, 2)]
    assert len(parts) == 2 and sum(parts) == pytest.approx(whole)


def many_lists(n: int) -> NBestLists:
    """The same two lists again and again."""
    uses, sizes = np.tile(LISTS.uses, n), np.tile(np.diff(LISTS.starts), n)
    return replace(
        LISTS,
        uses=uses,
        n_uses=np.tile(LISTS.n_uses, n),
        totals=np.tile(LISTS.totals, n),
        bleu=np.tile(LISTS.bleu, n),
        starts=np.append(0, np.cumsum(sizes)),
    )


def test_held_out_lists_are_not_learned_from(
    model: TrainedModel[Cptm], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(model, many_lists(20), n_held_out=3)
    learned = [set(np.concatenate(task.batches(epoch)).tolist()) for epoch in (0, 1)]
    assert learned[0] == learned[1] and len(learned[0]) == 37
    assert task.n_held_out == 3 and not learned[0] & set(task.held_out_lists.tolist())
    assert [len(batch) for batch in task.batches(0)] == [3] + [2] * 17
    with torch.no_grad():
        expected = float(task.loss(task.held_out_lists)[0]) / 3
        assert task.held_out_loss() == pytest.approx(expected)
        monkeypatch.setattr("rescorer.runs.expected_bleu.task.LISTS_AT_ONCE", 2)
        assert task.held_out_loss() == pytest.approx(expected)


def test_without_held_out_lists_there_is_no_such_loss(model: TrainedModel[Cptm]) -> None:
    assert task_of(model, LISTS).held_out_loss() is None


@pytest.mark.parametrize("name", ["sharpness", "lists_per_update", "n_held_out"])
def test_settings_below_their_limits_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ExpectedBleuConfig(**{name: -1})
