"""CSTM, the continuous space translation model of Schwenk (COLING 2012, posters, pages 1071-1080).

A source phrase fills a fixed number of places, empty ones after its words. Their concatenated vectors go
through hidden layers shared by all target words; each place of the target has its own softmax:

    p(t_1 ... t_m | s) = product over k of p_k(t_k | s), with t_{m+1} = </s>

Target words are independent given the source. Three things differ from the authors' program: </s> is
predicted after the last word (after the last place it is certain), so that the probabilities of all targets
sum to 1; the value is the sum of the logarithms, not their mean; and a word outside the shortlist is <unk>,
where a pair with such a word gets the table's probability there.

Notation: n sources, N places on each side, r embedding_width, d width of the last hidden layer, V predicted
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import ConfigError, UserError, shown
from rescorer.contract.architectures import Architecture, Summaries
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.scorer import WordLogProbs
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.output_layer import OutputLayer, output_layer
from rescorer.layers.predicted import Predicted, output_loss
from rescorer.layers.units import scale_by_fan_in
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.phrase_pairs import PairWords, prepare_pairs
from rescorer.tries.scoring import summaries_by
from rescorer.tries.settings import Batching, PairTrainingConfig
from rescorer.tries.task import Losses
from rescorer.windows.ngrams import distinct_rows
from rescorer.windows.scoring import ROWS_AT_ONCE

# Initial weights of the recipe "paper": those of the authors' program, cslm-toolkit, but not its SGD.
INITIAL_LIMIT = 0.1


@dataclass(frozen=True)
class CstmConfig(Limited):
    """Sizes of a CSTM.

    Attributes:
        phrase_words: N, words of a phrase at most on each side (7 in the paper, as in Moses's tables); a
            model cannot score longer ones.
        embedding_width: r, of a source word's vector.
        first_width: of the first hidden layer.
        second_width: of the second hidden layer; 0 leaves it out.
    """

    phrase_words: Annotated[int, AtLeast(1)] = 7
    embedding_width: Annotated[int, AtLeast(1)] = 100
    first_width: Annotated[int, AtLeast(1)] = 256
    second_width: Annotated[int, AtLeast(0)] = 128


class Cstm(nn.Module):
    """p_k(word | source) for each place k of the target, exactly normalised; V includes </s> and <unk>."""

    def __init__(self, config: CstmConfig, n_source_words: int, n_target_words: int) -> None:
        super().__init__()
        self.config = config
        self.empty_id = n_source_words
        self.embedding = nn.Embedding(n_source_words + 1, config.embedding_width)
        self.first = nn.Linear(config.phrase_words * config.embedding_width, config.first_width)
        self.second = (
            nn.Linear(config.first_width, config.second_width) if config.second_width else None
        )
        last_width = config.second_width or config.first_width
        self.outputs = nn.ModuleList(
            nn.Linear(last_width, n_target_words) for _ in range(config.phrase_words)
        )
        self.initialise(INITIAL_LIMIT)

    def initialise(self, limit: float | None) -> None:
        """Draw matrices from [-limit, limit], biases 0; None scales matrices by their fan-in."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif limit is None:
                scale_by_fan_in(name, parameter)
            else:
                nn.init.uniform_(parameter, -limit, limit)

    @property
    def output_layers(self) -> list[nn.Linear]:
        """The layers of the softmaxes, by place."""
        return [layer for layer in self.outputs if isinstance(layer, nn.Linear)]

    def hidden(self, windows: Tensor) -> Tensor:
        """The last hidden layer, (n, d), of source words by place, `empty_id` after them, *Shape:* (n, N)."""
        first = torch.tanh(self.first(self.embedding(windows).flatten(1)))
        return first if self.second is None else torch.tanh(self.second(first))


def source_windows(
    ids: NDArray[np.int32], lens: NDArray[np.int64], n_places: int, empty_id: int
) -> NDArray[np.int32]:
    """Source phrases by place, `empty_id` in empty places, *Shape:* (n, n_places).

    `ids` has the *Shape:* (n, max_len + 1); a phrase longer than n_places is a ValueError.
    """
    if int(lens.max(initial=0)) > n_places:
        raise ValueError(f"{lens.max()} words in {n_places} places")
    windows = np.full((len(ids), n_places), empty_id, np.int32)
    width = min(ids.shape[1], n_places)
    inside = np.arange(width) < lens[:, None]
    windows[:, :width][inside] = ids[:, :width][inside]
    return windows


def cstm_loss(
    network: Cstm, data: EncodedPairs, rows: NDArray[np.int64], product_type: torch.dtype
) -> Tensor:
    """Weighted sum of -log p(target | source), natural log, over the pairs `rows`, *Shape:* (n,)."""
    sources, groups = np.unique(data.groups[rows], return_inverse=True)
    ids, lens = data.sources[sources], data.source_lens[sources]
    windows = source_windows(ids, lens, network.config.phrase_words, network.empty_id)
    device = network.embedding.weight.device
    hidden = network.hidden(torch.from_numpy(windows).long().to(device))
    targets, target_lens = data.targets[rows], data.target_lens[rows]
    losses = []
    # There is no layer after the last place: </s> is certain there.
    for place, layer in enumerate(network.output_layers[: int(target_lens.max(initial=0)) + 1]):
        pairs = np.flatnonzero(target_lens >= place)
        here, predicted = predicted_at(
            groups[pairs], targets[pairs, place], data.weights[rows[pairs]]
        )
        chosen = hidden[torch.from_numpy(here).to(device)]
        losses.append(output_loss(layer, chosen, predicted, product_type))
    return torch.stack(losses).sum()


def predicted_at(
    groups: NDArray[np.int64], words: NDArray[np.int32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], Predicted]:
    """The predictions of a place's softmax: each word of a source once, with the weight of all its targets.

    `groups`, `words` and `weights` are the source, the word here and the weight of each pair, *Shape:* (n,).

    Returns:
        The sources with a word here, rising, *Shape:* (n_here,), and the words after them.
    """
    n_words = int(words.max(initial=0)) + 1
    keys, which = np.unique(groups * n_words + words, return_inverse=True)
    here, rows = np.unique(keys // n_words, return_inverse=True)
    return here, Predicted(rows, keys % n_words, np.bincount(which, weights).astype(np.float64))


@dataclass(frozen=True)
class CstmTrainingConfig(PairTrainingConfig):
    """Settings of the training of a CSTM.

    Attributes:
        batching: "sources" puts all targets of a source into one batch: their denominators are computed once;
            "parts" puts four of them at a time, "pairs" draws pairs at random, "auto" is what the recipe
            says.
        model: sizes.
    """

    batching: Batching | Literal["auto"] = "sources"
    model: CstmConfig = field(default_factory=CstmConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_phrase_words > self.model.phrase_words:
            raise ConfigError(
                f"max_phrase_words is {self.max_phrase_words}, but the network has places for"
                f" {self.model.phrase_words} words: raise phrase_words in [model], or lower max_phrase_words"
            )


def prepare(data: Data, config: CstmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""
    return prepare_pairs(data, config, seed, new_network, _losses)


def _losses(network: Cstm, config: CstmTrainingConfig, words: PairWords) -> Losses:
    dtype = config.loop.product_dtype
    return Losses(
        lambda data, batch: cstm_loss(network, data, batch.rows, dtype),
        lambda data, rows: cstm_loss(network, data, rows, torch.float32),
    )


def new_network(config: CstmTrainingConfig, shortlists: Shortlists) -> Cstm:
    """A network with initial weights."""
    network = empty_network(config, shortlists)
    network.initialise(INITIAL_LIMIT if config.loop.recipe == "paper" else None)
    return network


def empty_network(config: CstmTrainingConfig, shortlists: Shortlists) -> Cstm:
    """A network before its weights are loaded."""
    source, target = shortlists
    return Cstm(config.model, len(source or ()), len(target))


@dataclass(eq=False)
class CstmScorer:
    """Natural log p(target | source) under a CSTM, </s> included; `layers` are the softmaxes by place.

    Several threads may use one scorer.
    """

    network: Cstm
    layers: Sequence[OutputLayer]
    source: Vocabulary
    shortlist: Vocabulary
    needs_links: bool = False

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

    def hidden(phrases: Sequence[bytes]) -> Tensor:
        ids, lens = vocabulary.encode_phrases(phrases)
        if int(lens.max(initial=0)) > n_places:
            longest = shown(phrases[int(lens.argmax())])
            raise UserError(
                f"{longest}: {lens.max()} words, where the network has {n_places} places"
            )
        windows = source_windows(ids, lens, n_places, network.empty_id)
        return network.hidden(torch.from_numpy(windows).long().to(compute.place))

    return summaries_by(hidden)


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=CstmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=cstm_scorer,
    embeddings=cstm_embeddings,
    summaries=cstm_summaries,
)
