"""A back-off n-gram model of words, from an ARPA file or KenLM's binary format."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import InputError, extra_named
from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.language_model.kenlm_binary import UnreadTypeError
from moses_bridge.builtin.language_model.lm_index import LmIndex
from moses_bridge.formats.words import split_words
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import WordLogProbs

MARKERS = frozenset((b"<s>", b"</s>", b"<unk>"))


@dataclass(frozen=True)
class NgramModel:
    """An n-gram model; a `WordScorer`.

    An unknown word counts with the probability of <unk>, 10^-100 if an ARPA file has none.

    Attributes:
        order: words of its longest n-grams.
        is_known: whether it has a probability for a word of text.
        sentence_log_probs: natural log p of each word of a sentence and of </s>.
    """

    order: int
    is_known: Callable[[bytes], bool]
    sentence_log_probs: Callable[[Sequence[bytes]], Iterable[float]]

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        """See `contract.WordScorer`; the sources are ignored."""
        values, lens = [np.zeros(0)], []
        for target in batch.targets:
            words = [word if self.is_known(word) else b"<unk>" for word in split_words(target)]
            values.append(np.array([*self.sentence_log_probs(words)]))
            lens.append(len(words) + 1)
        pairs: NDArray[np.int64] = np.repeat(np.arange(len(lens)), np.array(lens, np.int64))
        return WordLogProbs(np.concatenate(values), pairs)


def read_ngram_model(path: StrPath) -> NgramModel:
    """Read an ARPA file, compressed by suffix, or a binary file of KenLM.

    KenLM itself reads what `LmIndex` does not: probing files with rest costs, and files without words.

    Raises:
        InputError: the file is malformed.
        MissingExtraError: it is one for KenLM itself, which is not installed.
    """
    try:
        index = LmIndex.read(path)
    except UnreadTypeError:
        return _of_kenlm(path)
    known = frozenset(index.vocabulary) - MARKERS

    def log_probs(words: Sequence[bytes]) -> Iterable[float]:
        values, _ = index.score_sentence(words)
        return (value * math.log(10) for value in values)

    return NgramModel(index.order, known.__contains__, log_probs)


def _of_kenlm(path: StrPath) -> NgramModel:
    with extra_named("kenlm"):
        import kenlm
    try:
        model = kenlm.Model(os.fspath(path))
    except OSError as error:
        found = f"a file that kenlm cannot read ({str(error)[:200]})"
        raise InputError(path, None, found, "a binary file of this kenlm's version") from error

    def is_known(word: bytes) -> bool:
        return word not in MARKERS and word in model

    def log_probs(words: Sequence[bytes]) -> Iterable[float]:
        return (value[0] * math.log(10) for value in model.full_scores(b" ".join(words)))

    return NgramModel(int(model.order), is_known, log_probs)
