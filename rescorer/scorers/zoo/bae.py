"""Bilingual autoencoder of Chandar et al. (NIPS 2014, arXiv 1402.1454) over bags of words.

A phrase is the set of its words, v(x) with a 1 for each. Both languages share a code:

    phi(x) = tanh(c + W_x v(x))    phi(y) = tanh(c + W_y v(y))    phi(x, y) = tanh(c + W_x v(x) + W_y v(y))

from which one sigmoid per word predicts whether it is in the bag. A pair's loss is the cross-entropy of both
bags from each of the three codes. The similarity of two phrases is the cosine of their codes, -1 to 1, which
ignores word order and is no log-probability.

Notation: n bags, D code_width, V words of a side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, embedding_bag, softplus

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import ConfigError
from rescorer.contract.architectures import Architecture, Summaries
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.output_layer import start_normalised
from rescorer.layers.units import WORD_DEVIATION
from rescorer.training.pairs.encoded_pairs import EncodedPairs
from rescorer.tries.phrase_pairs import PairWords, prepare_pairs
from rescorer.tries.scoring import ValueScorer, summaries_by
from rescorer.tries.settings import Batching, PairTrainingConfig
from rescorer.tries.task import Losses

# Bags whose V sigmoids are in memory at a time where nothing is learned.
BAGS_AT_ONCE = 512


class Bags(NamedTuple):
    """The distinct words of bags and the bag of each, rising, (k,); some of the n_bags may be empty."""

    words: NDArray[np.int64]
    bags: NDArray[np.int64]
    n_bags: int

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Words, and where each bag begins among them, for `torch.nn.functional.embedding_bag`."""
        starts = np.searchsorted(self.bags, np.arange(self.n_bags))
        return torch.from_numpy(self.words).to(device), torch.from_numpy(starts).to(device)


