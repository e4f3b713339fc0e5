"""Tuned systems on a test text: translate with each run's weights, measure, compare."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.config import check_least, from_mapping
from moses_bridge.decoder import DecoderConfig, open_decoder
from moses_bridge.errors import ConfigError
from tuning.bleu_stats import References, bleu, length_ratio, precisions
from tuning.detokenised import DetokenisedReferences, DetokenisedScores
from tuning.loop import translate
from tuning.run_directory import TuningRun, check_unchanged, file_hash, load_run
from tuning.significance import approximate_randomisation, bootstrap_deviation


@dataclass(frozen=True)
class CompareOptions:
    """Settings of `compare`.

    Attributes:
        n_trials: deals of the approximate randomisation.
        n_samples: test sets of the bootstrap.
        seed: of both.
        target: language of the detokenizer.
    """

    n_trials: int = 2000
    n_samples: int = 1000
    seed: int = 1
    target: str = "fr"

    def __post_init__(self) -> None:
        check_least(self, {"n_trials": 1, "n_samples": 2})


@dataclass(frozen=True)
class ResultRow:
    """One system in the table.

    Attributes:
        system: its name.
        dev_bleu: mean over the runs, 0 to 100; tokenised.
        dev_sd: standard deviation over the runs; None with one run.
        test_bleu: the same on the test text.
        test_sd: the same on the test text.
        delta: test_bleu minus that of the first system; None in its own row.
        p_value: of the delta, approximate randomisation; None in the first row.
        n_runs: tuning runs.
        length_ratio: test output words for one reference word.
        precisions: of 1- to 4-grams on the test text, 0 to 100.
        bootstrap_sd: of the first run's test BLEU over resampled test sets.
        detokenised_bleu: mean sacreBLEU of the detokenised output, 0 to 100.
        chrf: mean chrF of the detokenised output, 0 to 100.
        ter: mean TER of the detokenised output; less is better.
        weights: mean weight of each feature.
    """

    system: str
    dev_bleu: float
    dev_sd: float | None
    test_bleu: float
    test_sd: float | None
    delta: float | None
    p_value: float | None
    n_runs: int
    length_ratio: float
    precisions: list[float]
    bootstrap_sd: float
    detokenised_bleu: float
    chrf: float
    ter: float
    weights: dict[str, list[float]]


@dataclass(frozen=True)
class Comparison:
    """The table and how its numbers were made.

    Attributes:
        rows: one a system, the first is what the others are compared with.
        signature: of BLEU on tokens.
        detokenised_signatures: of BLEU, chrF and TER on detokenised text.
        n_sentences: of the test text.
    """

    rows: list[ResultRow] = field(default_factory=list)
    signature: str = ""
    detokenised_signatures: list[str] = field(default_factory=list)
    n_sentences: int = 0


def compare(
    systems: Mapping[str, Sequence[Path]],
    source: Path,
    references: Sequence[Path],
    options: CompareOptions,
    jobs: int = 1,
) -> Comparison:
    """Translate the test text with every run and compare the systems.

    Args:
        systems: the run directories of each system, of one as many as wanted; the first system is the
            baseline.
        source: test source text, tokenised.
        references: test references, tokenised as the output is.
        options: settings.
        jobs: processes of the decoder and of TER.

    Raises:
        InputError: a run directory or text is malformed.
        ConfigError: a moses.ini or table is not the one that a run tuned, or a system has a run twice
            or runs with weights of other features.
    """
    all_runs = {path: load_run(path) for paths in systems.values() for path in paths}
    check_unchanged(all_runs)
    for system, directories in systems.items():
        _check_runs(system, directories, all_runs)
    reference = References.read(references, source)
    outputs = translate_all(all_runs, source, jobs)
    detokenised = DetokenisedReferences(references, options.target, jobs)
    scores = detokenised.scores([outputs[path] for path in all_runs])
    scores_of = dict(zip(all_runs, scores, strict=True))
    statistics = {
        system: np.array([reference.output_statistics(outputs[path]) for path in directories])
        for system, directories in systems.items()
    }
    baseline = next(iter(statistics.values()))
    rows = []
    for number, (system, directories) in enumerate(systems.items()):
        print(f"compare: {system}", file=sys.stderr, flush=True)
        runs = [all_runs[path] for path in directories]
        is_first = number == 0
        rows.append(
            _row(
                system,
                runs,
                statistics[system],
                None if is_first else baseline,
                [scores_of[path] for path in directories],
                options,
            )
        )
    signature = (
        f"BLEU|nrefs:{len(references)}|case:as in the files|tok:none|smooth:none|"
        f"ar:{options.n_trials}|seed:{options.seed}"
    )
    return Comparison(rows, signature, detokenised.signatures, len(reference))


def _check_runs(system: str, directories: Sequence[Path], runs: Mapping[Path, TuningRun]) -> None:
    if len({path.resolve() for path in directories}) < len(directories):
        raise ConfigError(f"{system} has a run twice: its deviation would be too small")
    shapes = {
        path: {name: len(values) for name, values in runs[path].weights.items()}
        for path in directories
    }
    first = directories[0]
    for path, shape in shapes.items():
        if shape != shapes[first]:
            raise ConfigError(
                f"{system}: {path} has other features than {first}: "
                f"{_in_words(shape)}, not {_in_words(shapes[first])}; make two systems of them"
            )


def _in_words(shape: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({n_weights})" for name, n_weights in shape.items())


def translate_all(runs: Mapping[Path, TuningRun], source: Path, jobs: int) -> dict[Path, Path]:
    """The test output of each run, translated if it is not there yet; each system is loaded once."""
    outputs: dict[Path, Path] = {}

    def system_of(directory: Path) -> tuple[str, str]:
        return runs[directory].ini, json.dumps(runs[directory].decoder)

    for (ini, decoder_settings), members in groupby(sorted(runs, key=system_of), key=system_of):
        missing = []
        for directory in members:
            outputs[directory] = _output_path(directory, source)
            if not outputs[directory].exists():
                missing.append(directory)
        if missing:
            options = from_mapping(DecoderConfig, json.loads(decoder_settings), ini)
            with open_decoder(Path(ini), options, jobs) as decoder:
                for directory in missing:
                    run, output = runs[directory], outputs[directory]
                    features, size = run.nbest_features, run.nbest_size
                    translate(decoder, source, output, None, run.weights, features, size)
    return outputs


def _output_path(directory: Path, source: Path) -> Path:
    """Where a run's test output is kept: named by the text and the weights."""
    state = file_hash(source) + file_hash(directory / "weights.json")
    return directory / f"test-{hashlib.sha256(state.encode()).hexdigest()[:12]}.out"


