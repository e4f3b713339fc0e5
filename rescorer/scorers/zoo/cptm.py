"""Continuous-space phrase model of Gao et al. (ACL 2014) over bags of words.

A phrase is the counts x of its words over one vocabulary of both languages; one network encodes phrases of
either language:

    y = tanh(W_2' tanh(W_1' x))

The value of a pair is y_source . y_target, between minus and plus the number of units. It ignores word order
and is no log-probability.

Notation: n phrases, H hidden_width, D code_width, V words of both languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from moses_bridge.base.config import AtLeast, Limited
from rescorer.contract.architectures import Architecture, PhraseValues, Summaries
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct_phrases
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.units import WORD_DEVIATION
from rescorer.tries.contrast import (
    ContrastBatch,
    ContrastTrainingConfig,
    ContrastValues,
    contrast_losses,
)
from rescorer.tries.phrase_pairs import PairWords, prepare_pairs
from rescorer.tries.scoring import ValueScorer, summaries_by
from rescorer.tries.task import Losses

# Word ids in the joint vocabulary, *Shape:* (n, max_len or more), and words of each phrase, *Shape:* (n,).
Encoded = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class CptmConfig(Limited):
    """Sizes of a continuous-space phrase model.

    Attributes:
        hidden_width: H, units of the first layer (100 in the paper).
        code_width: D, units of the second one (100 in the paper).
    """

    hidden_width: Annotated[int, AtLeast(1)] = 100
    code_width: Annotated[int, AtLeast(1)] = 100


class Cptm(nn.Module):
    """Codes of phrases of both languages; V includes </s> (which is in no bag) and <unk>."""

    def __init__(self, config: CptmConfig, n_words: int) -> None:
        super().__init__()
        self.config = config
        self.word_vectors = nn.Embedding(n_words, config.hidden_width)
        self.projection = nn.Linear(config.hidden_width, config.code_width, bias=False)
        self.initialise()

    def initialise(self) -> None:
        """Draw W_1 from N(0, 0.1^2); W_2 starts as the identity, as in the paper."""
        nn.init.normal_(self.word_vectors.weight, std=WORD_DEVIATION)
        nn.init.eye_(self.projection.weight)

    def codes(self, ids: NDArray[np.integer], lens: NDArray[np.int64]) -> Tensor:
        """Codes y, (n, D), of phrases by joint ids, *Shape:* (n, max_len or more), and numbers of words."""
        weight = self.word_vectors.weight
        inside = np.arange(ids.shape[1]) < lens[:, None]
        words = torch.from_numpy(ids[inside].astype(np.int64)).to(weight.device)
        starts = torch.from_numpy(np.cumsum(lens) - lens).to(weight.device)
        sums = embedding_bag(words, weight, starts, mode="sum")
        return torch.tanh(self.projection(torch.tanh(sums)))


def similarities(one: Tensor, other: Tensor) -> Tensor:
    """Products of codes, row by row, *Shape:* (n, D) -> (n,)."""
    return (one * other).sum(1)


@dataclass(frozen=True)
class JointVocabulary:
    """Source words with their own ids, then the target words not among them; target_ids are of all of these."""

    source: Vocabulary
    target: Vocabulary
    target_ids: NDArray[np.int64]

    @classmethod
    def of(cls, shortlists: Shortlists) -> JointVocabulary:
        """The joint vocabulary of a network's shortlists."""
        source, target = shortlists.source_words, shortlists.target
        ids = {word: number for number, word in enumerate(source.words)}
        target_ids = [ids.setdefault(word, len(ids)) for word in target.words]
        return cls(source, target, np.array(target_ids, np.int64))

    def __len__(self) -> int:
        return max(len(self.source), int(self.target_ids.max()) + 1)

    def encode(self, side: Side, phrases: Sequence[bytes]) -> Encoded:
        """Words of phrases of one side; unknown ones are <unk>."""
        if side == "source":
            ids, lens = self.source.encode_phrases(phrases)
            return ids.astype(np.int64), lens
        ids, lens = self.target.encode_phrases(phrases)
        return self.target_ids[ids], lens


def phrase_values(model: TrainedModel[Cptm], product_type: torch.dtype) -> PhraseValues:
    """See `contract.Architecture`; equal phrases are computed once, in small products of float32."""
    network, words = model.network, JointVocabulary.of(model.shortlists)

    def codes(side: Side, phrases: Sequence[bytes]) -> Tensor:
        different, which = distinct_phrases(phrases)
        return network.codes(*words.encode(side, different))[which]

    return lambda pairs: similarities(
        codes("source", pairs.sources), codes("target", pairs.targets)
    )


@dataclass(frozen=True)
class CptmTrainingConfig(ContrastTrainingConfig):
    """Settings of the contrastive start of a continuous-space phrase model.

    Attributes:
        model: sizes.
    """

    model: CptmConfig = field(default_factory=CptmConfig)


def prepare(data: Data, config: CptmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`."""
    return prepare_pairs(data, config, seed, empty_network, _losses, whole_batches=True)


def _losses(network: Cptm, config: CptmTrainingConfig, words: PairWords) -> Losses:
    joint = JointVocabulary.of(words.shortlists)
    return contrast_losses(lambda batch: contrast(network, joint, batch))


def contrast(network: Cptm, words: JointVocabulary, batch: ContrastBatch) -> ContrastValues:
    """The products of the codes of a batch."""
    sources, targets = batch.sources, batch.targets
    source_codes = network.codes(sources.ids, sources.lens)
    target_codes = network.codes(words.target_ids[targets.ids], targets.lens)
    pairs = similarities(source_codes[sources.which], target_codes[targets.which])
    return source_codes @ target_codes.T, pairs


def empty_network(config: CptmTrainingConfig, shortlists: Shortlists) -> Cptm:
    """A network with initial weights."""
    return Cptm(config.model, len(JointVocabulary.of(shortlists)))


def cptm_scorer(model: TrainedModel[Cptm], compute: Compute) -> ValueScorer:
    """The product of the codes of source and target; float32 in any precision."""
    model.network.to(compute.place)
    return ValueScorer(phrase_values(model, compute.dtype), model.shortlists.target)


def cptm_embeddings(model: TrainedModel[Cptm]) -> dict[Side, NDArray[np.float32]]:
    """The rows of W_1 for each side's words; words spelt alike in both languages share one."""
    vectors = model.network.word_vectors.weight.detach().cpu().numpy()
    words = JointVocabulary.of(model.shortlists)
    return {"source": vectors[: len(words.source)], "target": vectors[words.target_ids]}


def cptm_summaries(model: TrainedModel[Cptm], compute: Compute) -> Summaries:
    """The codes of source phrases."""
    network, words = model.network.to(compute.place), JointVocabulary.of(model.shortlists)
    return summaries_by(lambda phrases: network.codes(*words.encode("source", phrases)))


ARCHITECTURE = Architecture(
    data="phrase pairs",
    settings=CptmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=cptm_scorer,
    column_note="a similarity of two codes, no log-probability",
    embeddings=cptm_embeddings,
    summaries=cptm_summaries,
    phrase_values=phrase_values,
)
