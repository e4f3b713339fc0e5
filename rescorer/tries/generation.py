"""Targets preferred or drawn by a recurrent network: beam search and sampling, the same for every network.

The score of a target is that of `tries.scoring`: each step uses the network as scoring does. Sources do not
see each other, so neighbours and batches change nothing.

Notation: n sources; k hypotheses (live ones of all sources); V words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.target_generation import Generated, GenerationConfig
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.tries.hypotheses import Beam, Draws, Live, first_hypotheses
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
from rescorer.tries.scoring import TrieScorer

# Logits of this many hypotheses and a shortlist of 15,000 words are 15 MB in float32.
HYPOTHESES_AT_ONCE = 256
NO_PLACE = -1


@runtime_checkable
class Attentive(Protocol):
    """A `Recurrent` that weighs the words of its source in each step."""

    def attention(self, carried: Any, inputs: Any, source: Any) -> Tensor:
        """The weights of the step that `step` makes of the same arguments.

        Returns:
            The weight of each place of the source, its words first and then </s>; weights after the </s> of a
                shorter source are ignored, *Shape:* (k, max_len + 1).
        """


class Generator(Generic[Source, State, Carried, Inputs]):
    """Targets of sources, from a recurrent network; without a source shortlist no source is read."""

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

        A search finds fewer than n targets of a source where there are fewer. Of a network without a source
        only the number of sources counts. The beginnings are the first words of the targets of each source,
        which count in log_prob.
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
) -> Beam | Draws:
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
    """-inf for all but the given word, for all but </s> at the end, and for <unk> if it is not wanted."""
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
    """Sources read by a network; `shortlist` is None for a network without a source."""

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
        """One step of each hypothesis: natural log p of all words, *Shape:* (k, V), the next states, and the
        most attended words, (k,).
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


def new_generator(
    model: TrainedModel[Any],
    compute: Compute,
    new_scorer: Callable[[TrainedModel[Any], Compute], TrieScorer[Any, Any, Any, Any]],
) -> Generator[Any, Any, Any, Any]:
    """The generator of a model, with the network of its scorer; see `tries.scoring.generator_with`."""
    return Generator(new_scorer(model, compute).network, model.shortlists)


# Annotations of 64 sentences of 100 words and 1,000 units are 26 MB in float32.
PAIRS_AT_ONCE = 64


class AttentionReader:
    """Attention matrices of sentence pairs, by a `Recurrent` that is `Attentive`, on its device."""

    def __init__(self, network: Any, source: Vocabulary, target: Vocabulary) -> None:
        self.network, self._source, self._target = network, source, target

    def matrices(self, pairs: Batch) -> Iterator[NDArray[np.float32]]:
        """Yield the weights of each pair, independent of its neighbours, *Shape:* (I + 1, J + 1).

        Rows are the words of the target and </s>, columns those of the source and </s>; a row sums to 1.
        Words outside a shortlist are <unk>.
        """
        for part in pairs.parts(PAIRS_AT_ONCE):
            yield from self._block(part)

    @torch.inference_mode()
    def _block(self, pairs: Batch) -> list[NDArray[np.float32]]:
        network = self.network
        ids, source_lens = self._source.encode_phrases(pairs.sources)
        words, lens = self._target.encode_phrases(pairs.targets)
        source = network.read(ids, source_lens)
        # Long targets first, so that the ended ones are the last rows of a step.
        order = np.argsort(-lens, kind="stable")
        places = to_device(order, network.output.weight)
        state = take(network.start(source), places)
        result = np.zeros((len(lens), words.shape[1], ids.shape[1]), np.float32)
        for number in range(words.shape[1]):
            rows = order[: np.count_nonzero(lens >= number)]
            before = words[rows, number - 1] if number else np.full(len(rows), NO_WORD)
            state = take(state, torch.arange(len(rows), device=places.device))
            inputs = network.inputs(to_device(before, places), source, places[: len(rows)])
            carried = network.carry(state)
            result[rows, number] = network.attention(carried, inputs, source).cpu().numpy()
            state = network.step(carried, inputs, source)
        return [
            matrix[: n_target + 1, : n_source + 1]
            for matrix, n_target, n_source in zip(result, lens, source_lens, strict=True)
        ]
