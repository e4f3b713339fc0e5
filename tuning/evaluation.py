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
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesDetokenizer

from moses_bridge.config import from_mapping
from moses_bridge.decoder import DecoderOptions, open_decoder
from moses_bridge.errors import ConfigError
from moses_bridge.textio import read_lines
from tuning.bleu_stats import References, bleu, length_ratio, precisions
from tuning.loop import translate
from tuning.run_directory import TuningRun, file_hash, load_run
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
    weights: dict[str, list[float]]


@dataclass(frozen=True)
class Comparison:
    """The table and how its numbers were made.

    Attributes:
        rows: one a system, the first is what the others are compared with.
        signature: of BLEU on tokens.
        detokenised_signature: of sacreBLEU on detokenised text.
        n_sentences: of the test text.
    """

    rows: list[ResultRow] = field(default_factory=list)
    signature: str = ""
    detokenised_signature: str = ""
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
        systems: the run directories of each system; the first system is the baseline.
        source: test source text, tokenised.
        references: test references, tokenised as the output is.
        options: settings.
        jobs: processes of the decoder.

    Raises:
        InputError: a run directory or text is malformed.
        ConfigError: systems have different numbers of runs.
    """
    n_runs = {len(directories) for directories in systems.values()}
    if len(n_runs) != 1:
        raise ConfigError(f"systems with {sorted(n_runs)} runs; each needs as many as the others")
    outputs = translate_all([path for paths in systems.values() for path in paths], source, jobs)
    reference = References.read(references)
    detokenised = _Detokenised(references, options.target)
    statistics = {
        system: np.array([reference.output_statistics(outputs[path]) for path in directories])
        for system, directories in systems.items()
    }
    baseline = next(iter(statistics.values()))
    rows = []
    for number, (system, directories) in enumerate(systems.items()):
        print(f"compare: {system}", file=sys.stderr, flush=True)
        runs = [load_run(path) for path in directories]
        is_first = number == 0
        rows.append(
            _row(
                system,
                runs,
                statistics[system],
                None if is_first else baseline,
                detokenised.scores([outputs[path] for path in directories]),
                options,
            )
        )
    signature = (
        f"BLEU|nrefs:{len(references)}|case:as in the files|tok:none|smooth:none|"
        f"ar:{options.n_trials}|seed:{options.seed}"
    )
    return Comparison(rows, signature, detokenised.signature, len(reference))


def translate_all(directories: Sequence[Path], source: Path, jobs: int) -> dict[Path, Path]:
    """The test output of each run, translated if it is not there yet; each system is loaded once."""
    runs = {directory: load_run(directory) for directory in directories}
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
            options = from_mapping(DecoderOptions, json.loads(decoder_settings), ini)
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
    detokenised: tuple[float, float],
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
        detokenised_bleu=detokenised[0],
        chrf=detokenised[1],
        weights=_mean_weights(runs),
    )


def _deviation(values: NDArray[np.float64]) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _mean_weights(runs: Sequence[TuningRun]) -> dict[str, list[float]]:
    return {
        name: [float(value) for value in np.mean([run.weights[name] for run in runs], axis=0)]
        for name in runs[0].weights
    }


class _Detokenised:
    """sacreBLEU and chrF of detokenised output against detokenised references."""

    def __init__(self, references: Sequence[Path], target: str) -> None:
        self._detokenizer = MosesDetokenizer(lang=target)
        self._references = [self._read(path) for path in references]
        self._bleu, self._chrf = BLEU(), CHRF()
        self.signature = ""

    def scores(self, outputs: Sequence[Path]) -> tuple[float, float]:
        """Means of BLEU and chrF over the outputs, 0 to 100."""
        texts = [self._read(path) for path in outputs]
        bleus = [self._bleu.corpus_score(text, self._references).score for text in texts]
        chrfs = [self._chrf.corpus_score(text, self._references).score for text in texts]
        self.signature = str(self._bleu.get_signature())
        return float(np.mean(bleus)), float(np.mean(chrfs))

    def _read(self, path: Path) -> list[str]:
        detokenize = self._detokenizer.detokenize
        return [
            detokenize(line.decode("utf-8", "replace").split(" "), unescape=True)
            for line in read_lines(path)
        ]
