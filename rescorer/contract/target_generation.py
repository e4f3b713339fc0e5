"""Target generation: settings, result, and the generator protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError
from rescorer.contract.vocabulary import Shortlists

# Logarithms divided by less would not fit float32.
LOWEST_TEMPERATURE = 1e-30


@dataclass(frozen=True)
class GenerationConfig:
    """Settings of a generation.

    Attributes:
        n: targets of each source.
        beam: hypotheses of a source kept at each length; n, if that is more.
        sample: draw targets instead of searching for the best ones; then they may repeat.
        temperature: of the draws: below 1 likely words are drawn more often than the network says.
        length_penalty: alpha of the score by which the search chooses, log p / (words with </s>)^alpha;
            0 chooses by log p, 1 by its mean a word.
        max_words: of a target, not counting a given beginning.
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
        if self.sample and self.temperature < LOWEST_TEMPERATURE:
            raise ConfigError(
                f"temperature is {self.temperature}; the smallest value is {LOWEST_TEMPERATURE}, at which the "
                "likeliest word is always drawn"
            )

    @property
    def width(self) -> int:
        """Hypotheses of a source at each length."""
        return self.n if self.sample else max(self.n, self.beam)


class Generated(NamedTuple):
    """One target.

    Attributes:
        words: without </s>; <unk> for a word outside the shortlist, unless it was given.
        log_prob: natural log p(words and </s> | source).
        score: log_prob with the length penalty; log_prob itself of a draw.
        places: the most attended word of the source, from 0, for each word; -1 without an attention.
    """

    words: tuple[bytes, ...]
    log_prob: float
    score: float
    places: tuple[int, ...]


class TargetGenerator(Protocol):
    """Generates targets of sources."""

    @property
    def shortlists(self) -> Shortlists:
        """The network's words; without a source shortlist no source is read."""

    def generate(
        self,
        sources: Sequence[bytes],
        config: GenerationConfig,
        beginnings: Sequence[bytes] | None = None,
    ) -> Iterator[list[Generated]]:
        """See `tries.generation.Generator.generate`."""
