from __future__ import annotations

import numpy as np
import torch

from rescorer.scorers.rnnsearch.attention import (
    attend,
    attend_plainly,
    attention_weights,
    new_places,
)

FIRSTS, LENS = torch.tensor([0, 4, 5]), torch.tensor([4, 1, 7])
ROWS = torch.tensor([0, 1, 2, 0, 0, 2, 2, 1])


def tensors() -> list[torch.Tensor]:
    torch.manual_seed(1)
    shapes = ((len(ROWS), 5), (5,), (12, 6), (12, 5))
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def test_equals_a_loop_over_states() -> None:
    query, energy, annotations, keys = tensors()
    found = (
        attend(query, energy, new_places(annotations, keys, FIRSTS, LENS), ROWS).detach().numpy()
    )
    q, v, h, u = (tensor.detach().double().numpy() for tensor in (query, energy, annotations, keys))
    for i, row in enumerate(ROWS.tolist()):
        own = slice(int(FIRSTS[row]), int(FIRSTS[row] + LENS[row]))
        energies = np.tanh(q[i] + u[own]) @ v
        weights = np.exp(energies) / np.exp(energies).sum()
        np.testing.assert_allclose(found[i], weights @ h[own], atol=1e-6)


def test_gradients_are_those_of_plain_operations() -> None:
    wanted = torch.randn(len(ROWS), 6, generator=torch.Generator().manual_seed(2))
    gradients = []
    for way in (attend, attend_plainly):
        query, energy, annotations, keys = tensors()
        context = way(query, energy, new_places(annotations, keys, FIRSTS, LENS), ROWS)
        (context * wanted).sum().backward()
        gradients.append([tensor.grad for tensor in (query, energy, annotations, keys)])
    for ours, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, plain, atol=2e-6, rtol=1e-5)


def test_places_that_have_no_gradient_are_seen_plainly() -> None:
    query, energy, annotations, keys = tensors()
    places = new_places(annotations.detach(), keys.detach(), FIRSTS, LENS)
    attend(query, energy, places, ROWS).sum().backward()
    assert query.grad is not None and annotations.grad is None


def test_extreme_energies_are_no_nan() -> None:
    query, energy, annotations, keys = tensors()
    places = new_places(annotations, keys * 1e4, FIRSTS, LENS)
    found = attend(query * 1e4, energy * 1e3, places, ROWS)
    torch.testing.assert_close(found, attend_plainly(query * 1e4, energy * 1e3, places, ROWS))


def test_weights_of_a_source_add_up_to_one() -> None:
    query, energy, annotations, keys = tensors()
    places = new_places(annotations, keys, FIRSTS, LENS)
    weights, which = attention_weights(query, energy, places, ROWS, 7)
    torch.testing.assert_close(weights.sum(1), torch.ones(len(ROWS)))
    assert (weights[ROWS == 1][:, 1:] == 0).all()
    assert (which[ROWS == 2] == torch.arange(5, 12)).all()
