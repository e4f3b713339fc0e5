"""A CSLM made ready for scoring, of sentences and of the n-grams of the search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.batch import Batch, Side
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.layers.output_layer import output_layer
from rescorer.scorers.cslm.network import Cslm
from rescorer.windows.feed_forward import FirstLayerLookup
from rescorer.windows.ngrams import sentence_ngrams
from rescorer.windows.scoring import FilledWindows, WindowScorer
from rescorer.windows.service import WindowNgramScorer, window_ngram_scorer


def cslm_scorer(model: TrainedModel[Cslm], compute: Compute) -> WindowScorer:
    """Natural log p(target) under a CSLM; the source is ignored."""
    network = model.network.to(compute.place)
    vocabulary, context_words = model.shortlists.target, network.config.context_words

    def fill(batch: Batch) -> FilledWindows:
        ids, lens = vocabulary.encode_text(batch.targets)
        ngrams = sentence_ngrams(ids, lens, context_words, network.start_id, vocabulary.end_id)
        return FilledWindows(*ngrams)

    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return WindowScorer(FirstLayerLookup(network), layer, vocabulary, fill)


def cslm_ngram_scorer(model: TrainedModel[Cslm], compute: Compute) -> WindowNgramScorer:
    """What the search asks a CSLM for."""
    return window_ngram_scorer(model, compute, model.network.config.context_words)


def cslm_embeddings(model: TrainedModel[Cslm]) -> dict[Side, NDArray[np.float32]]:
    """The vectors of the previous words in a window, *Shape:* (n_words, r) each."""
    vectors = model.network.embedding.weight.detach().cpu().numpy()
    return {"target": vectors[: len(model.shortlists.target)]}