def bags_of(ids: NDArray[np.int32], lens: NDArray[np.int64], merged: int = 1) -> Bags:
    """The words of phrases, each `merged` consecutive phrases making a bag.

    `ids` are those of the words, *Shape:* (n, max_len or more), `lens` the words of each, *Shape:* (n,).
    """
    inside = np.arange(ids.shape[1]) < lens[:, None]
    numbers = np.nonzero(inside)[0] // merged
    n_words = int(ids.max(initial=0)) + 1
    keys = np.unique(numbers * n_words + ids[inside])
    return Bags(keys % n_words, keys // n_words, -(-len(ids) // merged))


@dataclass(frozen=True)
class BaeConfig(Limited):
    """Sizes of a bilingual autoencoder.

    Attributes:
        code_width: D, of the code that both languages share (40 in the paper).
    """

    code_width: Annotated[int, AtLeast(1)] = 40


class Bae(nn.Module):
    """Codes of bags, and bags from codes; numbers of words include </s> (which is in no bag) and <unk>."""

    def __init__(self, config: BaeConfig, n_source_words: int, n_target_words: int) -> None:
        super().__init__()
        self.config = config
        self.source_vectors = nn.Embedding(n_source_words, config.code_width)
        self.target_vectors = nn.Embedding(n_target_words, config.code_width)
        self.code_bias = nn.Parameter(torch.zeros(config.code_width))
        self.source_output = nn.Linear(config.code_width, n_source_words)
        self.target_output = nn.Linear(config.code_width, n_target_words)
        self.initialise()

    def initialise(self) -> None:
        """Draw W from N(0, 0.1^2), the outputs' weights scaled by their fan-in; a word has p = 1 / (V + 1)."""
        nn.init.zeros_(self.code_bias)
        for vectors in (self.source_vectors, self.target_vectors):
            nn.init.normal_(vectors.weight, std=WORD_DEVIATION)
        for output in (self.source_output, self.target_output):
            nn.init.xavier_uniform_(output.weight)
            start_normalised(output)

    def sums(self, vectors: nn.Embedding, bags: Bags) -> Tensor:
        """W v of bags, *Shape:* (n, D)."""
        words, starts = bags.on(vectors.weight.device)
        return embedding_bag(words, vectors.weight, starts, mode="sum")

    def code(self, sums: Tensor) -> Tensor:
        """phi, *Shape:* (n, D) -> (n, D)."""
        return torch.tanh(self.code_bias + sums)


def reconstruction_loss(output: nn.Linear, codes: Tensor, bags: Bags, weights: Tensor) -> Tensor:
    """Weighted sum of the bags' cross-entropies, natural log, (): -sum_w log p(w is in the bag, or is not).

    `output` is of the n bags' side, `codes` have the *Shape:* (n, D), `weights` (n,).
    """
    words, numbers = (torch.from_numpy(array).to(codes.device) for array in (bags.words, bags.bags))
    inside = (codes[numbers] * output.weight[words]).sum(1) + output.bias[words]
    # log(1 + e^z) for every word, less z for those that are there.
    totals = [softplus(output(part)).sum(1) for part in torch.split(codes, BAGS_AT_ONCE)]
    return torch.cat(totals) @ weights - inside @ weights[numbers]


def correlation(one: Tensor, other: Tensor) -> Tensor:
    """Sum over dimensions of the correlation of two codes' pre-activations (n, D) over a batch's bags."""
    one, other = one - one.mean(0), other - other.mean(0)
    scales = (one.square().sum(0) * other.square().sum(0) + 1e-12).sqrt()
    return ((one * other).sum(0) / scales).sum()


@dataclass(frozen=True)
class BaeTrainingConfig(PairTrainingConfig):
    """Settings of the training of a bilingual autoencoder.

    Losses are of reconstruction, in nats for each target word; they compare with no other model's. Unless
    `correlation_weight` is 0 and `merged_pairs` 1, one process computes a whole batch.

    Attributes:
        batching: "pairs" draws pairs at random, "sources" all targets of a source at once, "parts" four of
            them, "auto" what the recipe says.
        reading: "as-is" alone: a cosine has no direction.
        merged_pairs: number of pairs of a batch learned as one bag on each side. The paper joins 5 sentences,
            which saves time; bags of joined phrases are larger than those scored. Held-out pairs
            are never joined.
        correlation_weight: lambda, of the correlation of both codes in a batch, which each bag is rewarded
            with. The paper has 4 beside the losses of whole sentences, which have many more words.
        model: sizes.
    """

    batching: Batching | Literal["auto"] = "pairs"
    merged_pairs: Annotated[int, AtLeast(1)] = 1
    correlation_weight: Annotated[float, AtLeast(0)] = 0.3
    model: BaeConfig = field(default_factory=BaeConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading != "as-is":
            raise ConfigError("reading: a cosine of two codes has no direction: leave it out")
        if self.loop.accumulation > 1 and self.needs_whole_batches:
            raise ConfigError(
                "loop.accumulation: correlation and merged pairs are those of a whole batch: leave it at 1,"
                " or set correlation_weight to 0 and merged_pairs to 1"
            )

    @property
    def needs_whole_batches(self) -> bool:
        """Whether the loss of a batch is more than the sum over its pairs."""
        return self.correlation_weight > 0 or self.merged_pairs > 1


def prepare(data: Data, config: BaeTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""
    is_whole = config.needs_whole_batches
    return prepare_pairs(data, config, seed, empty_network, _losses, is_whole)


def _losses(network: Bae, config: BaeTrainingConfig, words: PairWords) -> Losses:
    """Held out is reconstruction alone, pair by pair."""
    merged, weight = config.merged_pairs, config.correlation_weight
    return Losses(
        lambda data, batch: bae_loss(network, data, batch.rows, merged, weight),
        lambda data, rows: bae_loss(network, data, rows, merged=1, correlation_weight=0.0),
    )


def bae_loss(
    network: Bae,
    data: EncodedPairs,
    rows: NDArray[np.int64],
    merged: int,
    correlation_weight: float,
) -> Tensor:
    """Cross-entropies of both bags from each code and from both, natural log, less the correlation's share.

    `rows` are the pairs, *Shape:* (n,); `merged` pairs make one bag on each side, with their mean weight.
    """
    groups = data.groups[rows]
    source = bags_of(data.sources[groups], data.source_lens[groups], merged)
    target = bags_of(data.targets[rows], data.target_lens[rows], merged)
    numbers = np.arange(len(rows)) // merged
    means = np.bincount(numbers, data.weights[rows]) / np.bincount(numbers)
    sums = (
        network.sums(network.source_vectors, source),
        network.sums(network.target_vectors, target),
    )
    weights = torch.from_numpy(means).to(sums[0])
    codes = [network.code(each) for each in (*sums, sums[0] + sums[1])]
    losses = [
        reconstruction_loss(output, code, bags, weights)
        for code in codes
        for output, bags in ((network.source_output, source), (network.target_output, target))
    ]
    total = torch.stack(losses).sum()
    if correlation_weight and len(weights) > 1:
        total = total - correlation_weight * len(weights) * correlation(*sums)
    return total


def empty_network(config: BaeTrainingConfig, shortlists: Shortlists) -> Bae:
    """A network with initial weights."""
    source, target = shortlists
    return Bae(config.model, len(source or ()), len(target))


def _codes(
    network: Bae, vectors: nn.Embedding, words: Vocabulary, phrases: Sequence[bytes]
) -> Tensor:
    return network.code(network.sums(vectors, bags_of(*words.encode_phrases(phrases))))


def bae_scorer(model: TrainedModel[Bae], compute: Compute) -> ValueScorer:
    """The cosine of the codes of source and target, -1 to 1; float32 in any precision."""
    network = model.network.to(compute.place)
    source, target = model.shortlists.source_words, model.shortlists.target

    def codes(vectors: nn.Embedding, words: Vocabulary, phrases: Sequence[bytes]) -> Tensor:
        different, which = distinct(phrases)
        found = _codes(network, vectors, words, different)
        return found[torch.from_numpy(which).to(found.device)]

    def values_of(batch: Batch) -> Tensor:
        sources = codes(network.source_vectors, source, batch.sources)
        return cosine_similarity(sources, codes(network.target_vectors, target, batch.targets))

    return ValueScorer(values_of, target)


def bae_embeddings(model: TrainedModel[Bae]) -> dict[Side, NDArray[np.float32]]:
    """The columns of W_x and W_y, which share one space."""
    network = model.network
    return {
        "source": network.source_vectors.weight.detach().cpu().numpy(),
        "target": network.target_vectors.weight.detach().cpu().numpy(),
    }


def bae_summaries(model: TrainedModel[Bae], compute: Compute) -> Summaries:
    """The codes of source phrases."""
    network, words = model.network.to(compute.place), model.shortlists.source_words
    return summaries_by(partial(_codes, network, network.source_vectors, words))


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=BaeTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=bae_scorer,
    column_note="the cosine of two codes, no log-probability",
    embeddings=bae_embeddings,
    summaries=bae_summaries,
)
