"""A CSLM as the scorer of n-grams that the search asks: `moses_bridge.ngram_scorer`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from moses_bridge.errors import InputError
from moses_bridge.ngram_scorer import serve_ngrams
from rescorer.model_directory import load_model
from rescorer.scorers.cslm.network import Cslm
from rescorer.tries.scoring import Precision
from rescorer.windows.scoring import CslmScorer


class CslmNgramScorer:
    """Natural log p(word | previous words) under a CSLM; words outside the shortlist are <unk>.

    Args:
        scorer: the CSLM.
    """

    def __init__(self, scorer: CslmScorer) -> None:
        self._scorer = scorer
        self.order = scorer.model.config.context_words + 1
        self.start_id = scorer.model.start_id
        self.end_id = scorer.vocabulary.end_id

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        """See `NgramScorer`."""
        return self._scorer.vocabulary.encode_words(words)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self._scorer.ngram_log_probs(ngrams).astype(np.float32)

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        """See `NgramScorer`."""
        return self._scorer.ngram_estimates(ngrams).astype(np.float32)


def serve(directory: Path, precision: Precision, n_threads: int) -> None:
    """Answer requests on standard input until it ends.

    Args:
        directory: a CSLM that `rescorer train --arch cslm` wrote.
        precision: of the products in the softmax's denominator.
        n_threads: of the products.

    Raises:
        InputError: the directory is not a whole CSLM.
    """
    torch.set_num_threads(n_threads)
    model = load_model(directory)
    if not isinstance(model.network, Cslm):
        raise InputError(directory, None, "a model of phrase pairs", "a language model (cslm)")
    scorer = CslmScorer(model.network, model.target_vocabulary, precision)
    serve_ngrams(CslmNgramScorer(scorer), sys.stdin.buffer, sys.stdout.buffer)
