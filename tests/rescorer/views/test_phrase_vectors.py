from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rescorer.views import phrase_vectors
from rescorer.views.phrase_vectors import encoded_blocks, keep_vectors, kept_vectors

PHRASES = [b"a", b"a b", "été ".encode() + b"\xe9", b"c d e"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrase_vectors, "PHRASES_AT_ONCE", 3)


def lengths(phrases: Sequence[bytes]) -> NDArray[np.float32]:
    """Stands in for a network: bytes and blanks of each phrase."""
    return np.array([(len(phrase), phrase.count(b" ")) for phrase in phrases], np.float32)


def test_blocks_are_of_length_one_and_in_order() -> None:
    blocks = list(encoded_blocks(PHRASES, lengths))
    assert [len(block) for block in blocks] == [3, 1]
    for vector, phrase in zip(np.concatenate(blocks), PHRASES, strict=True):
        size = np.hypot(len(phrase), phrase.count(b" "))
        np.testing.assert_allclose(vector * size, (len(phrase), phrase.count(b" ")), rtol=1e-6)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    identity = {"model": "m", "table": {"path": "t"}}
    keep_vectors(tmp_path / "k", identity, PHRASES, lengths)
    kept = kept_vectors(tmp_path / "k", identity)
    assert kept is not None and kept.phrases == PHRASES
    expected = np.concatenate(list(encoded_blocks(PHRASES, lengths)))
    np.testing.assert_array_equal(np.concatenate(list(kept.blocks())), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "k" / "vectors.npy"), expected)


@pytest.mark.parametrize("identity", [{"model": "n"}, {"model": "m", "side": "target"}, {}])
def test_what_belongs_to_something_else_is_not_taken(
    tmp_path: Path, identity: dict[str, str]
) -> None:
    keep_vectors(tmp_path, {"model": "m"}, PHRASES, lengths)
    assert kept_vectors(tmp_path, identity) is None


def test_an_interrupted_folder_is_none(tmp_path: Path) -> None:
    """The description is removed first and written last."""
    keep_vectors(tmp_path, {"model": "m"}, PHRASES, lengths)

    def interrupted(phrases: Sequence[bytes]) -> NDArray[np.float32]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep_vectors(tmp_path, {"model": "m"}, PHRASES, interrupted)
    assert kept_vectors(tmp_path, {"model": "m"}) is None
    assert kept_vectors(tmp_path / "nowhere", {"model": "m"}) is None
