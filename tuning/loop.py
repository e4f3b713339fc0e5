"""The tuning loop: decode, pool, optimise, until the weights settle (mert-moses.pl, made resumable)."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.config import check_least
from moses_bridge.decoder import Decoder, DecoderConfig, open_decoder
from moses_bridge.errors import ConfigError
from moses_bridge.formats.moses_ini import read_ini, with_weights, write_ini
from moses_bridge.formats.weights import read_weights
from moses_bridge.json_files import read_json, write_json
from moses_bridge.ngram_scorer import NeuralLm
from tuning.bleu_stats import References, bleu, length_ratio
from tuning.kbmira import optimize_kbmira
from tuning.mert import optimize_mert
from tuning.nbest_pool import NBestPool, grouped_weights, merge_pools, read_pool
from tuning.optimizer import Optimizer, OptimizerName, OptimizerOptions
from tuning.pro import optimize_pro
from tuning.rerank import NBestFeature, add_features, rerank, search_weights
from tuning.run_directory import (
    INI_NAME,
    Iteration,
    TuningRun,
    Weights,
    claim,
    file_hash,
    fingerprint_ini,
    save_run,
)
from tuning.sparse_features import is_sparse

OPTIMIZERS: dict[OptimizerName, Optimizer] = {
    "mert": optimize_mert,
    "kbmira": optimize_kbmira,
    "pro": optimize_pro,
}


@dataclass(frozen=True)
class TuningOptions:
    """Settings of `tune`.

    Attributes:
        optimizer: how weights are found on the pool.
        nbest_size: distinct hypotheses for a sentence.
        max_iterations: decodings of the dev text; the last one only measures.
        min_weight_change: the loop ends when no normalised weight moves by more.
        min_pool_gain: the loop ends when the pool promises no more BLEU (0 to 100) than this.
        search: settings of the optimiser.
        decoder: settings of the decoder.
    """

    optimizer: OptimizerName = "mert"
    nbest_size: int = 100
    max_iterations: int = 8
    min_weight_change: float = 1e-4
    min_pool_gain: float = 0.01
    search: OptimizerOptions = field(default_factory=OptimizerOptions)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)

    def __post_init__(self) -> None:
        check_least(self, {"nbest_size": 1, "max_iterations": 1})


def tune(
    ini: Path,
    source: Path,
    references: Sequence[Path],
    out: Path,
    options: TuningOptions,
    seed: int = 1,
    jobs: int = 1,
    resume: bool = False,
    nbest_features: Sequence[NBestFeature] = (),
    init_weights: Path | None = None,
) -> TuningRun:
    """Find weights with a high dev BLEU.

    Args:
        ini: the system; its weights are the start.
        source: dev source text.
        references: dev references, one file each.
        out: run directory: weights.json, moses.ini, and each iteration's n-best list and output.
        options: settings.
        seed: of the optimiser.
        jobs: processes of the decoder, threads of the optimiser.
        resume: continue what stands in out.
        nbest_features: features that external commands add to the n-best lists.
        init_weights: weights.json of another run, or such a table; weights it does not have keep the
            ini's.

    Returns:
        The run; its weights are those with the best *decoded* dev BLEU.

    Raises:
        InputError: an input file is malformed.
        ConfigError: out holds another run, or an added feature has the name of another.
    """
    start = initial_weights(ini, _added(options, nbest_features), init_weights)
    reference = References.read(references, source)
    tables = fingerprint_ini(ini)
    texts = {"source": file_hash(source)}
    texts |= {f"reference{i}": file_hash(path) for i, path in enumerate(references)}
    fingerprint = {
        "tables": tables,
        "text": texts,
        "options": asdict(options),
        "features": [asdict(feature) for feature in nbest_features],
        "start": start,
        "seed": seed,
    }
    out.mkdir(parents=True, exist_ok=True)
    claim(out, fingerprint, resume)
    run = TuningRun(
        str(ini),
        start,
        -1.0,
        seed,
        options.nbest_size,
        asdict(options.decoder),
        [*nbest_features],
        hashes=tables | texts,
    )
    with open_decoder(ini, options.decoder, jobs) as decoder:
        loop = _Loop(decoder, source, reference, out, options, run, jobs)
        loop.run_to_end(start)
    save_run(run, out)
    parsed = read_ini(ini)
    tuned = {name: values for name, values in run.weights.items() if name in parsed.weights}
    write_ini(with_weights(parsed, tuned), out / INI_NAME)
    return run


def _added(options: TuningOptions, nbest_features: Sequence[NBestFeature]) -> dict[str, float]:
    """The features that the ini does not have, and their first weights."""
    added = [(feature.name, feature.initial_weight) for feature in nbest_features]
    if options.decoder.neural_lm is not None:
        added.append((NeuralLm.parse(options.decoder.neural_lm).name, 0.0))
    for name, n_times in Counter(name for name, _ in added).items():
        if n_times > 1:
            raise ConfigError(f"the feature {name} is added twice; use another name")
    return dict(added)


def initial_weights(ini: Path, added: Mapping[str, float], init_weights: Path | None) -> Weights:
    """Weights of the ini and of features it does not have, overlaid by those of another run.

    What the other run does not know (an added column) starts at 0 then, so that all systems that
    start from one run have the same first n-best lists.

    Raises:
        InputError: a file is malformed.
        ConfigError: the ini has a feature of an added name.
    """
    parsed = read_ini(ini)
    for feature in parsed.features:
        if feature.name in added:
            raise ConfigError(f"{ini} has a feature {feature.name}; use another name")
    weights = {name: list(values) for name, values in parsed.weights.items()}
    weights |= {name: [weight] for name, weight in added.items()}
    if init_weights is not None:
        for name, values in read_weights(init_weights).items():
            if name in weights:
                n_missing = len(weights[name]) - len(values)
                weights[name] = [*values, *[0.0] * n_missing]
    return weights


class _Loop:
    """The state of `tune` between iterations."""

    def __init__(
        self,
        decoder: Decoder,
        source: Path,
        references: References,
        out: Path,
        options: TuningOptions,
        run: TuningRun,
        jobs: int,
    ) -> None:
        self.decoder = decoder
        self.source = source
        self.references = references
        self.out = out
        self.options = options
        self.run = run
        self.jobs = jobs
        self.pool: NBestPool | None = None

    def run_to_end(self, start: Weights) -> None:
        """Iterate; the run has the best weights at the end."""
        weights = start
        for number in range(1, self.options.max_iterations + 1):
            iteration = self.decode(number, weights)
            self.run.iterations.append(iteration)
            if iteration.bleu > self.run.dev_bleu:
                self.run.weights, self.run.dev_bleu = weights, iteration.bleu
            if number < self.options.max_iterations:
                following = self.optimise(number, iteration)
            _report(number, iteration)
            if number == self.options.max_iterations or self.settled(iteration, weights, following):
                return
            weights = following

    def decode(self, number: int, weights: Weights) -> Iteration:
        """Decode with the weights, add the n-best features and measure."""
        nbest = self.out / f"iter{number:02}.nbest.gz"
        output = self.out / f"iter{number:02}.out"
        done = self.out / f"iter{number:02}.decoded.json"
        if not (done.exists() and read_json(done) == weights):
            translate(
                self.decoder,
                self.source,
                output,
                nbest,
                weights,
                self.run.nbest_features,
                self.options.nbest_size,
            )
            write_json(done, weights)
        pool = read_pool([nbest], self.references)
        self.pool = pool if self.pool is None else merge_pools(self.pool, pool)
        sums = self.references.output_statistics(output).sum(axis=0)
        return Iteration(weights, float(bleu(sums)), length_ratio(sums), oracle_bleu(pool))

    def optimise(self, number: int, iteration: Iteration) -> Weights:
        """New weights from all n-best lists so far; kept on disk for resuming."""
        assert self.pool is not None
        path = self.out / f"iter{number:02}.optimised.json"
        if not path.exists():
            starts = [self.as_row(iteration.weights)]
            starts += [
                self.as_row(earlier.weights)
                for earlier in self.run.iterations[:-1]
                if earlier.weights != iteration.weights
            ]
            optimizer = OPTIMIZERS[self.options.optimizer]
            result = optimizer(
                self.pool,
                np.array(starts),
                replace(self.options.search, frozen=self.frozen(iteration.weights)),
                self.run.seed * 1000 + number,
                self.jobs,
            )
            found = grouped_weights(result.weights)
            found = {name: values for name, values in found.items() if name in iteration.weights}
            write_json(path, asdict(result) | {"weights": iteration.weights | found})
        record = read_json(path)
        iteration.pool_bleu = record["bleu"]
        iteration.restarts, iteration.frozen = record["restarts"], record["frozen"]
        weights: Weights = record["weights"]
        return weights

    def as_row(self, weights: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
        """Weights in the order of the pool's columns, 0 for those without, *Shape:* (n_features,)."""
        assert self.pool is not None
        columns = (name.rpartition("_") for name in self.pool.names)
        return np.array(
            [weights[name][int(number)] if name in weights else 0.0 for name, _, number in columns]
        )

    def frozen(self, weights: Weights) -> tuple[str, ...]:
        """Columns that stay: those of the settings, and sparse features, for which an ini has no weights."""
        assert self.pool is not None
        sparse = (name for name in self.pool.names if name.rpartition("_")[0] not in weights)
        return (*self.options.search.frozen, *sparse)

    def settled(self, iteration: Iteration, weights: Weights, following: Weights) -> bool:
        """Whether another iteration would change nothing."""
        change = np.abs(_unit(self.as_row(following)) - _unit(self.as_row(weights))).max()
        gain = (iteration.pool_bleu or 0.0) - iteration.bleu
        return bool(
            change < self.options.min_weight_change
            or (len(self.run.iterations) > 1 and gain < self.options.min_pool_gain)
        )


