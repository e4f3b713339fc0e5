"""The words of both languages as one vocabulary: what is spelt alike is one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rescorer.contract.choices import Side
from rescorer.contract.vocabulary import Shortlists, Vocabulary

# Word ids in the joint vocabulary, *Shape:* (n, max_len or more), and words of each phrase, *Shape:* (n,).
Encoded = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class JointVocabulary:
    """The source words by their own ids, then the target words that are none of them.

    Attributes:
        source: the source words.
        target: the target words.
        target_ids: the joint id of each target word, *Shape:* (n_target_words,).
    """

    source: Vocabulary
    target: Vocabulary
    target_ids: NDArray[np.int64]

    @classmethod
    def of(cls, shortlists: Shortlists) -> JointVocabulary:
        """The words of a network's shortlists."""
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
