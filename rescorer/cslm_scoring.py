"""Log-probabilities of whole sentences under a CSLM, each distinct n-gram computed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.models.cslm import Cslm
from rescorer.ngrams import distinct_rows, sentence_ngrams
from rescorer.vocabulary import Vocabulary

ROWS_AT_ONCE = 1024


class CslmScorer:
    """Natural log p(sentence), </s> included, words outside the shortlist as <unk>.

    Args:
        model: the network.
        vocabulary: its shortlist.
    """

    def __init__(self, model: Cslm, vocabulary: Vocabulary) -> None:
        self.model = model.eval()
        self.vocabulary = vocabulary
        self._tables = _first_layer_tables(model)

    def log_probs(self, targets: Sequence[bytes]) -> NDArray[np.float64]:
        """Natural log p of each sentence, *Shape:* (n_targets,)."""
        if not targets:
            return np.zeros(0)
        ids, lens = self.vocabulary.encode_phrases(targets)
        model = self.model
        ngrams, sentences = sentence_ngrams(
            ids, lens, model.config.context_words, model.start_id, self.vocabulary.end_id
        )
        distinct, inverse = distinct_rows(ngrams)
        log_probs = self._ngram_log_probs(distinct)[inverse]
        sums = np.bincount(sentences, weights=log_probs, minlength=len(targets))
        return sums.astype(np.float64)

    @torch.inference_mode()
    def _ngram_log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float64]:
        contexts, context_of = distinct_rows(ngrams[:, :-1])
        order = np.argsort(context_of, kind="stable")
        bounds = np.searchsorted(context_of[order], np.arange(0, len(contexts), ROWS_AT_ONCE))
        log_probs = np.empty(len(ngrams))
        for start, first, last in zip(
            range(0, len(contexts), ROWS_AT_ONCE), bounds, [*bounds[1:], len(ngrams)], strict=True
        ):
            rows = order[first:last]
            logits = self._logits(torch.from_numpy(contexts[start : start + ROWS_AT_ONCE]).long())
            words = torch.from_numpy(ngrams[rows, -1]).long()
            within = torch.from_numpy(context_of[rows] - start)
            values = logits[within, words] - torch.logsumexp(logits, dim=1)[within]
            log_probs[rows] = values.double().numpy()
        return log_probs

    def _logits(self, contexts: Tensor) -> Tensor:
        """Output layer before the softmax, *Shape:* (n, V)."""
        first = self.model.first.bias + sum(
            table[contexts[:, position]] for position, table in enumerate(self._tables)
        )
        second: Tensor = torch.relu(self.model.second(torch.relu(first)))
        logits: Tensor = self.model.output(second)
        return logits


@torch.inference_mode()
def _first_layer_tables(model: Cslm) -> list[Tensor]:
    """The first layer's share of each word at each context position, *Shape:* k x (V + 1, d1).

    Devlin et al. (2014), section 2.4: the layer is a sum over positions, so a look-up replaces it.
    """
    blocks = torch.split(model.first.weight, model.config.embedding_width, dim=1)
    return [model.embedding.weight @ block.T for block in blocks]
