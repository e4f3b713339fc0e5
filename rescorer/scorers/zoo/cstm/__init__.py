"""CSTM, the feed-forward phrase model of Schwenk (2012), for scoring: log p(target phrase | source phrase)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.errors import UserError, shown
from rescorer.contract.architectures import Architecture, Summaries
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.scorer import WordLogProbs
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Vocabulary
from rescorer.layers.output_layer import OutputLayer, output_layer
from rescorer.scorers.zoo.cstm.network import (
    Cstm,
    CstmTrainingConfig,
    empty_network,
    prepare,
    source_windows,
)
from rescorer.windows.ngrams import distinct_rows
from rescorer.windows.scoring import ROWS_AT_ONCE


class CstmScorer:
    """Natural log p(target | source) under a CSTM, </s> included; `layers` are the softmaxes by place.

    Several threads may use one scorer.
    """

    needs_links = False

    def __init__(
        self,
        network: Cstm,
        layers: Sequence[OutputLayer],
        source: Vocabulary,
        shortlist: Vocabulary,
    ) -> None:
        self.network = network
        self.layers = layers
        self.source = source
        self.shortlist = shortlist

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Natural log p of each pair; see `contract.Scorer`.

        Raises:
            UnscorablePair: a phrase has more words than the network has places.
        """
        return np.asarray(self._by_place(batch)[0].sum(axis=1))

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        """Natural log of each word given the source; see `contract.WordScorer`."""
        by_place, lens = self._by_place(batch)
        inside = np.arange(by_place.shape[1]) <= lens[:, None]
        return WordLogProbs(by_place[inside], np.nonzero(inside)[0])

    @torch.inference_mode()
    def _by_place(self, batch: Batch) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Natural log of each word and </s>, *Shape:* (n, max_len + 1), and the words of each target."""
        if not len(batch):
            return np.zeros((0, 1)), np.zeros(0, np.int64)
        ids, lens = self.shortlist.encode_phrases(batch.targets)
        self._check(lens, batch, "target")
        hidden, of_pairs = self._read(batch)
        by_place = np.zeros(ids.shape)
        # After the last place </s> is certain.
        for place, layer in enumerate(self.layers[: ids.shape[1]]):
            pairs = np.flatnonzero(lens >= place)
            words = ids[pairs, place]
            by_place[pairs, place] = _log_probs(layer, hidden, of_pairs[pairs], words)
        return by_place, lens

    def _read(self, batch: Batch) -> tuple[Tensor, NDArray[np.int64]]:
        """Last hidden layers of the distinct sources, *Shape:* (n_sources, d), and the source of each pair."""
        different, of_pairs = distinct(batch.sources)
        ids, lens = self.source.encode_phrases(different)
        self._check(lens[of_pairs], batch, "source")
        # Sources that differ only in unknown words are equal.
        rows = source_windows(ids, lens, self.network.config.phrase_words, self.network.empty_id)
        windows, which = distinct_rows(rows)
        on_device = torch.from_numpy(windows).long().to(self.network.embedding.weight.device)
        hidden = torch.cat(
            [self.network.hidden(part) for part in torch.split(on_device, ROWS_AT_ONCE)]
        )
        return hidden, which[of_pairs].astype(np.int64)

    def _check(self, lens: NDArray[np.int64], batch: Batch, side: Side) -> None:
        n_places = self.network.config.phrase_words
        if int(lens.max(initial=0)) > n_places:
            row = int(np.flatnonzero(lens > n_places)[0])
            raise UnscorablePair(
                row,
                batch,
                side,
                f"{lens[row]} words",
                f"at most {n_places}, the places of the network",
                "It is a model of phrases: leave longer pairs out, or train with a larger phrase_words",
            )


def _log_probs(
    layer: OutputLayer, hidden: Tensor, sources: NDArray[np.int64], words: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Natural log p of a word in a place for pairs of source and word, (n,); `hidden` is (n_sources, d)."""
    here, which = np.unique(sources, return_inverse=True)
    rows = hidden[torch.from_numpy(here).to(hidden.device)]
    log_z, of_pairs = layer.log_z(rows), torch.from_numpy(which).to(hidden.device)
    chosen = torch.from_numpy(words.astype(np.int64)).to(hidden.device)
    return layer.log_probs(rows[of_pairs], log_z[of_pairs], chosen).double().cpu().numpy()


def cstm_scorer(model: TrainedModel[Cstm], compute: Compute) -> CstmScorer:
    """Natural log p(target | source) under a CSTM, for whole tables."""
    network = model.network.to(compute.place)
    layers = [
        output_layer(layer, compute.dtype, compute.unnormalized) for layer in network.output_layers
    ]
    return CstmScorer(network, layers, model.shortlists.source_words, model.shortlists.target)


def cstm_embeddings(model: TrainedModel[Cstm]) -> dict[Side, NDArray[np.float32]]:
    """The vectors of source words; target words have one per place, and none of their own."""
    vectors = model.network.embedding.weight.detach().cpu().numpy()
    return {"source": vectors[: len(model.shortlists.source_words)]}


def cstm_summaries(model: TrainedModel[Cstm], compute: Compute) -> Summaries:
    """The last hidden layer of source phrases; one with too many words raises a `UserError`."""
    network, vocabulary = model.network.to(compute.place), model.shortlists.source_words
    n_places = network.config.phrase_words

    @torch.inference_mode()
    def summaries(phrases: Sequence[bytes]) -> NDArray[np.float32]:
        ids, lens = vocabulary.encode_phrases(phrases)
        if int(lens.max(initial=0)) > n_places:
            longest = shown(phrases[int(lens.argmax())])
            raise UserError(
                f"{longest}: {lens.max()} words, where the network has {n_places} places"
            )
        windows = source_windows(ids, lens, n_places, network.empty_id)
        hidden = network.hidden(torch.from_numpy(windows).long().to(compute.place))
        return hidden.float().cpu().numpy()

    return summaries


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=CstmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=cstm_scorer,
    embeddings=cstm_embeddings,
    summaries=cstm_summaries,
)
