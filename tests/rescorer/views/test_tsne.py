from __future__ import annotations

import numpy as np
import pytest

from rescorer.views.purity import incidence, nearest_purity
from rescorer.views.tsne import layout


def lumps() -> tuple[np.ndarray, list[list[bytes]]]:
    """Four directions in ten dimensions, 12 noisy vectors of any length around each."""
    rng = np.random.default_rng(2)
    centres = np.repeat(rng.normal(size=(4, 10)), 12, axis=0)
    vectors = (centres + 0.1 * rng.normal(size=centres.shape)) * rng.uniform(1, 5, (48, 1))
    return vectors.astype(np.float32), [[b"%d" % (row // 12)] for row in range(48)]


def test_lumps_stay_together() -> None:
    vectors, labels = lumps()
    made = layout(vectors, 1)
    assert made.places.shape == (48, 2) and made.perplexity == pytest.approx(47 / 3)
    n_points, share, chance = nearest_purity(made.places, incidence(labels), None)
    assert (n_points, share) == (48, 1.0)
    assert chance == pytest.approx(11 / 47)
    np.testing.assert_array_equal(layout(vectors, 1).places, made.places)
