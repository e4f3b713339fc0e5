"""CSLM: a feed-forward n-gram language model over the target shortlist (Schwenk 2007; Cho et al. 2014).

Its value is log p(target).
Notation: V is the shortlist with </s> and <unk>; the input has one word more, <s>, whose id is V.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.config import AtLeast, Limited
from rescorer.contract.architectures import AS_A_SENTENCE, Architecture
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.layers.output_layer import output_layer, start_normalised
from rescorer.training.seeded_batch import digest, held_out_mask
from rescorer.training.text import SENTENCES_AT_ONCE, read_text
from rescorer.windows.feed_forward import FeedForward, FirstLayerLookup, LayerWidths
from rescorer.windows.ngrams import sentence_ngrams
from rescorer.windows.scoring import FilledWindows, WindowScorer
from rescorer.windows.service import WindowNgramScorer, window_ngram_scorer
from rescorer.windows.task import WindowTask, WindowTrainingConfig, mapped_rows


@dataclass(frozen=True)
class CslmConfig(Limited):
    """Sizes of a CSLM.

    Attributes:
        context_words: previous words seen (6 in Cho et al. 2014: a 7-gram model).
        embedding_width: width of a word's vector (512 there).
        first_width: width of the first hidden layer (1536 there).
        second_width: width of the second hidden layer (1024 there); 0 leaves it out.
    """

    context_words: Annotated[int, AtLeast(1)] = 6
    embedding_width: Annotated[int, AtLeast(1)] = 128
    first_width: Annotated[int, AtLeast(1)] = 256
    second_width: Annotated[int, AtLeast(0)] = 128


class Cslm(FeedForward):
    """p(word | previous words); the window has the order of the text, and n_words is V."""

    def __init__(self, config: CslmConfig, n_words: int) -> None:
        widths = LayerWidths(config.embedding_width, config.first_width, config.second_width)
        super().__init__(n_words + 1, config.context_words, widths, n_words)
        self.config = config
        self.start_id = n_words  # of <s>, which pads contexts at the start of a sentence


@dataclass(frozen=True)
class CslmTrainingConfig(WindowTrainingConfig):
    """Settings of the training of a CSLM.

    Attributes:
        model: sizes.
    """

    model: CslmConfig = field(default_factory=CslmConfig)


def prepare(data: Data, config: CslmTrainingConfig, seed: int) -> Prepared:
    """See `contract.Architecture`; InputError if the text is empty."""
    sentences = read_text(data.path)
    shortlists = data.shortlists or Shortlists(
        None, Vocabulary.from_counts(count_words(sentences), config.shortlist)
    )
    vocabulary = shortlists.target
    network = empty_network(config, shortlists)
    if config.self_normalisation:
        start_normalised(network.output)
    held_out = held_out_mask(len(sentences), config.n_held_out, seed)
    width, start_id = config.model.context_words, network.start_id
    rows = mapped_rows(
        (
            sentence_ngrams(*vocabulary.encode_text(block), width, start_id, vocabulary.end_id)
            for block in blocks_of(sentences, SENTENCES_AT_ONCE)
        ),
        held_out,
    )
    task = WindowTask(network, rows, config, seed)
    finish = task.finish if config.self_normalisation else None
    record = {"n_sentences": len(sentences)}
    return Prepared(network, task, shortlists, digest(sentences), record, finish)


def empty_network(config: CslmTrainingConfig, shortlists: Shortlists) -> Cslm:
    """A network with initial weights."""
    return Cslm(config.model, len(shortlists.target))


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
    """The n-gram scorer of a CSLM for use during search."""
    return window_ngram_scorer(model, compute, model.network.config.context_words)


def cslm_embeddings(model: TrainedModel[Cslm]) -> dict[Side, NDArray[np.float32]]:
    """The vectors of the previous words of a window, *Shape:* (n_words, r) each."""
    vectors = model.network.embedding.weight.detach().cpu().numpy()
    return {"target": vectors[: len(model.shortlists.target)]}


ARCHITECTURE = Architecture(
    data="text",
    settings=CslmTrainingConfig,
    prepare=prepare,
    network=empty_network,
    scorer=cslm_scorer,
    column_note=AS_A_SENTENCE,
    ngrams=cslm_ngram_scorer,
    embeddings=cslm_embeddings,
)
