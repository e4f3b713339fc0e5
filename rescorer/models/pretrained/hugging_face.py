"""Models of Hugging Face's transformers: encoder-decoder models, language models and masked ones.

A log-probability is that of all subwords of a target and of its end of sentence. Language codes and
begins of sentence, which a model is given, are not scored.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    DynamicCache,
    EncoderDecoderCache,
)

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.scorer import ScoredTokens, SubwordScorer
from rescorer.models.pretrained.prefix_values import (
    LENGTH_STEP,
    Head,
    Ids,
    Pairs,
    Rows,
    padded_length,
    prefix_values,
)
from rescorer.models.pretrained.settings import PretrainedSettings
from rescorer.models.pretrained.subwords import (
    PlainText,
    Subwords,
    load_refusal,
    load_tokenizer,
    too_long,
)

# Between a model's own forward pass and ours, in natural logarithms; in bfloat16 both are rounded.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.5}
POSITIONS = ("max_position_embeddings", "n_positions")
# Of models whose positions are relative, such as T5: their configs may keep an n_positions without meaning.
RELATIVE = "relative_attention_num_buckets"
# The logit of a subword without probability; compiled loops take no infinity.
NEVER = -1e9


class HuggingFaceScorer(SubwordScorer):
    """A `rescorer.contract.scorer.Scorer`: natural log p(target | source), or p(target).

    A pair's value does not depend on the other pairs; see
    `rescorer.models.pretrained.prefix_values`.
    """

    def __init__(self, network: TransformerNetwork, subwords: Subwords) -> None:
        self.network, self.subwords = network, subwords
        self.note = subwords.note(network.has_source)

    def subword_log_probs(self, batch: Batch) -> list[ScoredTokens]:
        """See `contract.SubwordScorer`."""
        if self.network.has_source:
            phrases, which = distinct(batch.sources)
            sources = self.subwords.sources(phrases)
        else:
            sources, which = [[]], np.zeros(len(batch), np.int64)
        targets = self.subwords.targets(batch.targets)
        lens = [padded_length(len(sources[number])) for number in which]
        self._check_lengths(batch, lens, "source")
        n_before = len(self.network.start) - 1  # the last subword is not read
        self._check_lengths(batch, [n_before + len(target) for target in targets], "target")
        found = prefix_values(self.network, Pairs(sources, which, targets))
        return [
            ScoredTokens(self.subwords.spelt(ids), values)
            for ids, values in zip(targets, found, strict=True)
        ]

    def _check_lengths(self, batch: Batch, lens: Sequence[int], side: Side) -> None:
        limit = longest_sequence(self.network.model.config)
        for row, length in enumerate(lens):
            if length > limit:
                found = f"{length} subwords"
                if side == "source":
                    found += f" (a source is padded to a multiple of {LENGTH_STEP})"
                raise too_long(row, batch, side, found, limit)


class TransformerNetwork:
    """A model in evaluation mode, as used by `prefix_values`.

    The decoder reads the ids in start before the first subword of a target; those in left_out are never
    predicted.
    """

    def __init__(self, model: Any, start: Ids, left_out: Ids) -> None:
        self.model, self.start, self.left_out = model, start, left_out
        self.has_source = bool(model.config.is_encoder_decoder)
        self.decoder = model.get_decoder() if self.has_source else model.base_model
        weight, bias = _output_weights(model)
        bias[left_out] = NEVER
        self.head = Head(weight, bias)

    def begin(self, sources: Tensor, is_word: Tensor) -> Rows:
        """A row for each source, before the first subword of a target.

        Args:
            sources: ids, *Shape:* (n, length); length is 0 for a language model.
            is_word: whether a place has one of its words, *Shape:* (n, length).
        """
        start = torch.tensor([self.start], device=self.head.device).expand(len(sources), -1)
        if not self.has_source:
            return LanguageModelRows(self.decoder, start)
        encoder = self.model.get_encoder()
        memory = encoder(input_ids=sources, attention_mask=is_word.long()).last_hidden_state
        return TranslationRows(self.decoder, start, memory, is_word.long())


class LanguageModelRows:
    """Rows of a decoder reading target text alone, without its output layer.

    Each row reads start first, *Shape:* (n, n_start).
    """

    def __init__(self, decoder: Any, start: Tensor) -> None:
        self._decoder = decoder
        self._cache = DynamicCache(config=decoder.config)
        self._given = {_cache_name(decoder): self._cache}
        self.states = self._read(start)

    def go_on(self, parents: Tensor, words: Tensor, sources: Tensor) -> None:
        """See `prefix_values.Rows`."""
        self._cache.batch_select_indices(parents)
        self.states = self._read(words[:, None])

    def _read(self, words: Tensor) -> Tensor:
        found = self._decoder(input_ids=words, use_cache=True, **self._given)
        last: Tensor = found.last_hidden_state[:, -1]
        return last


class TranslationRows:
    """Rows of a decoder attending to a source, whose keys and values are computed once.

    Args:
        decoder: without its output layer.
        start: read first by each row, *Shape:* (n, n_start).
        memory: the encoder's states of each source, *Shape:* (n, length, d).
        is_word: 1 for its words, *Shape:* (n, length).
    """

    def __init__(self, decoder: Any, start: Tensor, memory: Tensor, is_word: Tensor) -> None:
        self._decoder, self._memory, self._is_word = decoder, memory, is_word
        config = decoder.config
        self._cache = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
        self._given = {_cache_name(decoder): self._cache}
        self.states = self._read(start, memory, is_word)
        layers = self._cache.cross_attention_cache.layers
        self._of_sources = [(layer.keys, layer.values) for layer in layers]

    def go_on(self, parents: Tensor, words: Tensor, sources: Tensor) -> None:
        """See `prefix_values.Rows`."""
        self._cache.self_attention_cache.batch_select_indices(parents)
        layers = self._cache.cross_attention_cache.layers
        for layer, (keys, values) in zip(layers, self._of_sources, strict=True):
            layer.keys, layer.values = (
                _rows_of_sources(keys, sources),
                _rows_of_sources(values, sources),
            )
        # The decoder takes keys and values from the cache, and from the memory its size alone.
        memory = self._memory[:1].expand(len(words), -1, -1)
        self.states = self._read(words[:, None], memory, self._is_word[sources])

    def _read(self, words: Tensor, memory: Tensor, is_word: Tensor) -> Tensor:
        found = self._decoder(
            input_ids=words,
            encoder_hidden_states=memory,
            encoder_attention_mask=is_word,
            use_cache=True,
            **self._given,
        )
        last: Tensor = found.last_hidden_state[:, -1]
        return last


def longest_sequence(config: Any) -> int:
    """The number of positions of a model, very large if they are relative."""
    names = () if hasattr(config, RELATIVE) else POSITIONS
    found = [getattr(config, name, None) for name in names]
    return min((limit for limit in found if isinstance(limit, int)), default=sys.maxsize)


def _cache_name(decoder: Any) -> str:
    """The parameter for keys and values: "cache" from transformers 5.24 on, "past_key_values" before."""
    return "cache" if "cache" in signature(decoder.forward).parameters else "past_key_values"


def _rows_of_sources(of_sources: Tensor, sources: Tensor) -> Tensor:
    """The keys or values of each row's source; not copied if all rows have the first source."""
    if not sources.any():
        return of_sources[:1].expand(len(sources), -1, -1, -1)
    return of_sources.index_select(0, sources)


