"""A CSLM made ready for scoring: the first layer is looked up instead of multiplied."""

from __future__ import annotations

import torch
from torch import Tensor

from rescorer.compute import Compute
from rescorer.contract import Batch, TrainedModel
from rescorer.scorers.cslm.network import Cslm
from rescorer.softmax.output_layer import EstimatedOutputLayer, ExactOutputLayer, output_layer
from rescorer.windows.ngrams import sentence_ngrams
from rescorer.windows.scoring import FilledWindows, WindowScorer
from rescorer.windows.service import WindowNgramScorer
from rescorer.windows.windowed import first_layer_tables


class FirstLayerLookup:
    """A CSLM whose first layer is a sum of looked-up rows; a `Windowed`.

    Args:
        network: trained, on the device where it shall compute.
    """

    def __init__(self, network: Cslm) -> None:
        self.output = network.output
        self._bias = network.first.bias.detach()
        self._second = network.second
        self._tables = first_layer_tables(network.embedding, network.first)

    def hidden(self, windows: Tensor) -> Tensor:
        """Second hidden layer, *Shape:* (n, context_words) -> (n, second_width)."""
        first = self._bias + sum(
            table[windows[:, place]] for place, table in enumerate(self._tables)
        )
        return torch.relu(self._second(torch.relu(first)))


def cslm_scorer(model: TrainedModel[Cslm], compute: Compute) -> WindowScorer:
    """Natural log p(target) under a CSLM; the source is ignored."""
    network = model.network.to(compute.place)
    vocabulary, context_words = model.shortlists.target, network.config.context_words

    def fill(asked: Batch) -> FilledWindows:
        ids, lens = vocabulary.encode_text(asked.targets)
        ngrams = sentence_ngrams(ids, lens, context_words, network.start_id, vocabulary.end_id)
        return FilledWindows(*ngrams)

    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return WindowScorer(FirstLayerLookup(network), layer, vocabulary, fill)


def cslm_ngram_scorer(model: TrainedModel[Cslm], compute: Compute) -> WindowNgramScorer:
    """What the search asks a CSLM for."""
    network = model.network.to(compute.place)
    return WindowNgramScorer(
        FirstLayerLookup(network),
        ExactOutputLayer(network.output, compute.dtype),
        EstimatedOutputLayer(network.output, compute.dtype),
        model.shortlists.target,
        network.config.context_words + 1,
        network.start_id,
    )