def _row(
    system: str,
    runs: Sequence[TuningRun],
    statistics: NDArray[np.int32],
    baseline: NDArray[np.int32] | None,
    detokenised: Sequence[DetokenisedScores],
    options: CompareOptions,
) -> ResultRow:
    sums = statistics.sum(axis=1)
    test = bleu(sums)
    dev = np.array([run.dev_bleu for run in runs])
    delta = p_value = None
    if baseline is not None:
        delta = float(test.mean() - bleu(baseline.sum(axis=1)).mean())
        p_value = approximate_randomisation(baseline, statistics, options.n_trials, options.seed)
    total = sums.sum(axis=0)
    return ResultRow(
        system=system,
        dev_bleu=float(dev.mean()),
        dev_sd=_deviation(dev),
        test_bleu=float(test.mean()),
        test_sd=_deviation(test),
        delta=delta,
        p_value=p_value,
        n_runs=len(runs),
        length_ratio=length_ratio(total),
        precisions=[float(value) for value in precisions(total)],
        bootstrap_sd=bootstrap_deviation(statistics[0], options.n_samples, options.seed),
        detokenised_bleu=float(np.mean([scores.bleu for scores in detokenised])),
        chrf=float(np.mean([scores.chrf for scores in detokenised])),
        ter=float(np.mean([scores.ter for scores in detokenised])),
        weights=_mean_weights(runs),
    )


def _deviation(values: NDArray[np.float64]) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _mean_weights(runs: Sequence[TuningRun]) -> dict[str, list[float]]:
    return {
        name: [float(value) for value in np.mean([run.weights[name] for run in runs], axis=0)]
        for name in runs[0].weights
    }
