"""Parts of batches."""

from __future__ import annotations

import pytest

from rescorer.contract.batch import Batch


@pytest.mark.parametrize("links", [None, [b"0-0", b"", b"1-0"]])
@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_parts_are_the_pairs_in_their_order(size: int, links: list[bytes] | None) -> None:
    batch = Batch([b"a", b"b", b"c d"], [b"x", b"", b"y"], links)
    parts = [*batch.parts(size)]
    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
    assert [source for part in parts for source in part.sources] == batch.sources
    assert [target for part in parts for target in part.targets] == batch.targets
    if links is None:
        assert {part.links for part in parts} == {None}
    else:
        assert [link for part in parts for link in part.links or ()] == links


def test_no_pairs_have_no_parts() -> None:
    assert not [*Batch([], []).parts(3)]
