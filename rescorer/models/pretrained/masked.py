"""Masked language models of transformers, by pseudo-log-likelihood (Salazar et al. 2020, section 2).

The value of a text is the sum over its subwords of natural log p(subword | all others), each masked in a copy
of the text. It is no log-probability of the text, and there is no end of sentence. The copies of a text are
computed together, apart from those of others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.scorer import ScoredTokens, SubwordScorer
from rescorer.models.pretrained.hugging_face import load_network, longest_sequence
from rescorer.models.pretrained.prefix_values import Ids
from rescorer.models.pretrained.settings import PretrainedSettings
from rescorer.models.pretrained.subwords import PlainText, load_tokenizer, too_long

# The model computes those of all places of a text: 256 MB.
LOGITS_AT_ONCE = 1 << 26


class MaskedScorer(SubwordScorer):
    """Pseudo-log-likelihoods of targets."""

    predicts_end = False
    note = "pseudo-log-likelihood: natural log p of each of the target's subwords given all others"

    def __init__(self, model: Any, tokenizer: Any, text: PlainText) -> None:
        self._model, self._tokenizer, self._text = model, tokenizer, text
        # Of RoBERTa's positions two are for <pad>; its tokenizer knows.
        self._limit = min(longest_sequence(model.config), tokenizer.model_max_length)

    def subword_log_probs(self, batch: Batch) -> list[ScoredTokens]:
        """See `contract.SubwordScorer`."""
        phrases, which = distinct(batch.targets)
        read = self._tokenizer(
            [self._text.of(phrase) for phrase in phrases],
            split_special_tokens=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        lens = [len(ids) for ids in read["input_ids"]]
        for row, number in enumerate(which):
            if lens[number] > self._limit:
                raise too_long(row, batch, "target", f"{lens[number]} subwords", self._limit)
        columns = (read["input_ids"], read["special_tokens_mask"])
        found = [self._scored(ids, mask) for ids, mask in zip(*columns, strict=True)]
        return [found[number] for number in which]

    @torch.inference_mode()
    def _scored(self, ids: Ids, special: list[int]) -> ScoredTokens:
        """The subwords of a text without special ones, each masked in a copy."""
        text, places = torch.tensor(ids), torch.tensor(special).eq(0).nonzero()[:, 0]
        values = [np.empty(0)]
        size = max(1, LOGITS_AT_ONCE // (len(ids) * self._model.config.vocab_size))
        for masked in torch.split(places, size) if len(places) else ():
            rows = torch.arange(len(masked))
            copies = text.repeat(len(masked), 1)
            copies[rows, masked] = self._tokenizer.mask_token_id
            logits = self._model(input_ids=copies.to(self._model.device)).logits.cpu()
            log_probs = logits[rows, masked].float().log_softmax(dim=1)
            values.append(log_probs[rows, text[masked]].double().numpy())
        names = self._tokenizer.convert_ids_to_tokens(text[places].tolist())
        return ScoredTokens([name.encode() for name in names], np.concatenate(values))


def load_masked(directory: Path, settings: PretrainedSettings, compute: Compute) -> MaskedScorer:
    """Load a masked language model with its tokenizer; for errors see `load_hugging_face`."""
    model = load_network(directory, compute, AutoModelForMaskedLM, "a masked language model")
    tokenizer = load_tokenizer(directory)
    if tokenizer.mask_token_id is None:
        raise InputError(directory, None, "a tokenizer without a mask", "one with a mask_token")
    text = PlainText(settings.target_language, settings.detokenize, settings.case)
    return MaskedScorer(model, tokenizer, text)
