"""Interpolated modified Kneser-Ney language models, as `lmplz` computes them.

Chen and Goodman, An empirical study of smoothing techniques for language modeling (TR-10-98,
Harvard 1998), equation (26) and the interpolated form of section 4.1.6; adjusted counts, uniform
lowest order and pruning as in Heafield et al., Scalable modified Kneser-Ney language model
estimation (ACL 2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.language_model.arpa import MAX_ORDER, Arpa, NGrams
from moses_bridge.builtin.language_model.arpa_output import write_arpa
from moses_bridge.builtin.language_model.ngram_counts import (
    BOS,
    NGramCounts,
    Tokens,
    adjusted_counts,
    count_ngrams,
    read_tokens,
)
from moses_bridge.errors import ConfigError
from moses_bridge.progress import Progress

FALLBACK_DISCOUNTS = (0.0, 0.5, 1.0, 1.5)  # lmplz --discount_fallback
SMALLEST = 1e-99  # its log10 is the -99 that ARPA files have for a probability of 0


@dataclass(frozen=True)
class Smoothed:
    """Probabilities of one order.

    Attributes:
        probs: (n,) interpolated probability of each n-gram.
        kept: (n,) whether the n-gram survives pruning.
        lower_weights: probability mass that each context (n-gram one order lower) leaves to the
            lower order; NaN where the n-gram is no context.
    """

    probs: NDArray[np.float64]
    kept: NDArray[np.bool_]
    lower_weights: NDArray[np.float64]


def estimate(text: Path, out: Path, order: int, prune: Sequence[int]) -> None:
    """Estimate a language model from a text with one sentence a line and write it as ARPA.

    Args:
        text: words between blanks; compressed or not.
        out: the ARPA file, compressed by its suffix.
        order: length of the longest n-grams.
        prune: for each order from 1 on, n-grams with at most that many occurrences are left out;
            the last number holds for all higher orders; empty for no pruning.

    Raises:
        InputError: the text is empty or holds <s>, </s> or <unk>.
        ConfigError: the order or the pruning makes no sense.
    """
    thresholds = pruning_thresholds(order, prune)
    write_arpa(out, model_of(read_tokens(text), thresholds))


def model_of(tokens: Tokens, thresholds: list[int]) -> Arpa:
    """The language model of a text.

    A word that is numbered but not in the text has the share of the uniform lowest order. <unk> is
    counted where it stands in the text.

    Args:
        tokens: the text.
        thresholds: for each order, the occurrences up to which n-grams are left out.
    """
    return Arpa(tokens.words, _sections(count_ngrams(tokens, len(thresholds)), thresholds))


def pruning_thresholds(order: int, prune: Sequence[int]) -> list[int]:
    """One threshold for each order.

    Raises:
        ConfigError: the order is out of range, or the thresholds are too many, fall or prune words.
    """
    if not 1 <= order <= MAX_ORDER:
        raise ConfigError(f"language model order {order}: it must be from 1 to {MAX_ORDER}")
    given = list(prune) or [0]
    if len(given) > order:
        raise ConfigError(f"pruning {given}: more numbers than the order {order}")
    if given[0] != 0:
        raise ConfigError(f"pruning {given}: the first number must be 0, words are never pruned")
    if given != sorted(given):
        raise ConfigError(f"pruning {given}: a longer n-gram needs no smaller number")
    return given + [given[-1]] * (order - len(given))


def _sections(orders: list[NGramCounts], thresholds: list[int]) -> list[NGrams]:
    smoothed = _smooth(orders, thresholds)
    no_weights = np.full(len(orders[-1]), np.nan)
    weights = [*(higher.lower_weights for higher in smoothed[1:]), no_weights]
    ids = np.arange(len(orders[0]), dtype=np.int32)[:, None]
    sections: list[NGrams] = []
    for counts, own, weight in zip(orders, smoothed, weights, strict=True):
        if sections:
            ids = np.concatenate([counts.first_words[:, None], ids[counts.suffixes]], axis=1)
        log_probs = _log10(np.minimum(own.probs, 1.0))
        backoffs = _log10(np.where(np.isnan(weight), 1.0, weight))
        sections.append(NGrams(ids[own.kept], log_probs[own.kept], backoffs[own.kept]))
    sections[0].log_probs[BOS] = 0.0
    return sections


def _log10(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.log10(np.maximum(values, SMALLEST)).astype(np.float32)


def _smooth(orders: list[NGramCounts], thresholds: list[int]) -> list[Smoothed]:
    # The lowest order is interpolated with the uniform distribution over all words but <s>.
    lower_probs = np.full(len(orders[0]), 1.0 / (len(orders[0]) - 1))
    n_contexts = len(orders[0])
    smoothed = []
    fallbacks: list[int] = []
    with Progress("language model", len(orders), "orders") as progress:
        for i, (counts, adjusted) in enumerate(zip(orders, adjusted_counts(orders), strict=True)):
            amounts = discounts(adjusted)
            if amounts is None:
                amounts = FALLBACK_DISCOUNTS
                fallbacks.append(i + 1)
            kept = (counts.raw > thresholds[i]) | (i == 0)
            smoothed.append(_interpolate(counts, adjusted, kept, amounts, lower_probs, n_contexts))
            lower_probs, n_contexts = smoothed[-1].probs, len(counts)
            progress.update(note=_warning(fallbacks))
    return smoothed


def _warning(fallbacks: list[int]) -> str:
    orders = ", ".join(map(str, fallbacks))
    return f"warning: too little text, fixed discounts for order {orders}" if fallbacks else ""


def discounts(adjusted: NDArray[np.int64]) -> tuple[float, ...] | None:
    """What to subtract from adjusted counts 0, 1, 2 and 3 or more (Chen and Goodman, equation 26).

    Returns:
        The four amounts, or None where a small or artificial text gives no sensible ones.
    """
    n = np.bincount(np.minimum(adjusted, 5), minlength=5).astype(np.float64)
    if not n[1:4].all():
        return None
    y = n[1] / (n[1] + 2.0 * n[2])
    amounts = [0.0] + [j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3)]
    in_range = all(0.0 <= amount <= j for j, amount in enumerate(amounts))
    return tuple(float(amount) for amount in amounts) if in_range else None


def _interpolate(
    counts: NGramCounts,
    adjusted: NDArray[np.int64],
    kept: NDArray[np.bool_],
    amounts: tuple[float, ...],
    lower_probs: NDArray[np.float64],
    n_contexts: int,
) -> Smoothed:
    """Discounted counts over the context's total, plus the mass set free times the lower order.

    The whole count of a pruned n-gram goes to the lower order; its context's total stays.
    """
    subtracted = np.array(amounts)[np.minimum(adjusted, 3)]
    freed = np.where(kept, subtracted, adjusted)
    totals = np.bincount(counts.contexts, weights=adjusted, minlength=n_contexts)
    with np.errstate(invalid="ignore"):
        lower_weights = np.bincount(counts.contexts, weights=freed, minlength=n_contexts) / totals
    probs = (adjusted - subtracted) / totals[counts.contexts]
    probs += lower_weights[counts.contexts] * lower_probs[counts.suffixes]
    return Smoothed(probs, kept, lower_weights)
