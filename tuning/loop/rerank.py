"""Reranking n-best lists of any decoder: features are added, weights learned, and hypotheses chosen.

Systems are "first", the first hypothesis of each sentence; "reranked", with weights of the list's own
features; and, if features are added, one named after them. "reranked" is its baseline, since learning
weights may help by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.json_files import write_json
from moses_bridge.base.lock import held_file
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath, count_lines, open_directory, write_lines
from moses_bridge.formats.nbest import parse_features, read_nbest
from moses_bridge.formats.nbest_lists import bars_of, write_moses_list
from moses_bridge.formats.text_notes import say_notes
from moses_bridge.formats.weights import read_weights
from tuning.loop.list_features import (
    ListFeatures,
    NBestFeature,
    best_of_each,
)
from tuning.loop.mbr import FEATURE as MBR_FEATURE
from tuning.loop.mbr import Likeness, add_mbr
from tuning.loop.run_directory import (
    WEIGHTS_NAME,
    Weights,
    caution_of,
    with_caution,
)
from tuning.loop.settings import RerankConfig
from tuning.metrics.by_name import LESS_IS_BETTER, MbrMetricName
from tuning.metrics.metric import read_references
from tuning.optimisers.by_name import load_optimizer
from tuning.optimisers.nbest_pool import (
    NBestPool,
    grouped_weights,
    is_sparse,
    nothing_to_learn,
    spread_within,
    weight_row,
)
from tuning.optimisers.pool_reader import read_pool

FIRST, RERANKED = "first", "reranked"
BY_LISTS = (WEIGHTS_NAME, "*.nbest.gz", "dev.*.out", "test.*.out", "table.*")  # files


@dataclass(frozen=True)
class ListedText:
    """A text with an n-best list.

    Attributes:
        source: the sentences that were translated, one a line.
        references: files of references, tokenised as the list is.
    """

    nbest: Path
    source: Path
    references: Sequence[Path] = ()

    @property
    def files(self) -> list[Path]:
        """All of its files."""
        return [self.nbest, self.source, *self.references]


@dataclass(frozen=True)
class RerankedRun:
    """One time weights were learned.

    Attributes:
        seed: seed of the optimiser.
        weights: weights by feature; {} for the first hypotheses.
        dev_score: the metric tuned for, of the chosen dev hypotheses.
        dev: the chosen dev hypotheses, a file in the directory.
        test: the chosen test hypotheses; "" without a test list.
    """

    seed: int
    weights: Weights
    dev_score: float
    dev: str
    test: str = ""


@dataclass(frozen=True)
class Reranked:
    """The result of `rerank_lists`, as in OUT/weights.json.

    Attributes:
        metric: the metric tuned for.
        features: the added features.
        mbr: the metric of the added feature MBR0; None for no such feature.
        systems: the runs of each system.
        caution: why the learned weights may be no good; "" if nothing speaks against them.
    """

    optimizer: str
    metric: str
    features: list[NBestFeature]
    mbr: MbrMetricName | None = None
    systems: dict[str, list[RerankedRun]] = field(default_factory=dict)
    caution: str = ""

    def __repr__(self) -> str:
        scores = {name: round(runs[0].dev_score, 2) for name, runs in self.systems.items()}
        return f"<{with_caution(f'tuning.rerank {self.metric} of dev: {scores}', self.caution)}>"

    @property
    def best(self) -> RerankedRun:
        """The run of the last system, that with all features, with the best dev score."""
        sign = -1 if self.metric in LESS_IS_BETTER else 1
        *_, runs = self.systems.values()
        return max(runs, key=lambda run: sign * run.dev_score)

    def outputs(self, directory: StrPath) -> dict[str, list[Path]]:
        """The chosen test hypotheses of each system, in the directory."""
        return {
            name: [Path(directory) / run.test for run in runs]
            for name, runs in self.systems.items()
        }


def rerank_lists(
    dev: ListedText,
    test: ListedText | None,
    out: Path,
    config: RerankConfig,
    features: Sequence[NBestFeature] = (),
    seed: int = 1,
    jobs: int = 1,
    init_weights: Path | None = None,
    overwrite: bool = False,
) -> Reranked:
    """Learn the weights of n-best lists on a dev text, and choose hypotheses of a dev and a test text.

    Args:
        dev: the dev text, with references.
        test: the test text; None for none.
        out: directory to write, missing or empty: weights.json, the lists in Moses's format with the added
            features, and the chosen hypotheses. It appears only when complete.
        config: settings.
        features: features to add to the lists, without stand-ins.
        seed: seed of the first run; the others have the numbers after it.
        jobs: number of threads of the optimiser.
        init_weights: weights.json of a run, or a table of this form, with the weights to start from. Otherwise
            each feature of the list starts with about the same influence, and the added ones with none.
        overwrite: replace the reranking in out.

    Raises:
        InputError: an input file is malformed, a command wrote no list, or the lists have other features.
        ConfigError: a feature has the name of one of the list, or a stand-in; an input would be overwritten; or
            there is a reranking in out, and no `overwrite`.
    """
    for feature in features:
        if feature.stand_in:
            raise ConfigError(f"{feature.name}: nothing is searched; leave :{feature.stand_in} out")
    refuse_overwriting([out], [*dev.files, *([] if test is None else test.files)])
    if (out / WEIGHTS_NAME).exists() and not overwrite:
        raise ConfigError(f"{out}: there is a run already; replace it with --overwrite")
    with held_file(out), open_directory(out, BY_LISTS if overwrite else ()) as directory:
        references = config.chosen_metric.references(dev.references, dev.source)
        likeness = config.chosen_mbr.likeness()
        if test is not None and test.references:
            read_references(test.references, test.source)  # refused before any work is done
        texts = {"dev": dev} if test is None else {"dev": dev, "test": test}
        found = Reranked(config.optimizer, config.metric, [*features], config.mbr)
        names = [feature.name for feature in features] + ([MBR_FEATURE] if config.mbr else [])
        with ListFeatures(features) as added:
            lists = {
                part: with_features(text, directory / f"{part}.nbest.gz", added, likeness, config)
                for part, text in texts.items()
            }
        _check_same_features(lists, texts)
        pool = read_pool([lists["dev"]], references, bars_of(config.list_format))
        learned = _learn(pool, names, config, seed, jobs, init_weights)
        rows = [weights for _, _, weights in learned]
        chosen = {part: _chosen(lists[part], rows, texts[part], config) for part in texts}
        for place, (system, number, weights) in enumerate(learned):
            files = {part: f"{part}.{system}.{number}.out" for part in texts}
            for part, name in files.items():
                write_lines(directory / name, chosen[part][place])
            sums = references.statistics(enumerate(chosen["dev"][place])).sum(axis=0)
            score = float(references.metric.value(sums))
            run = RerankedRun(number, weights, score, **files)
            found.systems.setdefault(system, []).append(run)
        found = replace(found, caution=_caution(found, pool, config))
        write_json(directory / WEIGHTS_NAME, asdict(found))
    chosen_dev = [out / run.dev for runs in found.systems.values() for run in runs]
    say_notes(dev.source, dev.references, chosen_dev)
    return found


def with_features(
    text: ListedText,
    out: Path,
    added: ListFeatures,
    likeness: Likeness | None,
    config: RerankConfig,
) -> Path:
    """Write the list of a text in Moses's format, with the added features."""
    plain = out.with_name(f"plain.{out.name}")
    sources = list(read_text_lines(text.source))
    blank = {number for number, line in enumerate(sources) if not line.split()}
    form = (config.list_format, len(sources))
    write_moses_list(text.nbest, *form, plain, config.word_penalty, blank, config.list_size)
    own = dense_features(plain)
    for name in (MBR_FEATURE, *(feature.name for feature in added.features)):
        if name in own and not (name == MBR_FEATURE and likeness is None):
            raise ConfigError(f"{text.nbest} has a feature {name}; use another name")
    added.add(plain, text.source, out)
    plain.unlink(missing_ok=True)
    if likeness is not None:
        add_mbr(out, text.source, likeness, out)
    return out


