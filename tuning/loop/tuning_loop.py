"""The tuning loop: decode, pool, optimise, until the weights settle (mert-moses.pl, made resumable)."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.cluster import Cluster
from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.json_files import read_json, write_json
from moses_bridge.base.lock import held_directory
from moses_bridge.decoding.cluster_decoder import ClusterDecoder
from moses_bridge.decoding.decoder import Decoder, DecoderConfig, open_decoder
from moses_bridge.formats.moses_ini import WEIGHT_FILE, parse_ini, read_ini
from moses_bridge.formats.moses_ini_edits import (
    moved_to,
    with_weight_file,
    with_weights,
    write_ini,
)
from moses_bridge.formats.weights import sparse_weights, write_weight_file
from tuning.loop.iteration_files import Weights, read_optimised
from tuning.loop.list_features import ListFeatures
from tuning.loop.nbest_choice import NBestFeature, choose_best, search_weights
from tuning.loop.run_directory import (
    INI_NAME,
    SPARSE_NAME,
    Iteration,
    TuningRun,
    best_iteration,
    claim,
    fingerprint_commands,
    fingerprint_ini,
    fingerprint_texts,
    refuse_written,
    save_run,
)
from tuning.loop.start import scattered, start_weights, untuneable_columns, without_columns
from tuning.optimisers.by_name import OptimizerName, load_optimizer
from tuning.optimisers.contract import OptimizerConfig
from tuning.pools.bleu_stats import References, bleu, length_ratio
from tuning.pools.metric import MetricReferences
from tuning.pools.metric_by_name import MetricChoice
from tuning.pools.metric_name import MetricName
from tuning.pools.nbest_pool import NBestPool, grouped_weights, merge_pools, read_pool
from tuning.pools.sparse_features import is_sparse

LIMIT = "the limit of iterations"
METRIC_SETTINGS = ("metric", "metric_command", "metric_cache")


@dataclass(frozen=True)
class TuningConfig:
    """Settings of `tune`.

    Attributes:
        optimizer: optimiser of the weights. Batch MIRA varies least between tunings, and translates other
            texts as well as any.
        nbest_size: number of distinct hypotheses of a sentence.
        max_iterations: largest number of decodings of the dev text; the last one only measures.
        min_weight_change: the loop ends when no normalised weight moves by more.
        min_pool_gain: the loop ends when the pool offers no more BLEU (0 to 100) than this; for keep = "best".
        patience: the loop ends after this many decodings in a row without a better one, not counting the
            start; for keep = "best".
        keep: weights to keep: "last", those of the last decoding, or "best", those with the best decoded dev
            BLEU. If an optimiser's weights settle, like kbmira's, the best of several decodings is best by
            chance.
        dropped_lists: number of first n-best lists to drop from the pool once the next list is made. Early
            lists depend on the initial weights and bias later ones while they are in the pool. The loop does
            not end before it drops them. 0 keeps all lists, as Moses does.
        left_out: columns with a fixed weight of 0, like "TranslationModel0_2": the system is tuned as if it
            did not have them.
        start_spread: each weight of the start is multiplied by exp(start_spread z), z normal and drawn
            with the seed, so that runs do not share a start. 0 starts from the weights as they are.
        neural_weight: initial weight of each neural model in the search, unless --init-weights has one. With
            0 the first n-best lists are those of the system without the model.
        metric: what weights are tuned for. min_pool_gain, and keep = "best", then refer to it.
        metric_command: command of the metric "column": {hypotheses}, {source} and {reference} become paths of
            files with a line for each hypothesis, and it writes a number for each to {out}; more is better.
        metric_cache: file that keeps the numbers of metric_command; "" keeps them in memory alone.
        search: settings of the optimiser.
        decoder: settings of the decoder.
    """

    optimizer: OptimizerName = "kbmira"
    nbest_size: Annotated[int, AtLeast(1)] = 100
    max_iterations: Annotated[int, AtLeast(1)] = 8
    min_weight_change: float = 1e-4
    min_pool_gain: float = 0.01
    patience: Annotated[int, AtLeast(1)] = 3
    keep: Literal["best", "last"] = "last"
    start_spread: Annotated[float, AtLeast(0)] = 0.0
    neural_weight: float = 0.0
    dropped_lists: Annotated[int, AtLeast(0)] = 0
    left_out: tuple[str, ...] = ()
    metric: MetricName = "bleu"
    metric_command: str = ""
    metric_cache: str = ""
    search: OptimizerConfig = field(default_factory=OptimizerConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)

    def __post_init__(self) -> None:
        check_limits(self)
        _ = self.chosen_metric
        if self.dropped_lists >= self.max_iterations:
            raise ConfigError(
                f"dropped_lists is {self.dropped_lists}, max_iterations {self.max_iterations}: "
                "no list would replace the dropped ones; raise max_iterations"
            )

    @property
    def chosen_metric(self) -> MetricChoice:
        """The metric with its command."""
        return MetricChoice(self.metric, self.metric_command, self.metric_cache)

    def as_record(self) -> dict[str, Any]:
        """The settings as JSON values; those of the metric only where it is not BLEU."""
        record = asdict(self)
        if self.metric == "bleu":
            for name in METRIC_SETTINGS:
                del record[name]
        return record


@dataclass(frozen=True)
class Workers:
    """The processes and threads of a run.

    Attributes:
        jobs: number of processes of the decoder on this machine, and of threads of the optimiser.
        cluster: Ray cluster for decoding; None to decode on this machine.
    """

    jobs: int = 1
    cluster: Cluster | None = None

    def open_decoder(self, ini: Path, config: DecoderConfig) -> AbstractContextManager[Decoder]:
        """A decoder of the system, for a `with` block."""
        if self.cluster is None:
            return open_decoder(ini, config, self.jobs)
        return ClusterDecoder(ini, config, self.cluster)


def tune(
    ini: Path,
    source: Path,
    references: Sequence[Path],
    out: Path,
    config: TuningConfig,
    seed: int = 1,
    workers: Workers = Workers(),
    resume: bool = False,
    nbest_features: Sequence[NBestFeature] = (),
    init_weights: Path | None = None,
) -> TuningRun:
    """Find weights with a high dev BLEU.

    Args:
        ini: the system, with its initial weights.
        source: dev source text.
        references: dev references, one file each.
        out: run directory: weights.json, moses.ini, and each iteration's n-best list and output.
        config: settings.
        seed: seed of the optimiser and of the scattered start.
        workers: processes and threads.
        resume: continue the run in out.
        nbest_features: features added to the n-best lists by commands or scorer processes.
        init_weights: weights.json of another run, or a table of this form; a feature missing there keeps the
            weights of the ini.

    Returns:
        The run, with the weights of its last decoding or those with the best *decoded* dev BLEU.

    Raises:
        InputError: an input file is malformed.
        ConfigError: out holds another run, an added feature has the name of another, or an input would be
            overwritten.
        UserError: another command is writing into out.
    """
    read = [source, *references, *([] if init_weights is None else [init_weights])]
    refuse_written(out, [*read, *read_ini(ini).files()])
    config = replace(config, decoder=replace(config.decoder, kind=config.decoder.chosen_kind))
    start = start_weights(ini, _added(config, nbest_features), init_weights)
    start = without_columns(start, config.left_out)
    fixed = {*config.search.frozen, *untuneable_columns(ini)}
    start = scattered(start, config.start_spread, seed, fixed)
    reference = References.read(references, source)
    counter = config.chosen_metric.references(references, source)
    run = TuningRun(
        str(ini),
        start,
        -1.0,
        seed,
        config.nbest_size,
        asdict(config.decoder),
        [*nbest_features],
        metric=config.metric,
    )
    files = fingerprint_ini(ini) | fingerprint_commands(run.commands())
    texts = fingerprint_texts(source, references)
    fingerprint = {
        "files": files,
        "text": texts,
        "config": config.as_record(),
        "features": [asdict(feature) for feature in nbest_features],
        "start": start,
        "seed": seed,
    }
    run.hashes = files | texts
    with ExitStack() as stack:
        stack.enter_context(held_directory(out))
        claim(out, fingerprint, resume)
        decoder = stack.enter_context(workers.open_decoder(ini, config.decoder))
        lists = stack.enter_context(ListFeatures(nbest_features))
        loop = Loop(decoder, lists, source, reference, counter, out, config, run, workers.jobs)
        loop.run_to_end(start)
        save_run(run, out)
        write_tuned_ini(ini, run.weights, out / INI_NAME)
    return run


def write_tuned_ini(ini: Path, weights: Weights, out: Path) -> None:
    """Write an ini with tuned weights; features without a weight line get one at the end.

    Relative paths lead from the directory of the new ini to the same files. Sparse values with weights in the
    [weight-file] have them in a new one beside the new ini.

    Args:
        ini: the ini to read.
        weights: weights by feature; those of features not in the ini are ignored.
        out: the ini to write.
    """
    old = read_ini(ini)
    parsed = moved_to(old, out.parent)
    unweighted = [
        each.name for each in parsed.features if each.name not in parsed.weights and each.n_scores
    ]
    added = [f"{name}= {' '.join(['1'] * len(weights[name]))}".encode() for name in unweighted]
    if added:
        parsed = parse_ini((*parsed.lines, b"[weight]", *added), ini)
    tuned = {name: values for name, values in weights.items() if name in parsed.weights}
    sparse = [name for name in sparse_weights(old) if name in weights and name not in tuned]
    if sparse:
        new = out.with_name(SPARSE_NAME)
        write_weight_file(new, {name: weights[name][0] for name in sparse})
        is_absolute = Path(old.settings[WEIGHT_FILE][0]).is_absolute()
        parsed = with_weight_file(parsed, new.resolve() if is_absolute else Path(SPARSE_NAME))
    write_ini(with_weights(parsed, tuned), out)


def _added(config: TuningConfig, nbest_features: Sequence[NBestFeature]) -> dict[str, float]:
    """The features added to those of the ini, and their initial weights."""
    added = [(feature.name, feature.initial_weight) for feature in nbest_features]
    added += [(lm.name, config.neural_weight) for lm in config.decoder.neural_lms]
    for name, n_times in Counter(name for name, _ in added).items():
        if n_times > 1:
            raise ConfigError(f"the feature {name} is added twice; use another name")
    return dict(added)


class Loop:
    """The state of `tune` between iterations.

    Args:
        decoder: an open decoder.
        lists: adds the features of the run to n-best lists.
        source: dev source text.
        references: references of the dev text, for BLEU.
        counter: references for the metric tuned for.
        out: the run directory.
        config: settings.
        run: the run; iterations are added to it.
        jobs: number of threads of the optimiser.
    """

    def __init__(
        self,
        decoder: Decoder,
        lists: ListFeatures,
        source: Path,
        references: References,
        counter: MetricReferences,
        out: Path,
        config: TuningConfig,
        run: TuningRun,
        jobs: int,
    ) -> None:
        self.decoder = decoder
        self.lists = lists
        self.source = source
        self.references = references
        self.counter = counter
        self.out = out
        self.config = config
        self.run = run
        self.jobs = jobs

    def run_to_end(self, start: Weights) -> None:
        """Iterate to the end; then the run has the weights to keep."""
        weights = start
        pool: NBestPool | None = None
        for number in range(1, self.config.max_iterations + 1):
            iteration, decoded = self.decode(number, weights)
            is_first = number == self.config.dropped_lists + 1
            pool = decoded if pool is None or is_first else merge_pools(pool, decoded)
            self.run.iterations.append(iteration)
            self.run.end = self.end_before_optimising()
            if not self.run.end:
                following = self.optimise(number, iteration, pool)
                change = weight_change(pool, weights, following)
                self.run.end = self.end_of(iteration, change)
            print_iteration(number, iteration)
            if self.run.end:
                break
            weights = following
        is_best = self.config.keep == "best"
        best = best_iteration(self.run.iterations, self.counter.metric.sign)
        iteration = self.run.iterations[best if is_best else -1]
        self.run.weights, self.run.dev_bleu = iteration.weights, iteration.bleu
        print(f"kept: iteration {self.run.kept}; {self.run.end}", file=sys.stderr, flush=True)

    def decode(self, number: int, weights: Weights) -> tuple[Iteration, NBestPool]:
        """Decode with the weights, add the n-best features and measure.

        Returns:
            The iteration, and the hypotheses of its n-best list.
        """
        nbest = self.out / f"iter{number:02}.nbest.gz"
        output = self.out / f"iter{number:02}.out"
        done = self.out / f"iter{number:02}.decoded.json"
        if not (done.exists() and read_json(done) == weights):
            decode_text(
                self.decoder,
                self.source,
                output,
                nbest,
                weights,
                self.lists,
                self.config.nbest_size,
            )
            write_json(done, weights)
        pool = read_pool([nbest], self.counter)
        return self.measured(weights, output, oracle_value(pool)), pool

    def measured(self, weights: Weights, output: Path, oracle: float) -> Iteration:
        """An iteration that ended in a file of translations; `oracle` as in `Iteration`."""
        sums = self.references.output_statistics(output).sum(axis=0)
        score = None
        if self.config.metric != "bleu":
            statistics = self.counter.output_statistics(output)
            score = float(self.counter.metric.value(statistics.sum(axis=0)))
        return Iteration(weights, float(bleu(sums)), length_ratio(sums), oracle, score=score)

    def optimise(self, number: int, iteration: Iteration, pool: NBestPool) -> Weights:
        """Optimise the weights on the pool; the result is kept on disk for resuming."""
        path = self.out / f"iter{number:02}.optimised.json"
        if not path.exists():
            starts = [weight_row(pool, iteration.weights)]
            starts += [
                weight_row(pool, earlier.weights)
                for earlier in self.run.iterations[:-1]
                if earlier.weights != iteration.weights
            ]
            optimize = load_optimizer(self.config.optimizer)
            result = optimize(
                pool,
                np.array(starts),
                replace(self.config.search, frozen=self.frozen(iteration.weights, pool)),
                self.run.seed * 1000 + number,
                self.jobs,
            )
            found = grouped_weights(result.weights)
            found = {name: values for name, values in found.items() if name in iteration.weights}
            write_json(path, asdict(result) | {"weights": iteration.weights | found})
        record = read_optimised(path, iteration.weights)
        iteration.pool_bleu = record.bleu
        iteration.restarts, iteration.frozen = record.restarts, record.frozen
        low, high = pool.features.min(axis=0), pool.features.max(axis=0)
        names = zip(pool.names, low == high, strict=True)
        iteration.constant = [name for name, is_constant in names if is_constant]
        return record.weights

    def frozen(self, weights: Weights, pool: NBestPool) -> tuple[str, ...]:
        """Columns keeping their weight: frozen or left out by settings, or sparse (no weight in the ini)."""
        sparse = (name for name in pool.names if name.rpartition("_")[0] not in weights)
        left_out = (name for name in self.config.left_out if name in pool.names)
        return (*self.config.search.frozen, *left_out, *sparse)

    @property
    def has_dropped_none(self) -> bool:
        """Whether the lists to drop are still in the pool."""
        return len(self.run.iterations) <= self.config.dropped_lists

    def end_before_optimising(self) -> str:
        """Why this decoding is the last one, whatever the optimiser finds; "" if it is not."""
        if len(self.run.iterations) == self.config.max_iterations:
            return LIMIT
        if self.config.keep == "last" or self.has_dropped_none:
            return ""
        found = self.run.iterations[1:]  # the first weights after a good start are often worse
        best = best_iteration(found, self.counter.metric.sign) if found else 0
        if found and len(found) - 1 - best >= self.config.patience:
            return f"no better in {self.config.patience} decodings"
        return ""

    def end_of(self, iteration: Iteration, change: float) -> str:
        """Why another iteration would change nothing; "" if it might.

        Args:
            iteration: the last iteration.
            change: change of its weights by the optimiser; see `weight_change`.
        """
        if self.has_dropped_none:
            return ""
        gain = self.counter.metric.sign * ((iteration.pool_bleu or 0.0) - iteration.value)
        if change < self.config.min_weight_change:
            return "weights settled"
        if self.config.keep == "last":
            return ""
        if len(self.run.iterations) > 1 and gain < self.config.min_pool_gain:
            return "no further gain expected on the pool"
        return ""


def decode_text(
    decoder: Decoder,
    source: Path,
    output: Path,
    nbest: Path | None,
    weights: Weights,
    lists: ListFeatures,
    nbest_size: int,
    fixed_search: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Decode a text; with n-best features or a fixed search the output is chosen from the n-best list.

    Args:
        decoder: an open decoder.
        source: the text.
        output: one translation a line.
        nbest: the n-best list to keep, with the added features; None keeps none.
        weights: weights by feature. Those unknown to the decoder are used only for choosing from the list,
            or, with a stand-in, during search too.
        lists: adds features to n-best lists.
        nbest_size: number of hypotheses of a sentence.
        fixed_search: weights of the search, if they differ from those for choosing from the list.
    """
    known = fixed_search or search_weights(weights, lists.features)
    if not lists.features and not fixed_search:
        decoder.decode(source, output, known, nbest, nbest_size)
        return
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".nbest.") as directory:
        plain, full = Path(directory) / "plain.gz", Path(directory) / "full.gz"
        first = Path(directory) / "first"  # not `output`: that is chosen from the list
        decoder.decode(source, first, known, plain, nbest_size)
        lists.add(plain, source, full)
        choose_best(full, weights, source, output)
        if nbest is not None:
            full.replace(nbest)


