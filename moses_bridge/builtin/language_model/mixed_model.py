"""A linear mixture of language models as one ARPA file.

The file has the n-grams of all models. Each has its probability in the mixture,
p(w | h) = sum_i lambda_i p_i(w | h), and back-off weights are recomputed, so that the probabilities after each
context sum to one (static interpolation, like SRILM's; Stolcke 2002). A word missing from a model has the
probability 0 in it, so a mixture of models that sum to one does so too. The probability of <unk> is the
mixture of the models' ones, 0 for a model without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.mixture_weights import (
    SUM_TOLERANCE,
    Observations,
    cross_entropy,
    fitted_weights,
)
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import Progress, track_lines
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import is_stream
from moses_bridge.builtin.language_model.arpa import (
    Arpa,
    NGrams,
    floored_log10,
    read_arpa,
    write_arpa,
)
from moses_bridge.builtin.language_model.kenlm_binary import is_kenlm_binary
from moses_bridge.builtin.language_model.lm_index import LmIndex, LmTables, lm_score_matched
from moses_bridge.builtin.language_model.ngram_counts import words_of_line

BOS_WORD, EOS_WORD = b"<s>", b"</s>"
LEAST_MASS = 1e-7  # what is left for unlisted words, below which it is rounding


@dataclass(frozen=True)
class MixReport:
    """Result of a mixture.

    Attributes:
        weights: weights of the models; they sum to 1.
        n_ngrams: n-grams of each order.
        perplexity: of the mixture on the development text with ends of sentences, if there is such a text.
        n_unknown: words of that text in no model, which are left out.
    """

    weights: tuple[float, ...]
    n_ngrams: tuple[int, ...]
    perplexity: float | None = None
    n_unknown: int = 0


@dataclass(frozen=True)
class _Component:
    arpa: Arpa
    index: LmIndex
    vocabulary: frozenset[bytes]

    @classmethod
    def read(cls, path: Path) -> _Component:
        if is_kenlm_binary(path):
            found, expected = "a binary file of KenLM", "an ARPA file"
            hint = "Its n-grams have no words: take the file that it was made from"
            raise InputError(path, None, found, expected, hint)
        arpa = read_arpa(path)
        return cls(arpa, LmIndex.of(arpa, path), frozenset(arpa.words))

    def probs(self, words: Sequence[bytes], ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """p(last word | the others) of (n, order) n-grams of the union, (n,); 0 for a word not in it."""
        own = np.array([self.index.word_id(word) for word in words], np.int32)
        has_word = np.array([word in self.vocabulary for word in words])
        context = ids[:, max(0, ids.shape[1] - self.index.order) :]
        probs = 10.0 ** _log10_probs(self.index.tables, own[context])
        return np.where(has_word[ids[:, -1]], probs, 0.0)


def mix_models(
    models: Sequence[Path], out: Path, weights: Sequence[float] = (), dev: Path | None = None
) -> MixReport:
    """Write a mixture of ARPA models as one ARPA file; all are in memory.

    Args:
        models: two models or more.
        out: the file to write.
        weights: weights of the models, above 0, with a sum of 1; or none, with `dev`.
        dev: tokenised development text; the weights minimise its perplexity (EM; Jelinek and Mercer 1980).

    Raises:
        InputError: a model is malformed or a binary file, or no model has a word of the development text.
        ConfigError: the weights do not fit, or an input would be overwritten.
    """
    _check(models, weights, dev)
    refuse_overwriting([out], [*models, *([] if dev is None else [dev])])
    components = [_Component.read(path) for path in models]
    lambdas = np.array(weights) / (sum(weights) or 1.0)
    perplexity, n_unknown = None, 0
    if dev is not None:
        observations, n_unknown = _observe(components, dev)
        lambdas = fitted_weights(observations)
        perplexity = 2.0 ** cross_entropy(observations, lambdas)
    mixture = _mixture(components, lambdas, out)
    write_arpa(out, mixture)
    n_ngrams = tuple(len(section.log_probs) for section in mixture.sections)
    return MixReport(tuple(lambdas.tolist()), n_ngrams, perplexity, n_unknown)


def _check(models: Sequence[Path], weights: Sequence[float], dev: Path | None) -> None:
    if len(models) < 2:
        raise ConfigError(f"found {len(models)} model, expected two or more to mix")
    for path in models:
        if is_stream(path):
            raise ConfigError(f"{path} is read more than once: name a file")
    if bool(weights) == (dev is not None):
        raise ConfigError("a mixture needs either --corpus-weights, or --dev to fit them to")
    shown = ",".join(f"{weight:g}" for weight in weights)
    if weights and len(weights) != len(models):
        raise ConfigError(f"found the weights {shown}, expected one for each model")
    if weights and not (min(weights) > 0 and abs(sum(weights) - 1) <= SUM_TOLERANCE):
        raise ConfigError(f"found the weights {shown}, expected weights above 0 whose sum is 1")


def _observe(components: Sequence[_Component], dev: Path) -> tuple[Observations, int]:
    """Probabilities of the words of a text known to some model, and the number of unknown words."""
    known = frozenset().union(*(component.vocabulary for component in components))
    probs: list[NDArray[np.float64]] = []
    n_unknown = 0
    for line in track_lines(read_text_lines(dev), f"read {dev.name}", dev, "lines"):
        words = words_of_line(line)
        of_models = []
        for component in components:
            scores = 10.0 ** np.array(component.index.score_sentence(words)[0])
            has_word = [word in component.vocabulary for word in [*words, EOS_WORD]]
            of_models.append(np.where(has_word, scores, 0.0))
        probs.append(np.stack(of_models, axis=1))
        n_unknown += sum(word not in known for word in words)
    values = np.concatenate(probs) if probs else np.empty((0, len(components)))
    if not values.any():
        raise InputError(dev, None, "no line", "a text with words of the models")
    return Observations(values, np.ones_like(values), np.ones(len(values))), n_unknown


def _mixture(components: Sequence[_Component], lambdas: NDArray[np.float64], out: Path) -> Arpa:
    """The mixture as a back-off model; `out` is for error messages."""
    united = unite([component.arpa for component in components])
    sections: list[NGrams] = []
    with Progress("mix", len(united.last_words), "orders") as progress:
        for order in range(1, len(united.last_words) + 1):
            ids = united.ids(order)
            probs = (
                np.stack([each.probs(united.words, ids) for each in components], axis=1) @ lambdas
            )
            if order > 1:
                lower = LmIndex.of(Arpa(united.words, sections), out)
                backoffs = _backoffs(
                    united, order, probs, 10.0 ** _log10_probs(lower.tables, ids[:, 1:])
                )
                sections[-1] = sections[-1]._replace(backoffs=backoffs)
            sections.append(NGrams(ids, floored_log10(probs), np.zeros(len(ids), np.float32)))
            progress.update()
    sections[0].log_probs[united.words.index(BOS_WORD)] = 0.0  # it is never predicted
    return Arpa(united.words, sections)


def _backoffs(
    united: UnitedNGrams, order: int, probs: NDArray[np.float64], lower: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Log10 of (1 - sum p(w | h)) / (1 - sum p(w | h')) for each context h; `lower` (n,) is p(w | h')."""
    is_predicted = united.last_words[order - 1] != united.words.index(BOS_WORD)
    contexts = united.contexts[order - 1][is_predicted]
    n_contexts = len(united.last_words[order - 2])
    left = 1.0 - np.bincount(contexts, probs[is_predicted], n_contexts)
    of_others = 1.0 - np.bincount(contexts, lower[is_predicted], n_contexts)
    has_others = of_others > LEAST_MASS  # else all words are listed, and nothing backs off
    ratios = np.divide(left, of_others, out=np.ones(n_contexts), where=has_others)
    return floored_log10(ratios)