def dense_features(nbest: Path) -> list[str]:
    """The features of a list, by its first hypothesis; sparse ones are left out."""
    first = next(read_nbest(nbest))
    return [name for name in parse_features(first, nbest) if "_" not in name]


def _check_same_features(lists: Mapping[str, Path], texts: Mapping[str, ListedText]) -> None:
    """Refuse a test list with other features than the dev list: no weights would be learned for them."""
    expected = dense_features(lists["dev"])
    for part, nbest in lists.items():
        if (found := dense_features(nbest)) != expected:
            features = ", ".join(found)
            raise InputError(texts[part].nbest, 1, f"the features {features}", ", ".join(expected))


def _learn(
    pool: NBestPool,
    added: Sequence[str],
    config: RerankConfig,
    seed: int,
    jobs: int,
    init_weights: Path | None,
) -> list[tuple[str, int, Weights]]:
    """The system, the seed and the weights of all runs."""
    start = _start(pool, added, init_weights)
    own = tuple(name for name in pool.names if name.rpartition("_")[0] in added)
    kept = (*config.search.frozen, *filter(is_sparse, pool.names))
    systems = {RERANKED: own}
    if added:
        systems["+".join(["", *added])] = ()
    optimize = load_optimizer(config.optimizer)
    learned: list[tuple[str, int, Weights]] = [(FIRST, seed, {})]
    for system, frozen in systems.items():
        settings = replace(config.search, frozen=(*kept, *frozen))
        # From weights of 0 alone, as of a plain list, most optimisers move nowhere.
        begin = start if frozen or start.any() else _start(pool, (), None)
        for number in range(seed, seed + config.n_runs):
            found = optimize(pool, begin[None], settings, number, jobs)
            learned.append((system, number, grouped_weights(found.weights)))
    return learned


def _start(
    pool: NBestPool, added: Collection[str], init_weights: Path | None
) -> NDArray[np.float64]:
    """The weights to start from, *Shape:* (n_features,); see `rerank_lists`."""
    if init_weights is not None:
        return weight_row(pool, read_weights(init_weights))
    is_own = [not is_sparse(name) and name.rpartition("_")[0] not in added for name in pool.names]
    weights = np.where(is_own & ~pool.constant, 1.0, 0.0) / np.maximum(spread_within(pool), 1e-9)
    return np.asarray(weights / max(np.abs(weights).sum(), 1e-12))


def _caution(found: Reranked, pool: NBestPool, config: RerankConfig) -> str:
    """Why the weights may be no good, by the mean dev scores of the systems; "" if nothing says so."""
    means = {name: mean(run.dev_score for run in runs) for name, runs in found.systems.items()}
    first = {FIRST: means.pop(FIRST)}
    sign = pool.metric.sign
    cautions = {name: caution_of(score, first, sign) for name, score in means.items()}
    told = [f"{name}: {caution}" for name, caution in cautions.items() if caution]
    told.append(nothing_to_learn(pool, config.search.frozen))
    return "; ".join(filter(None, told))


def _chosen(
    nbest: Path, rows: Sequence[Weights], text: ListedText, config: RerankConfig
) -> list[list[bytes]]:
    """The words chosen by each of the weights, as the text's own format has them."""
    chosen = best_of_each(nbest, rows, count_lines(text.source))
    return [[*map(bars_of(config.list_format), output)] for output in chosen]
