from __future__ import annotations

import numpy as np
import torch

from rescorer.scorers.rnnsearch.context import Encoder, packing


def test_places_are_read_in_both_directions() -> None:
    forward, backward, sizes = packing(np.array([2, 3, 1]))
    assert forward.tolist() == [2, 0, 5, 3, 1, 4]
    assert backward.tolist() == [4, 1, 5, 3, 0, 2]
    assert sizes == [3, 2, 1]


def test_each_source_is_read_as_if_it_were_alone() -> None:
    torch.manual_seed(1)
    encoder, lens = Encoder(4, 6), np.array([3, 1, 5, 3])
    vectors = torch.randn(12, 4)
    together = encoder(vectors, lens)
    for part, right, left in zip(
        *(torch.split(values, lens.tolist()) for values in (vectors, *together)), strict=True
    ):
        state, states = encoder.to_right.start(1), []
        for vector in part:
            unit = encoder.to_right
            state = unit.step(unit.carry(state), unit.inputs(vector[None]))
            states.append(state.hidden)
        torch.testing.assert_close(right, torch.cat(states))
        backward = Encoder(4, 6)
        backward.to_right = encoder.to_left
        flipped, _ = backward(part.flip(0), np.array([len(part)]))
        torch.testing.assert_close(left, flipped.flip(0))
