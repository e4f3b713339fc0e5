"""Targets that a recurrent network prefers or draws: beam search and sampling, the same for every network.

The score of a target is the one that `tries.scoring` gives it: each step asks the network what scoring asks it.
Sources do not see each other, so neighbours and batches change nothing.

Notation: n sources; k hypotheses (live ones of all sources); V words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.words import split_words
from rescorer.contract.scorer import Shortlists
from rescorer.contract.vocabulary import Vocabulary
from rescorer.tries.hypotheses import Beam, Choice, Draws, Live, first_hypotheses
from rescorer.tries.recurrent import (
    NO_WORD,
    Carried,
    Inputs,
    Recurrent,
    Source,
    State,
    take,
    to_device,
)

# Logits of so many hypotheses and a shortlist of 15,000 words are 15 MB in float32.
HYPOTHESES_AT_ONCE = 256
NO_PLACE = -1


@runtime_checkable
class Attentive(Protocol):
    """A `Recurrent` that weighs the words of its source in each step."""

    def attention(self, carried: Any, inputs: Any, source: Any) -> Tensor:
        """The weights of the step that `step` makes of the same arguments.

        Returns:
            How much each place of the source counts, its words first and then </s>; what stands behind
            the </s> of a shorter source is ignored, *Shape:* (k, max_len + 1).
        """


@dataclass(frozen=True)
class GenerationConfig:
    """What is wanted.

    Attributes:
        n: targets of each source.
        beam: hypotheses of a source that are kept at each length; n, if that is more.
        sample: draw targets instead of searching for the best ones; then they may repeat.
        temperature: of the draws: below 1 likely words are drawn more often than the network says.
        length_penalty: alpha of the score by which the search chooses, log p / (words with </s>)^alpha;
            0 chooses by log p, 1 by its mean a word.
        max_words: of a target, those of its beginning that are given not counted.
        max_ratio: target words for each source word, </s> counted as one; 0 for no such limit.
        unknown_words: whether <unk> may be one of the words.
        seed: of the draws; the same source and seed draw the same.
    """

    n: Annotated[int, AtLeast(1)] = 1
    beam: Annotated[int, AtLeast(1)] = 10
    sample: bool = False
    temperature: Annotated[float, AtLeast(0)] = 1.0
    length_penalty: Annotated[float, AtLeast(0)] = 0.0
    max_words: Annotated[int, AtLeast(1)] = 100
    max_ratio: Annotated[float, AtLeast(0)] = 3.0
    unknown_words: bool = True
    seed: Annotated[int, AtLeast(0)] = 1

    def __post_init__(self) -> None:
        check_limits(self)
        if self.sample and not self.temperature:
            raise ConfigError(
                "temperature is 0: a draw needs more; search for the best ones instead"
            )

    @property
    def width(self) -> int:
        """Hypotheses of a source at each length."""
        return self.n if self.sample else max(self.n, self.beam)


class Generated(NamedTuple):
    """One target.

    Attributes:
        words: without </s>; <unk> for a word outside the shortlist that was not given.
        log_prob: natural log p(words and </s> | source).
        score: log_prob with the length penalty; log_prob itself of a draw.
        places: the most attended word of the source, from 0, for each word; -1 without an attention.
    """

    words: tuple[bytes, ...]
    log_prob: float
    score: float
    places: tuple[int, ...]


class TargetGenerator(Protocol):
    """What generates targets of sources."""

    @property
    def shortlists(self) -> Shortlists:
        """The words of the network; without a source shortlist no source is read."""

    def generate(
        self,
        sources: Sequence[bytes],
        config: GenerationConfig,
        beginnings: Sequence[bytes] | None = None,
    ) -> Iterator[list[Generated]]:
        """See `Generator.generate`."""


class Generator(Generic[Source, State, Carried, Inputs]):
    """Targets of sources, from a recurrent network.

    Args:
        network: on the device where it shall compute.
        shortlists: ids of the words; without a source shortlist no source is read.
    """

    def __init__(
        self, network: Recurrent[Source, State, Carried, Inputs], shortlists: Shortlists
    ) -> None:
        self.network = network
        self.shortlists = shortlists

    def generate(
        self,
        sources: Sequence[bytes],
        config: GenerationConfig,
        beginnings: Sequence[bytes] | None = None,
    ) -> Iterator[list[Generated]]:
        """Yield the targets of each source, the best ones first (draws in their order).

        A search finds fewer than n targets of a source where there are fewer.

        Args:
            sources: words separated by blanks; of a network without a source only their number counts.
            config: what is wanted.
            beginnings: the first words of the targets of each source, which count in log_prob.
        """
        given = [b""] * len(sources) if beginnings is None else beginnings
        if len(given) != len(sources):
            raise ValueError(f"{len(sources)} sources, {len(given)} beginnings")
        step = max(1, HYPOTHESES_AT_ONCE // config.width)
        for first in range(0, len(sources), step):
            part = slice(first, first + step)
            yield from self._batch(sources[part], given[part], config)

    @torch.inference_mode()
    def _batch(
        self, sources: Sequence[bytes], beginnings: Sequence[bytes], config: GenerationConfig
    ) -> list[list[Generated]]:
        target = self.shortlists.target
        begun = [split_words(words) for words in beginnings]
        given = [target.encode_words(words) for words in begun]
        read = _Read(self.network, self.shortlists.source, sources)
        longest = read.longest(config) + np.array([len(words) for words in given])
        choice = _choice(config, sources, beginnings, longest)
        live = first_hypotheses(len(sources), config.n if config.sample else 1)
        state = read.start(live.sources)
        while len(live.sources):
            log_probs, state, places = read.advance(live, state)
            _forbid(log_probs, live, given, longest, config)
            live, parents = choice.go_on(live, log_probs, places)
            state = take(state, to_device(parents, log_probs))
        return [
            [
                Generated(
                    (*first, *(target.words[word] for word in one.words[len(first) :])),
                    one.log_prob,
                    one.score,
                    tuple(one.places),
                )
                for one in of_source
            ]
            for first, of_source in zip(begun, choice.ended(), strict=True)
        ]


def _choice(
    config: GenerationConfig,
    sources: Sequence[bytes],
    beginnings: Sequence[bytes],
    longest: NDArray[np.int64],
) -> Choice:
    if not config.sample:
        return Beam(config.n, config.width, config.length_penalty, longest)
    keys = [b"\n".join(pair) for pair in zip(sources, beginnings, strict=True)]
    return Draws(keys, config.n, int(longest.max()), config.temperature, config.seed)


def _forbid(
    log_probs: Tensor,
    live: Live,
    given: Sequence[NDArray[np.int32]],
    longest: NDArray[np.int64],
    config: GenerationConfig,
) -> None:
    """-inf for every word but the given one, but </s> at the end, and for <unk> where it is not wanted."""
    length = live.length
    if not config.unknown_words:
        free = np.array([length >= len(given[source]) for source in live.sources])
        log_probs[to_device(np.flatnonzero(free), log_probs), Vocabulary.unknown_id] = -torch.inf
    for row, source in enumerate(live.sources):
        is_given = length < len(given[source])
        if is_given or length >= longest[source]:
            word = int(given[source][length]) if is_given else Vocabulary.end_id
            value = log_probs[row, word].clone()
            log_probs[row] = -torch.inf
            log_probs[row, word] = value


class _Read(Generic[Source, State, Carried, Inputs]):
    """Sources that a network has read.

    Args:
        network: reads them.
        shortlist: of their words; None for a network without a source.
        sources: words separated by blanks.
    """

    def __init__(
        self,
        network: Recurrent[Source, State, Carried, Inputs],
        shortlist: Vocabulary | None,
        sources: Sequence[bytes],
    ) -> None:
        self.network = network
        if shortlist is None:
            ids, self.lens = np.full((1, 1), Vocabulary.end_id, np.int32), np.zeros(1, np.int64)
            self._rows = np.zeros(len(sources), np.int64)
        else:
            ids, self.lens = shortlist.encode_phrases(sources)
            self._rows = np.arange(len(sources))
        self._has_source = shortlist is not None
        self._source = network.read(ids, self.lens)

    def longest(self, config: GenerationConfig) -> NDArray[np.int64]:
        """Most words of the targets of each source, *Shape:* (n,)."""
        result = np.full(len(self._rows), config.max_words)
        if self._has_source and config.max_ratio:
            by_source = np.ceil(config.max_ratio * (self.lens + 1)).astype(np.int64)
            result = np.minimum(result, by_source)
        return result

    def start(self, sources: NDArray[np.int64]) -> State:
        """The states before the first step of some sources."""
        state = self.network.start(self._source)
        return take(state, to_device(self._rows[sources], self.network.output.weight))

    def advance(self, live: Live, state: State) -> tuple[Tensor, State, NDArray[np.int64]]:
        """One step of each hypothesis.

        Returns:
            Natural log p of all words, *Shape:* (k, V), the next states, and the most attended words,
            *Shape:* (k,).
        """
        network, source = self.network, self._source
        rows = to_device(self._rows[live.sources], network.output.weight)
        before = live.words[:, -1] if live.length else np.full(len(live.sources), NO_WORD)
        inputs = network.inputs(to_device(before, rows), source, rows)
        carried = network.carry(state)
        state = network.step(carried, inputs, source)
        logits = network.output(network.factors(state, inputs, source))
        log_probs = torch.log_softmax(logits, dim=1, dtype=torch.float64)
        places = np.full(len(live.sources), NO_PLACE)
        if isinstance(network, Attentive):
            places = self._attended(network.attention(carried, inputs, source), live.sources)
        return log_probs, state, places

    def _attended(self, weights: Tensor, sources: NDArray[np.int64]) -> NDArray[np.int64]:
        """The word of the source with the highest weight, </s> left out, *Shape:* (k,)."""
        lens = self.lens[self._rows[sources]]
        inside = np.arange(weights.shape[1]) < lens[:, None]
        places = np.where(inside, weights.cpu().numpy(), -np.inf).argmax(axis=1)
        return np.where(lens > 0, places, NO_PLACE)