def load_hugging_face(
    directory: Path, settings: PretrainedSettings, compute: Compute, has_source: bool
) -> HuggingFaceScorer:
    """Load a model and its tokenizer as written by `save_pretrained`.

    It must be an encoder-decoder model if has_source, or else a language model.

    Raises:
        InputError: the directory has no such model, or no tokenizer, or the model computes
            something that cannot be scored prefix by prefix.
        ConfigError: a language code is unknown, or there is no such device.
    """
    if has_source:
        model = load_network(directory, compute, AutoModelForSeq2SeqLM, "an encoder-decoder model")
    else:
        model = load_network(
            directory, compute, AutoModelForCausalLM, "a decoder-only language model"
        )
    subwords = Subwords(directory, settings)
    start = subwords.target_prefix
    if has_source:
        start = [_decoder_start(model, directory), *start]
    # Marian has no <pad>: converted models have a row of zeros for it, which generation leaves out too.
    left_out = subwords.pad if model.config.model_type == "marian" else []
    network = TransformerNetwork(model, start or [subwords.begin], left_out)
    return HuggingFaceScorer(_checked(network, directory), subwords)


def _decoder_start(model: Any, directory: Path) -> int:
    """The id that a decoder reads first, by the settings of the model's searches, or else its own."""
    for name in ("decoder_start_token_id", "bos_token_id"):
        for each in (model.generation_config, model.config):
            begin = getattr(each, name, None)
            if (
                begin is not None and begin < model.config.vocab_size
            ):  # Marian's default is no id of others
                return int(begin)
    expected = "one that says what its decoder reads first"
    fault = "a model without decoder_start_token_id"
    raise InputError(directory / "config.json", None, fault, expected)


