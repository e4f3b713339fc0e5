"""The tuning loop: decode, pool, optimise, until the weights settle (mert-moses.pl, made resumable)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.cluster import Cluster
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.json_files import write_json
from moses_bridge.base.lock import held_directory
from moses_bridge.base.text_lines import say
from moses_bridge.base.textio import read_lines
from moses_bridge.decoding.builtin_decoder import ClusterDecoder
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import Decoder, DecoderConfig
from moses_bridge.formats.moses_ini import MosesIni, read_ini
from moses_bridge.formats.nbest import BAR, ESCAPED_BAR
from moses_bridge.formats.text_notes import say_notes
from tuning.loop.fingerprints import ParallelText, fingerprint_commands, fingerprint_ini
from tuning.loop.ini_weights import (
    scattered,
    start_weights,
    untuneable_columns,
    without_columns,
    write_tuned_ini,
)
from tuning.loop.list_features import ListFeatures, NBestFeature, decode_text, is_decoded
from tuning.loop.run_directory import (
    INI_NAME,
    LIMIT,
    Iteration,
    TuningRun,
    Weights,
    best_iteration,
    caution_of,
    claim,
    optimised_digest,
    read_optimised,
    refuse_written,
    save_run,
    with_caution,
)
from tuning.loop.settings import TuningConfig
from tuning.metrics.bleu import References, bleu, length_ratio
from tuning.metrics.by_name import MetricChoice
from tuning.metrics.metric import MetricReferences
from tuning.optimisers.by_name import load_optimizer
from tuning.optimisers.nbest_pool import (
    NBestPool,
    grouped_weights,
    is_sparse,
    merge_pools,
    nothing_to_learn,
    oracle_value,
    weight_row,
)
from tuning.optimisers.pool_reader import read_pool


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


@dataclass(frozen=True)
class TunedSystem:
    """A system to tune.

    Attributes:
        init_weights: weights.json of another run, or a table of this form; a feature missing there keeps the
            weights of the ini.
    """

    ini: Path
    nbest_features: Sequence[NBestFeature] = ()
    init_weights: Path | None = None


def tune(
    system: TunedSystem,
    text: ParallelText,
    out: Path,
    config: TuningConfig,
    seed: int = 1,
    workers: Workers = Workers(),
    resume: bool = False,
    overwrite: bool = False,
) -> TuningRun:
    """Find weights with a high dev BLEU; `resume` continues the run in `out`, `overwrite` replaces it.

    The directory gets weights.json, moses.ini, and each iteration's n-best list and output. The seed is that of
    the optimiser and of the scattered start.

    Returns:
        The run, with the weights of its last decoding or those with the best *decoded* dev BLEU.

    Raises:
        InputError: an input file is malformed.
        ConfigError: out holds another run, an added feature has the name of another, or an input would be
            overwritten.
        UserError: another command is writing into out.
    """
    ini = read_ini(system.ini)
    further = [] if system.init_weights is None else [system.init_weights]
    refuse_written(out, [*text.files, *further, *ini.files()])
    config = replace(config, decoder=replace(config.decoder, kind=config.decoder.chosen_kind))
    run = _started(system, ini, config, seed)
    counted = CountedText.read(text, config.chosen_metric)
    files = fingerprint_ini(ini) | fingerprint_commands(run.commands())
    texts = text.hashes()
    fingerprint = {
        "files": files,
        "text": texts,
        "config": config.as_record(),
        "features": [asdict(feature) for feature in run.nbest_features],
        "start": run.weights,
        "seed": seed,
    }
    run.hashes = files | texts
    with ExitStack() as stack:
        stack.enter_context(held_directory(out))
        claim(out, fingerprint, resume, overwrite)
        decoder = stack.enter_context(workers.open_decoder(system.ini, config.decoder))
        lists = stack.enter_context(ListFeatures(run.nbest_features))
        Loop(decoder, lists, counted, out, config, run, workers.jobs).run_to_end(run.weights)
        say_notes(text.source, text.references, [out / f"iter{run.kept:02}.out"])
        if any(BAR in line for path in text.references for line in read_lines(path)):
            say(
                f"note: '|||' of the references is another word in n-best lists, {ESCAPED_BAR.decode()}"
            )
        save_run(run, out)
        write_tuned_ini(ini, run.weights, out / INI_NAME)
    return run


def _started(system: TunedSystem, ini: MosesIni, config: TuningConfig, seed: int) -> TuningRun:
    """A run before its first decoding, with the weights it starts from."""
    start = start_weights(ini, _added(config, system.nbest_features), system.init_weights)
    start = without_columns(start, config.left_out)
    fixed = {*config.search.frozen, *untuneable_columns(ini)}
    return TuningRun(
        ini=str(system.ini),
        weights=scattered(start, config.start_spread, seed, fixed),
        dev_bleu=-1.0,
        seed=seed,
        nbest_size=config.nbest_size,
        decoder=asdict(config.decoder),
        nbest_features=[*system.nbest_features],
        metric=config.metric,
    )


def _added(config: TuningConfig, nbest_features: Sequence[NBestFeature]) -> dict[str, float]:
    added = [(feature.name, feature.initial_weight) for feature in nbest_features]
    added += [(lm.name, config.neural_weight) for lm in config.decoder.neural_lms]
    for name, n_times in Counter(name for name, _ in added).items():
        if n_times > 1:
            raise ConfigError(f"the feature {name} is added twice; use another name")
    return dict(added)


@dataclass(frozen=True)
class CountedText:
    """A dev text whose translations are counted, by BLEU and by the metric tuned for."""

    source: Path
    references: References
    counter: MetricReferences

    @classmethod
    def read(cls, text: ParallelText, metric: MetricChoice) -> CountedText:
        """Read the references of a text."""
        references = References.read(text.references, text.source)
        return cls(text.source, references, metric.references(text.references, text.source))


@dataclass
class Loop:
    """The state of `tune` between iterations.

    Attributes:
        lists: adds the features of the run to n-best lists.
        run: the run; iterations are added to it.
        jobs: number of threads of the optimiser.
    """

    decoder: Decoder
    lists: ListFeatures
    text: CountedText
    out: Path
    config: TuningConfig
    run: TuningRun
    jobs: int

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
        best = best_iteration(self.run.iterations, self.text.counter.metric.sign)
        iteration = self.run.iterations[best if is_best else -1]
        self.run.weights, self.run.dev_bleu = iteration.weights, iteration.bleu
        hint = "" if is_best else '; keep = "best" keeps the best one'
        self.run.caution = self.caution(iteration, pool, hint)
        told = with_caution(f"kept: iteration {self.run.kept}; {self.run.end}", self.run.caution)
        print(told, file=sys.stderr, flush=True)

    def caution(self, kept: Iteration, pool: NBestPool | None, hint: str = "") -> str:
        """Why the kept weights, with this pool, may be no good, as in `caution_of`; "" if nothing says so."""
        numbered = enumerate(self.run.iterations, start=1)
        others = {f"iteration {number}": each.value for number, each in numbered}
        worse = caution_of(kept.value, others, self.text.counter.metric.sign, hint)
        nothing = nothing_to_learn(pool, self.frozen(kept.weights, pool)) if pool else ""
        return "; ".join(filter(None, (worse, nothing)))

    def decode(self, number: int, weights: Weights) -> tuple[Iteration, NBestPool]:
        """Decode with the weights, add the n-best features and measure; also the hypotheses of the list."""
        nbest = self.out / f"iter{number:02}.nbest.gz"
        output = self.out / f"iter{number:02}.out"
        if not is_decoded(weights, output, nbest):
            source, size = self.text.source, self.config.nbest_size
            decode_text(self.decoder, source, output, nbest, weights, self.lists, size)
        pool = read_pool([nbest], self.text.counter)
        return self.measured(weights, output, oracle_value(pool)), pool

    def measured(self, weights: Weights, output: Path, oracle: float) -> Iteration:
        """An iteration that ended in a file of translations; `oracle` as in `Iteration`."""
        sums = self.text.references.output_statistics(output).sum(axis=0)
        score = None
        if self.config.metric != "bleu":
            statistics = self.text.counter.output_statistics(output)
            score = float(self.text.counter.metric.value(statistics.sum(axis=0)))
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
            search = replace(self.config.search, frozen=self.frozen(iteration.weights, pool))
            optimize, seed = load_optimizer(self.config.optimizer), self.run.seed * 1000 + number
            result = optimize(pool, np.array(starts), search, seed, self.jobs)
            found = grouped_weights(result.weights)
            found = {name: values for name, values in found.items() if name in iteration.weights}
            optimised = asdict(result) | {"weights": iteration.weights | found}
            write_json(path, optimised | {"digest": optimised_digest(optimised, iteration.weights)})
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
        best = best_iteration(found, self.text.counter.metric.sign) if found else 0
        if found and len(found) - 1 - best >= self.config.patience:
            return f"no better in {self.config.patience} decodings"
        return ""

    def end_of(self, iteration: Iteration, change: float) -> str:
        """Why another iteration would change nothing; "" if it might.

        `change` is the optimiser's change of the last iteration's weights; see `weight_change`.
        """
        if self.has_dropped_none:
            return ""
        if change < self.config.min_weight_change:
            return "weights settled"
        if self.config.keep == "last" or len(self.run.iterations) == 1:
            return ""
        gain = self.text.counter.metric.sign * ((iteration.pool_bleu or 0.0) - iteration.value)
        return "no further gain expected on the pool" if gain < self.config.min_pool_gain else ""


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