def translate(
    decoder: Decoder,
    source: Path,
    output: Path,
    nbest: Path | None,
    weights: Weights,
    nbest_features: Sequence[NBestFeature],
    nbest_size: int,
) -> None:
    """Decode a text; with n-best features the output is the best of the reranked list.

    Args:
        decoder: an open decoder.
        source: the text.
        output: one translation a line.
        nbest: the n-best list, with the added features; None keeps none.
        weights: by feature; those that the decoder does not know count in the reranking alone, or
            for their stand-ins in the search too.
        nbest_features: features to add.
        nbest_size: hypotheses for a sentence.
    """
    known = search_weights(weights, nbest_features)
    if not nbest_features:
        decoder.decode(source, output, known, nbest, nbest_size)
        return
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".nbest.") as directory:
        plain, full = Path(directory) / "plain.gz", Path(directory) / "full.gz"
        first = Path(directory) / "first"  # the output's name is for what was reranked
        decoder.decode(source, first, known, plain, nbest_size)
        add_features(plain, source, nbest_features, full)
        rerank(full, weights, source, output)
        if nbest is not None:
            full.replace(nbest)


def oracle_bleu(pool: NBestPool) -> float:
    """BLEU (0 to 100) of the hypotheses with the best smoothed sentence BLEU: what reranking could reach.

    Sentence BLEU adds one to the counts of orders above 1 (Lin & Och 2004).
    """
    statistics = pool.statistics.astype(np.float64)
    matches, totals = statistics[:, 0:-1:2], statistics[:, 1:-1:2]
    smooth = np.array([0.0, 1.0, 1.0, 1.0])
    precision = np.log(np.maximum(matches + smooth, 1e-9) / np.maximum(totals + smooth, 1e-9))
    brevity = np.minimum(0.0, 1 - statistics[:, -1] / np.maximum(totals[:, 0], 1e-9))
    score = precision.mean(axis=1) + brevity
    top = np.maximum.reduceat(score, pool.offsets[:-1])
    chosen = np.flatnonzero(score == np.repeat(top, np.diff(pool.offsets)))
    first = chosen[np.searchsorted(chosen, pool.offsets[:-1])]
    return float(bleu(pool.statistics[first].sum(axis=0)))


def _unit(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(weights / max(np.abs(weights).sum(), 1e-12))


def _report(number: int, iteration: Iteration) -> None:
    promised = "" if iteration.pool_bleu is None else f", {iteration.pool_bleu:.2f} on the pool"
    print(
        f"iteration {number}: dev BLEU {iteration.bleu:.2f}{promised}, "
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
