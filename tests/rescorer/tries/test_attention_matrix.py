from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rescorer.contract.batch import Batch
from rescorer.contract.vocabulary import Vocabulary
from rescorer.scorers.rnnsearch import AttentiveTables, RnnSearch, RnnSearchConfig
from rescorer.tries import generation as module
from rescorer.tries.generation import AttentionReader

Array = NDArray[np.float64]
D = 6
SOURCE, TARGET = (Vocabulary([b"%c%d" % (side, i) for i in range(7)]) for side in b"st")
PAIRS = Batch(
    [b"s1 s2 s3", b"s4", b"s1 s1 s6 zebra s0", b"s2 s3"],
    [b"t1", b"t2 t3 t4 t0", b"t5 unknown", b"t6 t6 t6 t6 t1 t2"],
)


@pytest.fixture(scope="module")
def network() -> RnnSearch:
    torch.manual_seed(3)
    result = RnnSearch(RnnSearchConfig("attention", D, 4, 5, 3), len(SOURCE), len(TARGET), 0.0)
    for parameter in result.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return result.eval()


@pytest.fixture(scope="module")
def reader(network: RnnSearch) -> AttentionReader:
    return AttentionReader(AttentiveTables(network, torch.float32), SOURCE, TARGET)


def sigma(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


class Equations:
    """Bahdanau et al. (2015), appendix A, one symbol a matrix, float64; z takes the new state there."""

    def __init__(self, network: RnnSearch) -> None:
        self.w = {name: value.double().numpy() for name, value in network.state_dict().items()}

    def unit(self, name: str, x: Array, h: Array, extra: Array) -> Array:
        w = self.w
        by_x = w[f"{name}.input.weight"] @ x + w[f"{name}.input.bias"] + extra
        x_r, x_z, x_h = np.split(by_x, 3)
        h_r, h_z = np.split(w[f"{name}.recurrent_gates.weight"] @ h, 2)
        r, z = sigma(x_r + h_r), sigma(-x_z - h_z)
        candidate = np.tanh(x_h + w[f"{name}.recurrent_candidate.weight"] @ (r * h))
        return np.asarray((1 - z) * h + z * candidate)

    def readings(self, name: str, words: list[int]) -> list[Array]:
        h, states = np.zeros(D), []
        for word in words:
            h = self.unit(name, self.w["source_embedding.weight"][word], h, np.zeros(3 * D))
            states.append(h)
        return states

    def weights(self, source: bytes, target: bytes) -> Array:
        w = self.w
        words = [*SOURCE.encode_words(source.split()).tolist(), Vocabulary.end_id]
        right = self.readings("encoder.to_right", words)
        left = self.readings("encoder.to_left", words[::-1])[::-1]
        annotations = np.concatenate([right, left], axis=1)
        s = np.tanh(w["decoder_start_layer.weight"] @ left[0] + w["decoder_start_layer.bias"])
        y, rows = np.zeros(4), []
        for word in [*TARGET.encode_words(target.split()).tolist(), Vocabulary.end_id]:
            keys = annotations @ w["context.key.weight"].T + w["context.key.bias"]
            energies = np.tanh(w["context.query.weight"] @ s + keys) @ w["context.energy"]
            rows.append(np.exp(energies) / np.exp(energies).sum())
            s = self.unit("decoder", y, s, w["context_to_unit.weight"] @ (rows[-1] @ annotations))
            y = w["target_embedding.weight"][word]
        return np.array(rows)


def test_equals_the_equations(network: RnnSearch, reader: AttentionReader) -> None:
    equations = Equations(network)
    found = list(reader.matrices(PAIRS))
    for matrix, source, target in zip(found, PAIRS.sources, PAIRS.targets, strict=True):
        assert matrix.shape == (len(target.split()) + 1, len(source.split()) + 1)
        np.testing.assert_allclose(matrix, equations.weights(source, target), atol=1e-5)
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-6)


def test_neighbours_and_blocks_change_nothing(
    reader: AttentionReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = list(reader.matrices(PAIRS))
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 3)
    for ways in (PAIRS, Batch(PAIRS.sources[::-1], PAIRS.targets[::-1])):
        for matrix, source, target in zip(
            reader.matrices(ways), ways.sources, ways.targets, strict=True
        ):
            expected = together[list(PAIRS.targets).index(target)]
            (alone,) = reader.matrices(Batch([source], [target]))
            np.testing.assert_allclose(matrix, expected, atol=1e-6)
            np.testing.assert_allclose(alone, expected, atol=1e-6)


def test_a_row_sees_neither_its_own_word_nor_the_one_before(reader: AttentionReader) -> None:
    """e_ij = a(s_{i-1}, h_j), and s_{i-1} has read y_{i-2} and what stands before it."""
    first, other = reader.matrices(Batch([b"s1 s2"] * 2, [b"t1 t2 t3 t0 t4", b"t1 t2 t5 t0"]))
    np.testing.assert_allclose(first[:4], other[:4], atol=1e-6)
    assert np.abs(first[4] - other[4]).max() > 1e-4


def test_no_pairs_have_no_matrices(reader: AttentionReader) -> None:
    assert list(reader.matrices(Batch([], []))) == []
