"""What each score of an n-best list is worth, before any tuning: least squares of sentence scores within lists.

y is the metric of each hypothesis alone, more being better; X has the dense features, the number of words among
them. The mean over the list is subtracted from all; then each column of X is divided by its standard deviation.

- worth: b = (X'X)^-1 X'y, points of the metric for one standard deviation (Wooldridge 2010, section 10.5)
- t: by (X'X)^-1 (sum_d s_d s_d') (X'X)^-1, where s_d sums x (y - x'b) over the hypotheses of document d (Liang
  & Zeger 1986, doi:10.1093/biomet/73.1.13; Cameron & Miller 2015, equation 11, doi:10.3368/jhr.50.2.317)
- explained: R^2 of a column on the others
- gain: b of one random half of the documents chooses from the lists of the other half, with the column and
  without it; the difference in the metric of both halves' choice (cross-fitting), over several halves

Columns of noise show what chance does. Features of the model that made the lists look weaker than they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import StrPath, read_lines, temporary_directory, write_lines
from moses_bridge.formats.nbest import check_feature_name, finite_number, with_feature
from moses_bridge.formats.nbest_lists import bars_of
from tuning.compare.system_outputs import read_documents
from tuning.loop.list_features import ListFeatures, feature_of_model
from tuning.loop.rerank import ListedText, dense_features, with_features
from tuning.loop.settings import RerankConfig
from tuning.metrics.bleu import BLEU
from tuning.metrics.by_name import MetricChoice, MetricName
from tuning.optimisers.nbest_pool import NBestPool, is_sparse, nothing_to_learn
from tuning.optimisers.pool_reader import read_pool

Floats = NDArray[np.float64]
N_NOISE, N_HALVES, FEWEST_DOCUMENTS = 3, 20, 4
SINGULAR = 1e-10  # of the largest eigenvalue of X'X: below it is what other columns make up


@dataclass(frozen=True)
class ScoreWorth:
    """A score; see the formulas above.

    Attributes:
        worth: points of the metric of a sentence for one standard deviation within lists; more is better.
        explained: share of its variance within lists that the other scores explain, 0 to 1.
        gain: points of the metric of the text, more being better; mean over halves of the documents.
        gain_sd: standard deviation of the gain over halves.
    """

    name: str
    worth: float
    t: float
    explained: float
    gain: float
    gain_sd: float

    @property
    def can_help(self) -> bool:
        """Whether tunings may gain by it: not if both its t and its gain are as those of noise.

        In docs/results.md all scores that raised BLEU have t above 3.5, not all a gain above two s.d.; noise
        has |t| up to 1.6. One column of noise in twenty passes, which costs the time of its tunings alone.
        """
        return abs(self.t) >= 2 or self.gain > 2 * self.gain_sd

    def __str__(self) -> str:
        return f"worth {self.worth:+.2f} BLEU a sentence (t {self.t:.1f}), reranking foretells {self.gain:+.2f}"


@dataclass(frozen=True)
class Worth:
    """What the scores of a list are worth.

    Attributes:
        n_documents: of the standard errors and halves; sentences where no documents are known.
        scores: those of the list, those to be judged, and noise.
        constant: scores without a difference between the hypotheses of a sentence.
    """

    metric: str
    n_hypotheses: int
    n_documents: int
    scores: list[ScoreWorth]
    constant: list[str]


def worth(
    nbest: StrPath,
    source: StrPath,
    references: StrPath | Sequence[StrPath],
    columns: Mapping[str, StrPath] | None = None,
    models: Mapping[str, StrPath] | None = None,
    groups: StrPath | None = None,
    list_format: ListFormat = "moses",
    metric: MetricName = "bleu",
    metric_command: str = "",
    seed: int = 1,
    list_size: int = 0,
) -> Worth:
    """What each score of an n-best list is worth, given its source and one or more references.

    Further scores by name are `columns`, files of one number a hypothesis in the order of the list, and
    `models`, directories of `rescorer train`. `groups` has the document of each sentence; the seed is that of
    noise and halves; `list_size` is the number of hypotheses of each sentence in the format "plain".

    Raises:
        UserError: a file is malformed, a column has another number of lines than the list, two scores have one
            name, nothing can be learned, or there are fewer than four documents.
    """
    texts = [references] if isinstance(references, str | os.PathLike) else references
    text = ListedText(Path(nbest), Path(source), [*map(Path, texts)])
    counter = MetricChoice(metric, metric_command).references(text.references, text.source)
    documents = np.arange(len(counter))
    if groups is not None:
        documents = read_documents(Path(groups), text.source)
    features = [feature_of_model(f"{name}={model}") for name, model in (models or {}).items()]
    with temporary_directory("worth") as folder, ListFeatures(features) as added:
        form = RerankConfig(list_format=list_format, list_size=list_size)
        full = with_features(text, folder / "list.gz", added, None, form)
        for name, path in (columns or {}).items():
            _add_column(full, name, path)
        pool = read_pool([full], counter, bars_of(list_format))
    if reason := nothing_to_learn(pool):
        raise ConfigError(f"{text.nbest}: {reason}")
    return worth_of_pool(pool, documents[pool.sentence_ids], seed)


def _add_column(nbest: Path, name: str, path: StrPath) -> None:
    check_feature_name(name)
    if name in dense_features(nbest):
        raise ConfigError(f"the list has a feature {name}; use another name for {path}")
    lines, values = [*read_lines(nbest)], [*read_lines(path)]
    if len(lines) != len(values):
        expected = f"{len(lines)}, one for each hypothesis of the list"
        raise InputError(path, None, f"{len(values)} lines", expected)
    pairs = enumerate(zip(lines, values, strict=True), start=1)
    write_lines(
        nbest, (with_feature(line, name, finite_number(each, path, n)) for n, (line, each) in pairs)
    )


def worth_of_pool(pool: NBestPool, documents: NDArray[np.int64], seed: int) -> Worth:
    """What each dense column is worth, given the document of each sentence, *Shape:* (n_sentences,)."""
    _, documents = np.unique(documents, return_inverse=True)
    n_documents = int(documents.max()) + 1
    if n_documents < FEWEST_DOCUMENTS:
        found = f"found {n_documents} documents or sentences"
        raise ConfigError(f"{found}, expected {FEWEST_DOCUMENTS} at least, for halves of them")
    rng = np.random.default_rng(seed)
    dense = np.array([not is_sparse(name) for name in pool.names])
    used = np.flatnonzero(dense & ~pool.constant)
    columns = np.hstack([pool.features[:, used], rng.standard_normal((len(pool), N_NOISE))])
    lists = _Lists(pool, columns, documents)
    halves = [rng.permutation(n_documents) < n_documents // 2 for _ in range(N_HALVES)]
    own, scores = [*range(len(used))], []
    of_own = lists.reranked(own, halves)
    names = [*(pool.names[place] for place in used), *(f"noise {n + 1}" for n in range(N_NOISE))]
    for place, name in enumerate(names):
        others = [other for other in own if other != place]
        is_own = place in own
        other = lists.reranked(others if is_own else [*own, place], halves)
        gains = of_own - other if is_own else other - of_own
        spread = float(gains.mean()), float(gains.std(ddof=1))
        scores.append(ScoreWorth(name, *lists.worth(place, others), *spread))
    constant = [pool.names[place] for place in np.flatnonzero(dense & pool.constant)]
    return Worth(pool.metric.label, len(pool), n_documents, scores, constant)


class _Lists:
    """X and y of a pool, and the products of their columns by document, *Shape:* (n_documents, n, n)."""

    def __init__(self, pool: NBestPool, columns: Floats, documents: NDArray[np.int64]) -> None:
        starts, sizes = pool.offsets[:-1], np.diff(pool.offsets)
        metric, statistics = pool.metric, pool.statistics
        y = (
            100 * metric.quality(statistics)
            if metric is BLEU
            else metric.sign * metric.value(statistics)
        )
        rows = np.column_stack([columns, y])
        rows -= np.repeat(np.add.reduceat(rows, starts) / sizes[:, None], sizes, axis=0)
        rows[:, :-1] /= np.sqrt((rows[:, :-1] ** 2).mean(axis=0))
        self.pool, self.x, self.y = pool, rows[:, :-1], rows[:, -1]
        self.documents = np.repeat(documents, sizes)
        self.products = np.zeros((documents.max() + 1, rows.shape[1], rows.shape[1]))
        for document, part in zip(documents, np.split(rows, starts[1:]), strict=True):
            self.products[document] += part.T @ part

    def worth(self, column: int, others: Sequence[int]) -> tuple[float, float, float]:
        """The worth of a column beside others, its t, and R^2 of it on them."""
        products, columns = self.products.sum(axis=0), [*others, column]
        inverse, of_others = _inverse(products, columns), products[column, others]
        weights, x = inverse @ products[columns, -1], self.x[:, columns]
        influences = x @ inverse[-1] * (self.y - x @ weights)
        error = float(np.linalg.norm(np.bincount(self.documents, influences)))
        explained = of_others @ _inverse(products, others) @ of_others / products[column, column]
        return float(weights[-1]), float(weights[-1]) / max(error, 1e-300), float(explained)

    def reranked(self, columns: Sequence[int], halves: Sequence[NDArray[np.bool_]]) -> Floats:
        """The metric, more being better, of the choice in each half by the weights of the other half."""
        x, metric, values = self.x[:, columns], self.pool.metric, []
        for half in halves:
            products = (self.products[each].sum(axis=0) for each in (~half, half))
            scores = (x @ (_inverse(each, columns) @ each[columns, -1]) for each in products)
            chosen = self.pool.first_highest(np.where(half[self.documents], *scores))
            values.append(metric.sign * metric.value(self.pool.statistics[chosen].sum(axis=0)))
        return np.array(values, np.float64)


def _inverse(products: Floats, columns: Sequence[int]) -> Floats:
    chosen = products[np.ix_(columns, columns)]
    return np.asarray(np.linalg.pinv(chosen, rcond=SINGULAR, hermitian=True), np.float64)
