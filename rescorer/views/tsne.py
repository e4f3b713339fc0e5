"""Two dimensions of many: t-SNE (van der Maaten and Hinton, 2008) as openTSNE computes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.progress import Progress
from rescorer.views.cosine import unit_rows

# The usual one; few points have fewer neighbours.
PERPLEXITY = 30.0
ITERATIONS = {"early_exaggeration_iter": 250, "n_iter": 500}
ITERATIONS_A_REPORT = 50


class Layout(NamedTuple):
    """Points in the plane.

    Attributes:
        places: *Shape:* (n, 2).
        perplexity: neighbours that each point heeds, in effect.
        kl_divergence: what t-SNE has made small, in nats.
        method: the library and its version.
    """

    places: NDArray[np.float64]
    perplexity: float
    kl_divergence: float
    method: str


def layout(vectors: NDArray[np.float32], seed: int) -> Layout:
    """Place points in the plane so that near directions stay near.

    Vectors count by their direction (so the squared distance is 2 - 2 cosine). It starts from the two principal
    components and is the same for the same vectors and seed on one machine.

    Args:
        vectors: at least 5, *Shape:* (n, d).
        seed: of the solver of principal components.
    """
    import openTSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    with Progress("t-SNE", sum(ITERATIONS.values()), "iterations") as progress:

        def report(iteration: int, error: float, embedding: Any) -> None:
            progress.update(ITERATIONS_A_REPORT)

        made = openTSNE.TSNE(
            perplexity=perplexity,
            neighbors="exact",
            initialization="pca",
            random_state=seed,
            n_jobs=1,
            callbacks=report,
            callbacks_every_iters=ITERATIONS_A_REPORT,
            **ITERATIONS,
        ).fit(unit_rows(vectors))
    method = f"openTSNE {openTSNE.__version__}"
    return Layout(np.asarray(made, np.float64), perplexity, float(made.kl_divergence), method)
