"""Log-probabilities of whole sentences under a CSLM, each distinct n-gram computed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.log_sum_exp import log_sum_exp
from rescorer.models.cslm import Cslm
from rescorer.ngrams import distinct_rows, sentence_ngrams
from rescorer.vocabulary import Vocabulary

ROWS_AT_ONCE = 8192


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
        """Natural log p(last word | words before), *Shape:* (n, context_words + 1) -> (n,)."""
        output = self.model.output
        contexts, context_of = distinct_rows(ngrams[:, :-1])
        hidden = self._hidden(torch.from_numpy(contexts).long())
        log_sums = log_sum_exp(hidden, output.weight, output.bias)
        rows, words = torch.from_numpy(context_of), torch.from_numpy(ngrams[:, -1]).long()
        logits = (hidden[rows] * output.weight[words]).sum(dim=1) + output.bias[words]
        return (logits - log_sums[rows]).double().numpy()

    def _hidden(self, contexts: Tensor) -> Tensor:
        """Second hidden layer, *Shape:* (n, context_words) -> (n, d2)."""
        parts = [
            self._hidden_of(contexts[start : start + ROWS_AT_ONCE])
            for start in range(0, len(contexts), ROWS_AT_ONCE)
        ]
        return torch.cat(parts)

    def _hidden_of(self, contexts: Tensor) -> Tensor:
        first = self.model.first.bias + sum(
            table[contexts[:, position]] for position, table in enumerate(self._tables)
        )
        return torch.relu(self.model.second(torch.relu(first)))


@torch.inference_mode()
def _first_layer_tables(model: Cslm) -> list[Tensor]:
    """The first layer's share of each word at each context position, *Shape:* k x (V + 1, d1).

    Devlin et al. (2014), section 2.4: the layer is a sum over positions, so a look-up replaces it.
    """
    blocks = torch.split(model.first.weight, model.config.embedding_width, dim=1)
    return [model.embedding.weight @ block.T for block in blocks]
