"""An architecture that the package does not have: a word from the one before and its linked source word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from rescorer.contract.architectures import Architecture
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, Prepared
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.layers.output_layer import output_layer
from rescorer.training.seeded_batch import digest, held_out_mask
from rescorer.training.text import columns_of, read_parallel_text
from rescorer.windows.scoring import FilledWindows, WindowScorer
from rescorer.windows.task import WindowTask, WindowTrainingConfig, mapped_rows


@dataclass(frozen=True)
class Sizes:
    """Sizes.

    Attributes:
        width: of everything.
    """

    width: int = 8


@dataclass(frozen=True)
class LinkedConfig(WindowTrainingConfig):
    """Settings.

    Attributes:
        model: sizes.
    """

    model: Sizes = field(default_factory=Sizes)


class LinkedWindows(nn.Module):
    """Source words have the numbers behind those of the target words."""

    def __init__(self, config: LinkedConfig, shortlists: Shortlists) -> None:
        super().__init__()
        n_source_words, n_target_words = (len(words or ()) for words in shortlists)
        width = config.model.width
        self.embedding = nn.Embedding(n_target_words + n_source_words, width)
        self.first = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, n_target_words)

    def hidden(self, windows: Tensor) -> Tensor:
        return torch.relu(self.first(self.embedding(windows).flatten(1)))


def fill(batch: Batch, shortlists: Shortlists) -> FilledWindows:
    """Windows (word before, linked source word, word); </s> where there is none."""
    assert batch.links is not None and shortlists.source is not None
    rows, pairs = [], []
    for pair, (source, target, links) in enumerate(
        zip(batch.sources, batch.targets, batch.links, strict=True)
    ):
        source_ids = shortlists.source.encode_words(source.split())
        target_ids = [*shortlists.target.encode_words(target.split()), Vocabulary.end_id]
        linked = source_of(links.split(), len(target_ids))
        before = Vocabulary.end_id
        for word, place in zip(target_ids, linked, strict=True):
            source_id = source_ids[place] if place is not None else Vocabulary.end_id
            rows.append((before, len(shortlists.target) + source_id, word))
            pairs.append(pair)
            before = word
    return FilledWindows(np.array(rows, np.int32), np.array(pairs))


def source_of(links: Sequence[bytes], n_words: int) -> list[int | None]:
    """The first source word that is linked to each target word."""
    result: list[int | None] = [None] * n_words
    for link in reversed(links):
        source, target = map(int, link.split(b"-"))
        result[target] = source
    return result


def prepare(data: Data, config: LinkedConfig, seed: int) -> Prepared:
    text = read_parallel_text(data)
    shortlists = data.shortlists or Shortlists(
        *(
            Vocabulary.from_counts(count_words(side), config.shortlist)
            for side in (text.sources, text.targets)
        )
    )
    network = LinkedWindows(config, shortlists)
    held_out = held_out_mask(len(text.targets), config.n_held_out, seed)
    lines = zip(text.sources, text.targets, text.links or (), strict=True)
    filled = (fill(Batch(*columns), shortlists) for columns in columns_of(lines))
    task = WindowTask(network, mapped_rows(filled, held_out), config, seed)
    return Prepared(network, task, shortlists, digest(text.content()))


def scorer(model: TrainedModel[LinkedWindows], compute: Compute) -> WindowScorer:
    network, shortlists = model.network.to(compute.place), model.shortlists
    layer = output_layer(network.output, compute.dtype, compute.unnormalized)
    return WindowScorer(
        network, layer, shortlists.target, lambda batch: fill(batch, shortlists), needs_links=True
    )


ARCHITECTURE = Architecture(
    data="linked text",
    settings=LinkedConfig,
    prepare=prepare,
    network=LinkedWindows,
    scorer=scorer,
)