def oracle_value(pool: NBestPool) -> float:
    """The metric of the hypotheses that are best alone, for BLEU by smoothed BLEU: about the best choice."""
    score = pool.metric.oracle_order(pool.statistics)
    top = np.maximum.reduceat(score, pool.offsets[:-1])
    chosen = np.flatnonzero(score == np.repeat(top, np.diff(pool.offsets)))
    first = chosen[np.searchsorted(chosen, pool.offsets[:-1])]
    return float(pool.metric.value(pool.statistics[first].sum(axis=0)))


def weight_row(pool: NBestPool, weights: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
    """Weights in the order of the pool's columns, 0 for a column without one, *Shape:* (n_features,)."""
    columns = (name.rpartition("_") for name in pool.names)
    return np.array(
        [weights[name][int(number)] if name in weights else 0.0 for name, _, number in columns]
    )


def weight_change(pool: NBestPool, weights: Weights, following: Weights) -> float:
    """The largest change of a weight, after normalising both weight vectors to an L1 norm of 1."""
    before, after = weight_row(pool, weights), weight_row(pool, following)
    return float(np.abs(_unit(after) - _unit(before)).max())


def _unit(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(weights / max(np.abs(weights).sum(), 1e-12))


def print_iteration(number: int, iteration: Iteration) -> None:
    """Print the results of an iteration on standard error."""
    tuned_for = "" if iteration.score is None else f", tuned for {iteration.score:.2f}"
    promised = "" if iteration.pool_bleu is None else f", {iteration.pool_bleu:.2f} on the pool"
    print(
        f"iteration {number}: dev BLEU {iteration.bleu:.2f}{tuned_for}{promised}, "
        f"length ratio {iteration.length_ratio:.3f}, oracle {iteration.oracle_bleu:.2f}",
        file=sys.stderr,
        flush=True,
    )
    dense = [name for name in iteration.frozen if not is_sparse(name)]
    if len(dense) < len(iteration.frozen):
        n_sparse = len(iteration.frozen) - len(dense)
        print(f"  {n_sparse} sparse features, not tuned", file=sys.stderr, flush=True)
    if dense:
        names = ", ".join(dense)
        print(f"  constant or frozen, weight kept: {names}", file=sys.stderr, flush=True)
