"""An NNJM made ready for scoring: sentence pairs and phrase pairs with word links, n-grams of the search.

A phrase pair of a table is scored as if it were a sentence: its borders are those of a text. So a column is an
approximation; a feature of n-best lists is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.output_layer import output_layer
from rescorer.scorers.nnjm.network import Nnjm
from rescorer.scorers.nnjm.windows import fill_windows, place_windows
from rescorer.windows.feed_forward import FirstLayerLookup
from rescorer.windows.scoring import FilledWindows, WindowScorer
from rescorer.windows.service import WindowNgramScorer, window_ngram_scorer


def nnjm_scorer(model: TrainedModel[Nnjm], compute: Compute) -> WindowScorer:
    """Natural log p(target | source, links) under an NNJM."""
    network, shortlists = model.network.to(compute.place), model.shortlists

    def fill(batch: Batch) -> FilledWindows:
        return fill_windows(batch, shortlists, network.config)

    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return WindowScorer(FirstLayerLookup(network), layer, shortlists.target, fill, needs_links=True)


def nnjm_ngram_scorer(model: TrainedModel[Nnjm], compute: Compute) -> WindowNgramScorer:
    """What the search asks an NNJM for."""
    config = model.network.config

    def around(sources: Sequence[bytes]) -> NDArray[np.int32]:
        return place_windows(sources, model.shortlists, config)[0]

    return window_ngram_scorer(model, compute, config.history_words, around)


def nnjm_embeddings(model: TrainedModel[Nnjm]) -> dict[Side, NDArray[np.float32]]:
    """The vectors of the words of both sides in a window, *Shape:* (n_words, r) each."""
    source, target = model.shortlists
    vectors = model.network.embedding.weight.detach().cpu().numpy()
    first_source = len(target) + 1
    return {
        "target": vectors[: len(target)],
        "source": vectors[first_source : first_source + len(source or ())],
    }
