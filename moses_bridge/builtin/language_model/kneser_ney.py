"""Interpolated modified Kneser-Ney language models, as estimated by `lmplz`.

Chen and Goodman, An empirical study of smoothing techniques for language modeling (TR-10-98, Harvard 1998),
equation (26) and the interpolated form of section 4.1.6; adjusted counts, uniform lowest order and pruning as
in Heafield et al., Scalable modified Kneser-Ney language model estimation (ACL 2013).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import ArrayFile, ArrayFiles, Numbers, parts, temporary_arrays
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import named_errors
from moses_bridge.builtin.language_model.arpa import (
    MAX_ORDER,
    Arpa,
    NGrams,
    NGramSection,
    floored_log10,
    write_sections,
)
from moses_bridge.builtin.language_model.ngram_counts import (
    BOS,
    NGramCounts,
    Tokens,
    adjusted_counts,
    count_ngrams,
    read_tokens,
    tokens_within,
)

FALLBACK_DISCOUNTS = (0.0, 0.5, 1.0, 1.5)  # lmplz --discount_fallback
NGRAMS_AT_ONCE = 1 << 20  # some 90 MB
N_COUNTS = 5  # counts of 1 to 4 give the discounts, all others are counted together


@dataclass(frozen=True)
class Smoothed:
    """Smoothed probabilities of the n-grams of one order.

    Attributes:
        threshold: n-grams with at most so many occurrences are pruned; None for no pruning.
        probs: (n,) interpolated probability of each n-gram.
        lower_weights: probability mass left by each context (n-gram one order lower) to the
            lower order; NaN where the n-gram is no context.
    """

    counts: NGramCounts
    threshold: int | None
    probs: ArrayFile[np.float64]
    lower_weights: ArrayFile[np.float64]

    def kept(self, first: int, end: int) -> NDArray[np.bool_]:
        """Which n-grams from `first` to before `end` survive pruning."""
        if self.threshold is None:
            return np.ones(end - first, np.bool_)
        return self.counts.raw.read(first, end) > self.threshold


def estimate(
    text: Path, out: Path, order: int, prune: Sequence[int], ngrams_at_once: int = NGRAMS_AT_ONCE
) -> None:
    """Estimate a language model from a text with one sentence a line and write it as ARPA.

    The words and n-grams of the text are in anonymous files next to `out`. Distinct words are in memory, and
    some 90 bytes for each of `ngrams_at_once`.

    Args:
        text: words between blanks; compressed or not.
        out: the ARPA file, compressed by its suffix.
        order: length of the longest n-grams.
        prune: for each order from 1 on, n-grams with at most that many occurrences are left out;
            the last number holds for all higher orders; empty for no pruning.
        ngrams_at_once: n-grams in memory at a time; the model does not depend on it.

    Raises:
        InputError: the text is empty or contains <s>, </s> or <unk>.
        ConfigError: the order or the pruning makes no sense.
        OSError: the disk is full; names `out`.
    """
    thresholds = pruning_thresholds(order, prune)
    out.parent.mkdir(parents=True, exist_ok=True)
    with named_errors(out), ArrayFiles(out.parent) as files:
        tokens = read_tokens(text, files)
        smoothed = _smooth(tokens, thresholds, files, ngrams_at_once)
        write_sections(out, tokens.words, _sections(smoothed, ngrams_at_once))


def model_within(
    sentences: Iterable[Sequence[bytes]], vocabulary: Sequence[bytes], thresholds: list[int]
) -> Arpa:
    """The language model of a text over a given vocabulary, in memory; all other words are <unk>.

    A word missing from the text gets the share of the uniform lowest order. <unk> is counted where it occurs in
    the text. N-grams are kept in the directory of temporary files meanwhile.

    Args:
        sentences: the words of each sentence.
        vocabulary: words, each once, none of <unk>, <s>, </s>; the same one gives the same numbers.
        thresholds: for each order, the occurrences up to which n-grams are left out.

    Raises:
        OSError: the disk is full.
    """
    with temporary_arrays() as files:
        tokens = tokens_within(sentences, vocabulary, files)
        sections = _sections(_smooth(tokens, thresholds, files, NGRAMS_AT_ONCE), NGRAMS_AT_ONCE)
        return Arpa(tokens.words, [_joined(section) for section in sections])


def _joined(section: NGramSection) -> NGrams:
    columns = zip(*(part[:3] for part in section.parts), strict=True)
    ids, log_probs, backoffs = map(np.concatenate, columns)
    return NGrams(ids, log_probs, backoffs)


def pruning_thresholds(order: int, prune: Sequence[int]) -> list[int]:
    """One threshold for each order.

    Raises:
        ConfigError: the order is out of range, or the thresholds are too many, fall or prune words.
    """
    if not 1 <= order <= MAX_ORDER:
        raise ConfigError(f"language model order {order}: it must be from 1 to {MAX_ORDER}")
    given = list(prune) or [0]
    if len(given) > order:
        raise ConfigError(
            f"pruning {given}: more numbers than the order {order}; give {order} or fewer, such as"
            f" lm_prune = {given[:order]}"
        )
    if given[0] != 0:
        raise ConfigError(f"pruning {given}: the first number must be 0, words are never pruned")
    if given != sorted(given):
        raise ConfigError(f"pruning {given}: a longer n-gram needs no smaller number")
    return given + [given[-1]] * (order - len(given))


def _sections(smoothed: list[Smoothed], at_once: int) -> list[NGramSection]:
    weights = [*(higher.lower_weights for higher in smoothed[1:]), None]
    sections = []
    for i, (own, own_weights) in enumerate(zip(smoothed, weights, strict=True)):
        orders = [lower.counts for lower in smoothed[: i + 1]]
        n_kept = sum(int(own.kept(*place).sum()) for place in parts(len(own.counts), at_once))
        sections.append(NGramSection(n_kept, _rows(orders, own, own_weights, at_once)))
    return sections


def _rows(
    orders: list[NGramCounts], own: Smoothed, weights: ArrayFile[np.float64] | None, at_once: int
) -> Iterator[NGrams]:
    """Kept n-grams, part by part; `orders` ends with their order, `weights` are of the order above."""
    for first, end in parts(len(own.counts), at_once):
        rows = first + np.flatnonzero(own.kept(first, end))
        log_probs = floored_log10(np.minimum(own.probs.take(rows), 1.0))
        backoffs = np.zeros(len(rows), np.float32)
        if weights is not None:
            weight = weights.take(rows)
            backoffs = floored_log10(np.where(np.isnan(weight), 1.0, weight))
        if len(orders) == 1:
            log_probs[rows == BOS] = 0.0
        yield NGrams(_words(orders, rows), log_probs, backoffs)


def _words(orders: list[NGramCounts], rows: NDArray[Any]) -> NDArray[np.int32]:
    """(n_rows, order) words of n-grams of the last order, given by their ascending numbers."""
    ids = np.empty((len(rows), len(orders)), np.int32)
    for column, counts in enumerate(reversed(orders)):
        ids[:, column] = counts.first_words.take(rows)
        rows = counts.suffixes.take(rows)
    return ids


def _smooth(
    tokens: Tokens, thresholds: list[int], files: ArrayFiles, at_once: int
) -> list[Smoothed]:
    orders = count_ngrams(tokens, len(thresholds), files, at_once)
    # The lowest order is interpolated with the uniform distribution over all words but <s>.
    lower_probs, n_contexts = files.new(np.float64), 1
    lower_probs.append(np.array([1.0 / (len(orders[0]) - 1)]))
    smoothed = []
    fallbacks: list[int] = []
    with Progress("language model", len(orders), "orders") as progress:
        adjusted_orders = adjusted_counts(orders, files, at_once)
        for i, (counts, adjusted) in enumerate(zip(orders, adjusted_orders, strict=True)):
            amounts = discounts(_counts_of_counts(adjusted, at_once))
            if amounts is None:
                amounts = FALLBACK_DISCOUNTS
                fallbacks.append(i + 1)
            own = Smoothed(
                counts, thresholds[i] if i else None, files.new(np.float64), files.new(np.float64)
            )
            _interpolate(own, adjusted, amounts, lower_probs, n_contexts, files.directory, at_once)
            smoothed.append(own)
            lower_probs, n_contexts = own.probs, len(counts)
            progress.update(note=_warning(fallbacks))
    return smoothed


def _warning(fallbacks: list[int]) -> str:
    orders = ", ".join(map(str, fallbacks))
    return f"warning: too little text, fixed discounts for order {orders}" if fallbacks else ""


def _counts_of_counts(adjusted: Numbers, at_once: int) -> NDArray[np.int64]:
    """(6,) numbers of n-grams with the count 0 to 4, and 5 or more."""
    total = np.zeros(N_COUNTS + 1, np.int64)
    for place in parts(len(adjusted), at_once):
        some = np.minimum(adjusted.read(*place), N_COUNTS)
        total += np.bincount(some, minlength=N_COUNTS + 1)
    return total


def discounts(counts_of_counts: NDArray[np.int64]) -> tuple[float, ...] | None:
    """Amounts to subtract from adjusted counts 0, 1, 2 and 3 or more (Chen and Goodman, equation 26).

    They are computed from the numbers of n-grams with the adjusted count 0, 1, 2, 3 and 4; None if a small or
    artificial text gives no sensible ones.
    """
    n = counts_of_counts.astype(np.float64)
    if not n[1:4].all():
        return None
    y = n[1] / (n[1] + 2.0 * n[2])
    amounts = [0.0] + [j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3)]
    in_range = all(0.0 <= amount <= j for j, amount in enumerate(amounts))
    return tuple(float(amount) for amount in amounts) if in_range else None


def _interpolate(
    own: Smoothed,
    adjusted: Numbers,
    amounts: tuple[float, ...],
    lower_probs: ArrayFile[np.float64],
    n_contexts: int,
    directory: Path,
    at_once: int,
) -> None:
    """Discounted counts (0 if pruned) over the context's total, plus the freed mass times the lower order."""
    by_count = np.array(amounts)
    contexts_of = own.counts.contexts.read
    with ArrayFiles(directory) as scratch:
        sums = ContextSums(n_contexts, scratch, at_once)
        for place in parts(len(adjusted), at_once):
            counts = adjusted.read(*place)
            subtracted = by_count[np.minimum(counts, 3)]
            freed = np.where(own.kept(*place), subtracted, counts)
            sums.add(Shares(contexts_of(*place), counts, freed))
        sums.finish(own.lower_weights)
        for place in parts(len(adjusted), at_once):
            counts = adjusted.read(*place)
            totals, weights = sums.of_ngrams(contexts_of(*place))
            probs = (counts - by_count[np.minimum(counts, 3)]) / totals
            probs += weights * lower_probs.take(own.counts.suffixes.read(*place))
            own.probs.append(probs)


