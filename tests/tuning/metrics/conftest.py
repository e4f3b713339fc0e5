"""Counts are tested as compiled code makes them, and as they are made of a few hypotheses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tuning.metrics import metric


@pytest.fixture(scope="module", autouse=True, params=[-1, metric.FEW], ids=["compiled", "plain"])
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of how many hypotheses counts are made without compiled code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metric, "FEW", request.param)
        yield