def load_network(directory: Path, compute: Compute, make: Any, expected: str) -> Any:
    """A model of a class of transformers, in evaluation mode; for errors see `load_hugging_face`."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    has_source = make is AutoModelForSeq2SeqLM
    try:
        config = AutoConfig.from_pretrained(
            str(directory), local_files_only=True, trust_remote_code=False
        )
        if bool(config.is_encoder_decoder) != has_source:
            hint = "Write hf-lm: for it" if has_source else "Write hf: for it"
            found = f"the model type {config.model_type!r}"
            raise InputError(directory / "config.json", None, found, expected, hint)
        model, told = make.from_pretrained(
            str(directory),
            local_files_only=True,
            trust_remote_code=False,
            dtype=compute.dtype,
            output_loading_info=True,
        )
    except (InputError, MemoryError):
        raise
    except Exception as error:  # each class of models has its own errors
        raise load_refusal(directory, error, "model", expected) from error
    if told["missing_keys"]:
        missing = ", ".join(sorted(told["missing_keys"])[:3])
        raise InputError(
            directory, None, f"no weights of {missing}", "a model with all its weights"
        )
    return model.eval().to(compute.place)


def _output_weights(model: Any) -> tuple[Tensor, Tensor]:
    """Weight and bias of the output layer, *Shape:* (V, d) and (V,)."""
    layer = model.get_output_embeddings()
    weight = layer.weight.detach()
    bias = torch.zeros(len(weight), device=weight.device)
    for part in (getattr(layer, "bias", None), getattr(model, "final_logits_bias", None)):
        bias = bias if part is None else bias + part.detach().reshape(-1).float()
    return weight, bias


def _checked(network: TransformerNetwork, directory: Path) -> TransformerNetwork:
    """The network with its scale, once its values are those of the model's own forward pass.

    They are others if the model changes its logits, or does not cache what its prefixes share.
    """
    known = [one for one in range(len(network.head.bias)) if one not in network.left_out]
    words = [known[(7 * place + 3) % len(known)] for place in range(6)]
    source, targets = words[:4], [[*words[:3], words[5]], [*words[:2], words[4]]]
    plain = np.array([_plain_value(network, source, target) for target in targets])
    pairs = Pairs([source if network.has_source else []], np.zeros(2, np.int64), targets)
    for scale in (1.0, network.head.weight.shape[1] ** -0.5):  # T5 divides by the root of its width
        network.head = network.head._replace(scale=scale)
        values = np.array([own.sum() for own in prefix_values(network, pairs)])
        if np.abs(values - plain).max() < TOLERANCE[network.head.weight.dtype]:
            return network
    kind = network.model.config.model_type
    found = f"the model type {kind!r}, whose values prefix by prefix are not its own"
    expected = "a Transformer with a cache and a plain output layer"
    raise InputError(directory / "config.json", None, found, expected)


def _plain_value(network: TransformerNetwork, source: Ids, target: Ids) -> float:
    """The value of a pair by the whole forward pass of the model."""
    with torch.inference_mode():
        read = torch.tensor([[*network.start, *target[:-1]]], device=network.head.device)
        if network.has_source:
            ids = torch.tensor([source], device=network.head.device)
            found = network.model(input_ids=ids, decoder_input_ids=read)
        else:
            found = network.model(input_ids=read)
        logits = found.logits[0, -len(target) :].float()
        logits[:, network.left_out] = -torch.inf
        log_probs = logits.log_softmax(dim=1)
        return float(log_probs[torch.arange(len(target)), target].double().sum())


# The model computes those of all places of a text: 256 MB.
LOGITS_AT_ONCE = 1 << 26


class MaskedScorer(SubwordScorer):
    """Pseudo-log-likelihoods of targets by a masked language model (Salazar et al. 2020, section 2).

    The value of a text is the sum over its subwords of natural log p(subword | all others), each masked in a
    copy of the text. It is no log-probability of the text, and there is no end of sentence. The copies of a
    text are computed together, apart from those of others.
    """

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
