"""A trained network's vectors of words and phrases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from rescorer.contract.architectures import ARCHITECTURES, Summaries, load
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import SPECIALS, Vocabulary
from rescorer.models.model_description import DESCRIPTION
from rescorer.models.model_directory import fingerprint, load_model
from rescorer.models.reading import OTHER_SIDE


@dataclass(frozen=True)
class Learned:
    """A model directory opened for its vectors, with the fingerprint of its files."""

    directory: Path
    model: TrainedModel[Any]
    fingerprint: str

    @classmethod
    def load(cls, directory: Path, trust_code: bool = False) -> Learned:
        """Read a model directory; InputError if the directory is not a whole model."""
        return cls(directory, load_model(directory, trust_code), fingerprint(directory))

    def word_vectors(self, side: Side) -> tuple[list[bytes], NDArray[np.float32]]:
        """The words of a side's shortlist, the most frequent first, and their embeddings, (n_words, r).

        Without </s> and <unk>.

        Raises:
            InputError: the network has no vectors of words, or none of this side.
        """
        embeddings = load(self.model.architecture).embeddings
        of_network = {} if embeddings is None else embeddings(self.model)
        vectors = {self._turned(own): of_side for own, of_side in of_network.items()}
        if side not in vectors:
            others = " and ".join(vectors)
            self._refuse(
                f"which has no vectors of {side} words",
                f"--side {others}" if others else _architectures("embeddings"),
            )
        n_specials = len(SPECIALS)
        words = list(self._shortlist(self._turned(side)).words[n_specials:])
        return words, np.ascontiguousarray(vectors[side][n_specials:], np.float32)

    def summaries(self, compute: Compute) -> Summaries:
        """A function making vectors of phrases in the language read by the network.

        Raises:
            InputError: the network makes no vector of a phrase.
        """
        summaries = load(self.model.architecture).summaries
        if summaries is None:
            self._refuse("which makes no vector of a phrase", _architectures("summaries"))
        made: Summaries = summaries(self.model, compute)
        return made

    @property
    def reads(self) -> Vocabulary:
        """The words of the phrases taken by `summaries`."""
        return self._shortlist("source")

    def _turned(self, side: Side) -> Side:
        """The network's side of a side of the table, and the other way round."""
        return OTHER_SIDE[side] if self.model.reverses_sides else side

    def _shortlist(self, side: Side) -> Vocabulary:
        shortlists = self.model.shortlists
        vocabulary = shortlists.target if side == "target" else shortlists.source
        if vocabulary is None:
            self._refuse("which knows no source words", "a network that reads a source")
        return vocabulary

    def _refuse(self, found: str, expected: str) -> NoReturn:
        fault = f"the architecture {self.model.architecture!r}, {found}"
        raise InputError(self.directory / DESCRIPTION, None, fault, expected)


def _architectures(part: str) -> str:
    names = [name for name in ARCHITECTURES if getattr(load(name), part) is not None]
    return f"a model of {' or '.join(repr(name) for name in names)}"