class Shares(NamedTuple):
    """Contributions of n-grams to the sums of their contexts, (n,) each."""

    contexts: NDArray[Any]
    counts: NDArray[Any]  # adjusted ones
    freed: NDArray[np.float64]  # the part of the count given to the lower order


class ContextSums:
    """Sums of contexts in order of arrival: in memory if there are at most `at_once`, else in mapped files."""

    def __init__(self, n_contexts: int, files: ArrayFiles, at_once: int) -> None:
        self._totals, self._freed = (_zeros(n_contexts, files, at_once) for _ in range(2))

    def add(self, shares: Shares) -> None:
        """Take some n-grams."""
        # numpy adds up numbers of one kind ten times as fast as of two
        np.add.at(self._totals, shares.contexts, shares.counts.astype(np.float64))
        np.add.at(self._freed, shares.contexts, shares.freed)

    def finish(self, of_contexts: ArrayFile[np.float64]) -> None:
        """Sum, and append each context's share given to the lower order; NaN for no n-gram."""
        with np.errstate(invalid="ignore"):
            self._freed /= self._totals
        of_contexts.append(self._freed)

    def of_ngrams(self, contexts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Total and share of the contexts of n-grams, (n,) each."""
        return self._totals[contexts], self._freed[contexts]


def _zeros(length: int, files: ArrayFiles, at_once: int) -> NDArray[np.float64]:
    if length <= at_once:
        return np.zeros(length)
    array = files.new(np.float64)
    for first, end in parts(length, at_once):
        array.append(np.zeros(end - first))  # room on the disk, which a longer file alone lacks
    return array.mapped()
