"""What every scorer of phrase pairs and sentence pairs gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Scorer(Protocol):
    """A model of target text given source text."""

    def log_probs(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> NDArray[np.float64]:
        """Natural log of p(target | source), </s> included; words outside the shortlist are <unk>.

        A pair's value does not depend on which other pairs are asked for with it (to 1e-5).

        Args:
            sources: words separated by blanks; equal neighbours are computed once.
            targets: as many as sources.

        Returns:
            *Shape:* (n_pairs,).
        """

    def n_unknown(self, targets: Sequence[bytes]) -> NDArray[np.int64]:
        """Words of each target outside the model's shortlist, *Shape:* (n_targets,)."""


class LanguageModel(Protocol):
    """A model of target text alone."""

    def log_probs(self, targets: Sequence[bytes]) -> NDArray[np.float64]:
        """Natural log of p(target), </s> included, *Shape:* (n_targets,)."""


class SourceBlindScorer:
    """A language model where a scorer of pairs is wanted: the sources are ignored.

    Args:
        language_model: scores the targets.
    """

    def __init__(self, language_model: LanguageModel) -> None:
        self.language_model = language_model

    def log_probs(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> NDArray[np.float64]:
        """Natural log of p(target), *Shape:* (n_pairs,)."""
        return self.language_model.log_probs(targets)

    def n_unknown(self, targets: Sequence[bytes]) -> NDArray[np.int64]:
        """Not known of a language model.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("unknown words are counted by a translation model")
