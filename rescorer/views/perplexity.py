"""Perplexity of a text by several models, </s> included, with unknown words treated alike.

Models with different vocabularies predict different events, so there are two numbers, which docs/formats.md
describes ("What `rescorer perplexity` prints").
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError, extra_named
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.language_model.kenlm_binary import UnreadTypeError
from moses_bridge.builtin.language_model.lm_index import LmIndex
from moses_bridge.formats.words import split_words
from rescorer.contract.architectures import load
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import Scorer, WordLogProbs, WordScorer
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Vocabulary
from rescorer.models.model_directory import load_model
from rescorer.models.pretrained.choice import scorer_of_pretrained
from rescorer.models.pretrained.settings import KINDS, PretrainedSettings, parse_name
from rescorer.models.reading import in_own_order
from rescorer.training.text import read_parallel_text, read_text

SENTENCES_AT_ONCE = 512
MARKERS = frozenset((b"<s>", b"</s>", b"<unk>"))


@dataclass(frozen=True)
class TextModel:
    """A model predicting text, as a whole or, if its scorer is a `WordScorer`, word by word.

    The name is the path given for it; the kind is its architecture, or "5-gram"; is_known says
    whether a word is in its vocabulary.
    """

    name: str
    kind: str
    scorer: Scorer | WordScorer
    is_known: Callable[[bytes], bool]
    needs_source: bool = False
    needs_links: bool = False


@dataclass(frozen=True)
class ModelPerplexity:
    """How well a model predicts a text.

    Attributes:
        model: its name.
        kind: its architecture, or "5-gram".
        perplexity: a word, over the words known to all models; None if there are none, or if some
            are unknown to another model and this one predicts sentences as a whole.
        perplexity_with_unknown: a word, over all words, with its own <unk> for unknown ones.
        n_unknown: words of the text unknown to it.
        log_prob: natural log, over the words known to all models; None if this one predicts
            sentences as a whole and some words are unknown to another model.
        log_prob_with_unknown: natural log, over all words.
    """

    model: str
    kind: str
    perplexity: float | None
    perplexity_with_unknown: float
    n_unknown: int
    log_prob: float | None
    log_prob_with_unknown: float


@dataclass(frozen=True)
class PerplexityReport:
    """How well several models predict the same text.

    Empty lines are left out. Words include </s> of each sentence; n_outside of them are unknown to
    at least one model.
    """

    text: str
    n_sentences: int
    n_words: int
    n_outside: int
    models: tuple[ModelPerplexity, ...]

    def __str__(self) -> str:
        """A table."""
        share = self.n_outside / self.n_words
        head = (
            f"{self.text}: {self.n_sentences:,} sentences, {self.n_words:,} words with </s>;"
            f" {self.n_outside:,} ({share:.2%}) outside the vocabulary of at least one model"
        )
        titles = ("model", "kind", "perplexity without these", "with <unk>", "its unknown words")
        rows = [titles, *(_cells(model) for model in self.models)]
        columns = enumerate(zip(*rows, strict=True))
        forms = [f"{'<' if n < 2 else '>'}{max(map(len, column))}" for n, column in columns]
        return "\n".join([head, *("  ".join(map(format, row, forms)) for row in rows)])


def _cells(one: ModelPerplexity) -> tuple[str, ...]:
    known = "-" if one.perplexity is None else f"{one.perplexity:.2f}"
    return one.model, one.kind, known, f"{one.perplexity_with_unknown:.2f}", f"{one.n_unknown:,}"


def load_text_model(
    path: Path,
    compute: Compute,
    trust_code: bool = False,
    settings: PretrainedSettings | None = None,
) -> TextModel:
    """A model directory of any architecture, the file of an n-gram model, or a pretrained model.

    The settings are for the text of pretrained models; None for the defaults.

    Raises:
        InputError: the directory is not a whole model, its model does not predict word by word, or
            the file is no n-gram model.
    """
    if name := parse_name(path):
        if name.kind == "hf-mlm":
            raise ConfigError(f"{name}: a masked language model has no perplexity")
        if settings and settings.reading != "as-is":
            raise ConfigError(f"--reading {settings.reading}: {name} would predict the source")
        named = scorer_of_pretrained(name, settings or PretrainedSettings(), compute)
        return TextModel(
            str(name), "pretrained", named.scorer, lambda word: True, KINDS[name.kind].has_source
        )
    if not path.is_dir():
        ngrams = read_ngram_model(path)
        return TextModel(str(path), f"{ngrams.order}-gram", ngrams, ngrams.is_known)
    model = load_model(path, trust_code)
    architecture = load(model.architecture)
    scorer = in_own_order(model, architecture.scorer(model, compute))
    if not isinstance(scorer, WordScorer):
        found = f"the architecture {model.architecture!r}, which does not predict word by word"
        if model.reverses_sides:
            found = "a model with reversed sides, which predicts the source"
        raise InputError(
            path, None, found, "a model that knows the probability of each target word"
        )
    target = model.shortlists.target
    return TextModel(
        str(path),
        f"{model.architecture}, right to left" if model.goes_right_to_left else model.architecture,
        scorer,
        lambda word: int(target.encode_words([word])[0]) != Vocabulary.unknown_id,
        needs_source=architecture.data != "text",
        needs_links=scorer.needs_links,
    )


def perplexities(models: Sequence[TextModel], data: Data) -> PerplexityReport:
    """Perplexities of one model or more on the same text.

    Raises:
        InputError: the text is empty, or the files do not have equally many lines.
        ConfigError: a model needs source text or word links, and they are missing.
    """
    _check_sides(models, data)
    text = _read(data)
    tokens = [[*split_words(sentence), None] for sentence in text.targets]
    flat = [*chain.from_iterable(tokens)]
    kinds = {word for word in flat if word is not None}
    known = [_known_tokens(model, flat, kinds) for model in models]
    shared = np.logical_and.reduce(known)
    results = [
        _result(model, _log_probs(model, text), mine, shared)
        for model, mine in zip(models, known, strict=True)
    ]
    n_outside = int((~shared).sum())
    return PerplexityReport(str(data.path), len(tokens), len(flat), n_outside, tuple(results))


def _check_sides(models: Sequence[TextModel], data: Data) -> None:
    for model in models:
        for option, is_needed, given in (
            ("--source", model.needs_source, data.source),
            ("--links", model.needs_links, data.links),
        ):
            if is_needed and given is None:
                raise ConfigError(f"{model.name} sees more than the target text: name {option} too")


def _read(data: Data) -> Batch:
    if data.source is None:
        targets = list(read_text(data.path))
        return Batch([b""] * len(targets), targets)
    text = read_parallel_text(data)
    links = None if text.links is None else list(text.links)
    return Batch(list(text.sources), list(text.targets), links)


def _known_tokens(
    model: TextModel, tokens: Sequence[bytes | None], words: set[bytes]
) -> NDArray[np.bool_]:
    known = {word: model.is_known(word) for word in words}
    return np.array([token is None or known[token] for token in tokens], np.bool_)


def _log_probs(model: TextModel, text: Batch) -> NDArray[np.float64]:
    """Natural log p of each token of the text, or of each sentence as a whole."""
    parts, scorer = [], model.scorer
    with Progress(model.name, len(text), "sentences") as progress:
        for part in text.parts(SENTENCES_AT_ONCE):
            if isinstance(scorer, WordScorer):
                parts.append(scorer.word_log_probs(part).log_probs)
            else:
                parts.append(scorer.values(part))
            progress.update(len(part))
    return np.concatenate(parts)


def _result(
    model: TextModel,
    log_probs: NDArray[np.float64],
    known: NDArray[np.bool_],
    shared: NDArray[np.bool_],
) -> ModelPerplexity:
    of_all, n_shared = float(log_probs.sum()), int(shared.sum())
    of_shared: float | None = of_all
    if n_shared < len(shared):
        has_words = isinstance(model.scorer, WordScorer)
        of_shared = float(log_probs[shared].sum()) if has_words else None
    return ModelPerplexity(
        model.name,
        model.kind,
        math.exp(-of_shared / n_shared) if n_shared and of_shared is not None else None,
        math.exp(-of_all / len(shared)),
        int((~known).sum()),
        of_shared,
        of_all,
    )


@dataclass(frozen=True)
class NgramModel:
    """An n-gram model; a `Scorer` and a `WordScorer`.

    An unknown word counts with the probability of <unk>, 10^-100 if an ARPA file has none. The
    function sentence_log_probs gives natural log p of each word of a sentence and of </s>.
    """

    order: int
    is_known: Callable[[bytes], bool]
    sentence_log_probs: Callable[[Sequence[bytes]], Iterable[float]]
    shortlist = None
    needs_links = False

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Natural log p(target), </s> included, *Shape:* (n_pairs,); the sources are ignored."""
        found = self.word_log_probs(batch)
        return np.asarray(np.bincount(found.pairs, found.log_probs, len(batch)), np.float64)

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