@compiled
def _log10_probs(tables: LmTables, ids: Any) -> Any:
    """Log10 probability of the last word after the others, (n,)."""
    n_rows, order = ids.shape
    context = np.zeros(order, np.int32)
    scratch = np.zeros(order, np.int32)
    log_probs = np.empty(n_rows)
    for row in range(n_rows):
        for place in range(order - 1):
            context[place] = ids[row, order - 2 - place]
        last = np.int64(ids[row, order - 1])
        log_probs[row], _, _ = lm_score_matched(tables, context, order - 1, last, scratch)
    return log_probs


@dataclass(frozen=True)
class UnitedNGrams:
    """The union of the n-grams of models.

    Attributes:
        words: words of all models; word i of the union is `words[i]`.
        contexts: for each order, (n,) the lower n-gram beginning each n-gram; 0 for order 1.
        last_words: for each order, (n,) the last word of each n-gram.
    """

    words: list[bytes]
    contexts: list[NDArray[np.int64]]
    last_words: list[NDArray[np.int64]]

    def ids(self, order: int) -> NDArray[np.int32]:
        """(n, order) words of the n-grams of an order, in text order."""
        rows = np.arange(len(self.last_words[order - 1]))
        ids = np.empty((len(rows), order), np.int32)
        for column in range(order - 1, -1, -1):
            ids[:, column] = self.last_words[column][rows]
            rows = self.contexts[column][rows]
        return ids


def unite(models: Sequence[Arpa]) -> UnitedNGrams:
    """Unite the n-grams of models, sorted by word numbers in order of appearance; each has all its contexts."""
    numbers = {word: 0 for model in models for word in model.words}
    numbers.update(zip(numbers, range(len(numbers)), strict=True))
    n_words = len(numbers)
    of_models = [np.array([numbers[word] for word in model.words]) for model in models]
    keys: list[NDArray[np.int64]] = [np.arange(n_words)]
    for order in range(2, max(model.order for model in models) + 1):
        longest = [
            _keys(own[model.sections[order - 1].ids], keys, n_words)
            for own, model in zip(of_models, models, strict=True)
            if model.order >= order
        ]
        keys.append(np.unique(np.concatenate(longest)))
    return UnitedNGrams(
        list(numbers), [key // n_words for key in keys], [key % n_words for key in keys]
    )


def _keys(ids: NDArray[Any], keys: Sequence[NDArray[np.int64]], n_words: int) -> NDArray[np.int64]:
    """The number of each n-gram's context times n_words, plus the last word; `keys`: those of lower orders."""
    contexts = ids[:, 0].astype(np.int64)
    for column in range(1, ids.shape[1] - 1):
        contexts = np.searchsorted(keys[column], contexts * n_words + ids[:, column])
    return np.asarray(contexts * n_words + ids[:, -1])
