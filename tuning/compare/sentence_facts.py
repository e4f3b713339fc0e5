"""Facts on the sentences of a test text: their documents, and near copies in a training text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError
from moses_bridge.base.near_copies import FAR, near_shares, nearest_similarities
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import count_lines
from tuning.compare.system_outputs import FEWEST_UNITS, read_documents


@dataclass(frozen=True)
class TextContext:
    """Files with facts on a test text, all tokenised as it is.

    Attributes:
        training: source sides of the training texts; what they have in common with the test text is stated,
            and the systems are also compared on the sentences far from them.
        training_targets: target sides of the training texts; the accuracy of words is counted by their
            frequency in them, against the first reference.
        groups: the name of each test sentence's document, one a line; documents instead of sentences are then
            what another text would have others of.
    """

    training: Sequence[Path] = ()
    training_targets: Sequence[Path] = ()
    groups: Path | None = None


@dataclass(frozen=True)
class SentenceFacts:
    """Facts on the sentences of a test text.

    Attributes:
        documents: number of each sentence's document, *Shape:* (n_sentences,); None if they are not known.
        near_copies: share of sentences that are near copies of training sentences, by the similarity; empty if
            the training text is not known.
        far: which sentences have no near copy in the training text, *Shape:* (n_sentences,); None if it is not
            known, or if they are too few to be compared.
        n_far: their number.
    """

    documents: NDArray[np.int64] | None = None
    near_copies: dict[str, float] | None = None
    far: NDArray[np.bool_] | None = None
    n_far: int = 0

    @property
    def n_documents(self) -> int:
        """Number of documents; 0 if they are not known."""
        return 0 if self.documents is None else len(np.unique(self.documents))

    @property
    def far_documents(self) -> NDArray[np.int64] | None:
        """Number of the document of each sentence that is far from the training text."""
        return None if self.documents is None else self.documents[self.far]


def read_sentence_facts(
    source: Path, training: Sequence[Path] = (), groups: Path | None = None, jobs: int = 1
) -> SentenceFacts:
    """Read the facts on the sentences of a test text.

    All texts are source sides, tokenised in the same way; `groups` has the name of each sentence's document,
    one a line; `jobs` is the number of threads.

    Raises:
        InputError: a training text has no lines, or groups has other lines than the text, an empty one or one
            document alone.
    """
    documents = None if groups is None else read_documents(groups, source)
    if not training:
        return SentenceFacts(documents)
    for path in training:
        if not count_lines(path):
            raise InputError(path, None, "no lines", "the source side of a training text")
    trained = list(chain.from_iterable(read_text_lines(path) for path in training))
    similarities = nearest_similarities(list(read_text_lines(source)), trained, jobs=jobs)
    far = similarities < FAR
    units = far if documents is None else np.unique(documents[far])
    is_enough = min(int(far.sum()), len(units)) >= FEWEST_UNITS
    return SentenceFacts(
        documents, near_shares(similarities), far if is_enough else None, int(far.sum())
    )
