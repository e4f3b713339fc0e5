"""Log-probabilities of whole sentences under a CSLM, each distinct n-gram computed once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rescorer.scorers.cslm.network import Cslm
from rescorer.softmax.log_sum_exp import log_sum_exp
from rescorer.tries.scoring import Precision
from rescorer.vocabulary import Vocabulary
from rescorer.windows.ngrams import distinct_rows, sentence_ngrams

ROWS_AT_ONCE = 8192
N_FREQUENT = 1000
STEP = 32


class _Denominator(NamedTuple):
    """Output rows whose exponentials are summed: weight (n, d2), bias (n,)."""

    weight: Tensor
    bias: Tensor


def _all_words(model: Cslm, product_type: torch.dtype) -> _Denominator:
    output = model.output
    return _Denominator(output.weight.detach().to(product_type), output.bias.detach())


def _some_words(words: _Denominator) -> _Denominator:
    """The frequent words and every STEP-th of the others, which stand for STEP words each."""
    weight, bias = words
    sampled = bias[N_FREQUENT::STEP]
    if len(sampled) == 0:
        return words
    share = (len(bias) - N_FREQUENT) / len(sampled)
    return _Denominator(
        torch.cat([weight[:N_FREQUENT], weight[N_FREQUENT::STEP]]),
        torch.cat([bias[:N_FREQUENT], sampled + math.log(share)]),
    )


class CslmScorer:
    """Natural log p(sentence), </s> included, words outside the shortlist as <unk>.

    Args:
        model: the network.
        vocabulary: its shortlist.
        precision: of the products in the softmax's denominator.
    """

    def __init__(
        self, model: Cslm, vocabulary: Vocabulary, precision: Precision = "float32"
    ) -> None:
        self.model = model.eval()
        product_type = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self._all_words = _all_words(model, product_type)
        self._some_words = _some_words(self._all_words)
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
        log_probs = self.ngram_log_probs(distinct)[inverse]
        sums = np.bincount(sentences, weights=log_probs, minlength=len(targets))
        return sums.astype(np.float64)

    def ngram_log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float64]:
        """Natural log p(last word | words before it).

        Args:
            ngrams: word ids, oldest first, *Shape:* (n, context_words + 1).

        Returns:
            *Shape:* (n,).
        """
        return self._log_probs(ngrams, self._all_words)

    def ngram_estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float64]:
        """As `ngram_log_probs`, with a denominator that is estimated from some of the words.

        All frequent words and every STEP-th of the others, STEP times, for words are numbered by
        falling frequency. With 15,000 words, over contexts of a search, the error's standard deviation
        was 0.05.
        """
        return self._log_probs(ngrams, self._some_words)

    @torch.inference_mode()
    def _log_probs(
        self, ngrams: NDArray[np.int32], denominator: _Denominator
    ) -> NDArray[np.float64]:
        output = self.model.output
        contexts, context_of = distinct_rows(ngrams[:, :-1])
        hidden = self._hidden(torch.from_numpy(contexts).long())
        log_sums = log_sum_exp(hidden, *denominator)
        rows, words = torch.from_numpy(context_of), torch.from_numpy(ngrams[:, -1].copy()).long()
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
