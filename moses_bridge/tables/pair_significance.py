"""How significant a phrase pair is: Fisher's exact test on its counts.

Johnson, Martin, Foster & Kuhn (2007), section 3: of N occurrences, C(s) have the source phrase, C(t) the target
phrase and C(s, t) both. If they met by chance, the number of common ones would be hypergeometric, and

    p = sum over k >= C(s, t) of  binom(C(s), k) binom(N - C(s), C(t) - k) / binom(N, C(t)).

There the counts are of sentence pairs; here of extracted pairs, as found in the table. A pair occurring
once, with each side occurring once, has p = 1 / N in either case.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

NEGLIGIBLE = -40.0  # natural log, against the sum so far: beyond the digits of a float64


def significance(
    joint: NDArray[np.float64],
    source: NDArray[np.float64],
    target: NDArray[np.float64],
    n_occurrences: float,
) -> NDArray[np.float64]:
    """-log p of pairs, natural log; larger values are more significant.

    Args:
        joint: C(s, t) of each pair, at most C(s) and C(t), *Shape:* (n_pairs,).
        source: C(s).
        target: C(t).
        n_occurrences: N, at least C(s) + C(t) - C(s, t) of every pair.
    """
    counts = np.stack([joint, source, target], axis=1)
    distinct, places = np.unique(counts, axis=0, return_inverse=True)
    return np.asarray(-_log_tails(distinct, n_occurrences)[places.reshape(-1)])


def _log_tails(counts: NDArray[np.float64], n: float) -> NDArray[np.float64]:
    """Log p of distinct counts, *Shape:* (n_distinct, 3) -> (n_distinct,)."""
    joint, source, target = counts.T
    highest = np.minimum(source, target)
    tails = _log_term(joint, source, target, n)
    peak = (source + 1) * (target + 1) / (n + 2)  # terms fall from here on
    k = joint.copy()
    going = np.flatnonzero(k < highest)
    while len(going):
        k[going] += 1
        terms = _log_term(k[going], source[going], target[going], n)
        tails[going] = np.logaddexp(tails[going], terms)
        more = (terms - tails[going] > NEGLIGIBLE) | (k[going] < peak[going])
        going = going[more & (k[going] < highest[going])]
    return np.minimum(tails, 0.0)


def _log_term(
    k: NDArray[np.float64], source: NDArray[np.float64], target: NDArray[np.float64], n: float
) -> NDArray[np.float64]:
    """Log of the hypergeometric probability of k common occurrences."""
    chosen = _log_binom(source, k) + _log_binom(n - source, target - k)
    return np.asarray(chosen - _log_binom(n, target))


def _log_binom(n: NDArray[np.float64] | float, k: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(gammaln(np.add(n, 1)) - gammaln(k + 1) - gammaln(np.subtract(n, k) + 1))
