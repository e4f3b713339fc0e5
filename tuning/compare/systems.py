"""Tuned systems on a test text: their translations measured and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import track
from moses_bridge.base.provenance import file_digest
from moses_bridge.formats.text_notes import say_notes
from tuning.compare.comparison import (
    LOWERCASED,
    Comparison,
    Contrast,
    FarScores,
    NgramContrast,
    ResultRow,
    RunSummary,
    WordAccuracy,
)
from tuning.compare.output_scores import (
    DetokenisedReferences,
    DetokenisedScores,
    lowercased_bleu,
    metrics_of_runs,
    tuned_metrics,
)
from tuning.compare.sentence_facts import SentenceFacts, TextContext, read_sentence_facts
from tuning.compare.significance import compare_outputs, holm
from tuning.compare.system_outputs import SystemOutputs, bootstrap_deviation
from tuning.compare.target_text import TargetText, TokenizerName, target_text
from tuning.compare.translations import output_path, refuse_new_commands, translate_all
from tuning.compare.word_matches import contrast_ngrams, count_words, word_accuracies
from tuning.loop.fingerprints import check_unchanged
from tuning.loop.run_directory import TuningRun, load_run
from tuning.metrics.bleu import References, bleu, length_ratio, precisions
from tuning.metrics.by_name import MetricChoice
from tuning.metrics.metric import n_references

T = TypeVar("T")
NO_CONTEXT = TextContext()


@dataclass(frozen=True)
class CompareConfig(Limited):
    """Settings of `compare`.

    Attributes:
        n_samples: number of bootstrap samples.
        seed: seed of the bootstrap.
        target_language: code of the target language, as "fr" or "pt_BR"; "" for that of the references' suffix.
        tokenize: tokenizer of sacreBLEU for BLEU of detokenised text; the default depends on the language.
        control: a system known to be useless, such as a column of noise; the others are compared with it
            too. "" for none.
        run_commands: whether to run the commands of n-best features and neural language models named in
            the runs' files, to translate the text.
    """

    n_samples: Annotated[int, AtLeast(2)] = 1000
    seed: Annotated[int, AtLeast(0)] = 1
    target_language: str = ""
    tokenize: TokenizerName | None = None
    control: str = ""
    run_commands: bool = False


def compare(
    systems: Mapping[str, Sequence[Path]],
    source: Path,
    references: Sequence[Path],
    config: CompareConfig,
    jobs: int = 1,
    context: TextContext = NO_CONTEXT,
    metrics: Sequence[MetricChoice] = (),
) -> Comparison:
    """Translate the test text with every run and compare the systems, the first of which is the baseline.

    A system is any number of run directories, or of files of translations, one a line. Source and references
    are tokenised as the output is. Each row gets its value by the metrics that runs were tuned for, and by
    `metrics`, those that files of translations were chosen by.

    Raises:
        InputError: a run directory or text is malformed, or groups or translations do not fit the text.
        ConfigError: the target language is not known, the text has one sentence, a moses.ini, table or
            model is not the one tuned by a run, a system has a run twice or runs with weights of other
            features, the control is no system, or a command would have to be run without permission.
    """
    inputs = _read(systems, source, references, config, jobs, context)
    return _assembled(inputs, _measured(inputs, jobs, metrics))


@dataclass(frozen=True)
class _Inputs:
    """The inputs, read and checked; without frequencies of words their accuracy is not counted."""

    systems: Mapping[str, Sequence[Path]]
    runs: Mapping[Path, TuningRun]
    source: Path
    references: Sequence[Path]
    config: CompareConfig
    counted: References
    target: TargetText
    facts: SentenceFacts
    frequencies: Counter[bytes] | None

    def by_system(self, values: Mapping[Path, T]) -> dict[str, list[T]]:
        return {name: [values[path] for path in paths] for name, paths in self.systems.items()}


def _read(
    systems: Mapping[str, Sequence[Path]],
    source: Path,
    references: Sequence[Path],
    config: CompareConfig,
    jobs: int,
    context: TextContext,
) -> _Inputs:
    if config.control and config.control not in systems:
        raise ConfigError(f"no system {config.control}; there are {', '.join(systems)}")
    target = target_text(references, config.target_language, config.tokenize)
    paths = dict.fromkeys(path for members in systems.values() for path in members)
    runs = {path: load_run(path) for path in paths if not path.is_file()}
    if not config.run_commands:
        refuse_new_commands(runs, source)
    check_unchanged(runs)
    for system, members in systems.items():
        _check_runs(system, members, runs)
    counted = References.read(references, source)
    if len(counted) < 2:
        raise ConfigError(
            f"{source}: one sentence; how sure a difference is can be told from two on"
        )
    facts = read_sentence_facts(source, context.training, context.groups, jobs)
    targets = context.training_targets
    frequencies = count_words(targets) if targets else None
    return _Inputs(systems, runs, source, references, config, counted, target, facts, frequencies)


@dataclass(frozen=True)
class _Measured:
    """The outputs of each system with their scores; of each path the others with the same output."""

    outputs: dict[str, list[Path]]
    statistics: dict[str, SystemOutputs]
    detokenised: dict[str, list[DetokenisedScores]]
    signatures: list[str]
    metrics: dict[str, dict[str, float]]
    same: dict[Path, list[str]]


def _measured(inputs: _Inputs, jobs: int, metrics: Sequence[MetricChoice]) -> _Measured:
    runs, config = inputs.runs, inputs.config
    paths = dict.fromkeys(path for members in inputs.systems.values() for path in members)
    files = {path: path for path in paths if path not in runs}
    statistics = {path: inputs.counted.output_statistics(path) for path in files}
    outputs = files | translate_all(runs, inputs.source, jobs, config.run_commands)
    detokenised = DetokenisedReferences(inputs.references, inputs.target)
    scores = detokenised.scores([outputs[path] for path in paths])
    statistics |= {path: inputs.counted.output_statistics(outputs[path]) for path in runs}
    say_notes(inputs.source, inputs.references, [outputs[path] for path in paths])
    rows = inputs.by_system(statistics)
    of_systems = inputs.by_system(outputs)
    tuned_for = metrics_of_runs([run.metric for run in runs.values()])
    measures = tuned_metrics(of_systems, [*metrics, *tuned_for], inputs.references, inputs.source)
    for name, value in lowercased_bleu(of_systems, inputs.references).items():
        measures[name][LOWERCASED] = value
    return _Measured(
        outputs=of_systems,
        statistics={
            name: SystemOutputs(
                np.array(rows[name]), _networks([runs.get(path) for path in members])
            )
            for name, members in inputs.systems.items()
        },
        detokenised=inputs.by_system(dict(zip(paths, scores, strict=True))),
        signatures=detokenised.signatures,
        metrics=measures,
        same=_same_outputs(outputs),
    )


def _assembled(inputs: _Inputs, measured: _Measured) -> Comparison:
    config, facts, baseline = inputs.config, inputs.facts, next(iter(inputs.systems))
    against_baseline = _contrasts(measured.statistics, baseline, facts.documents)
    against_control = _contrasts(measured.statistics, config.control, facts.documents)
    far = _far_scores(measured.statistics, facts, config)
    models = {
        name: {inputs.runs[path].network for path in members if path in inputs.runs}
        for name, members in inputs.systems.items()
    }
    rows = [
        replace(
            _row(system, inputs, measured),
            against_baseline=against_baseline.get(system),
            against_control=against_control.get(system),
            far=far.get(system),
            same_models=models[system] <= models[baseline],
        )
        for system in track(inputs.systems, "compare", len(inputs.systems), "systems")
    ]
    return Comparison(
        rows,
        f"BLEU|nrefs:{n_references(inputs.counted.sentences) or 'var'}|"
        "case:as in the files|tok:none|smooth:none|"
        f"test:jackknife{' of documents' if facts.n_documents else ''}+runs|seed:{config.seed}",
        measured.signatures,
        len(inputs.counted),
        config.control,
        n_documents=facts.n_documents,
        near_copies=facts.near_copies,
        n_far=facts.n_far,
        ngrams=_best_ngrams(measured, inputs.references[0], config.control),
    )


def _best_ngrams(measured: _Measured, reference: Path, control: str) -> NgramContrast | None:
    """The n-grams the best system wins and loses against the first; None without any but the control."""
    baseline, *others = measured.outputs
    candidates = [name for name in others if name != control]
    if not candidates:
        return None
    best = max(candidates, key=lambda name: measured.statistics[name].mean_bleu())
    return contrast_ngrams(best, measured.outputs[best], measured.outputs[baseline], reference)


def _far_scores(
    systems: Mapping[str, SystemOutputs], facts: SentenceFacts, config: CompareConfig
) -> dict[str, FarScores]:
    """All systems on the sentences far from the training text; none if these are not known."""
    if facts.far is None:
        return {}
    outputs = {name: system.on(facts.far) for name, system in systems.items()}
    against_baseline = _contrasts(outputs, next(iter(systems)), facts.far_documents)
    against_control = _contrasts(outputs, config.control, facts.far_documents)
    found = {}
    for name, system in outputs.items():
        sums = system.statistics.sum(axis=1)
        found[name] = FarScores(
            test_bleu=system.mean_bleu(),
            test_sd=_deviation(bleu(sums)),
            bootstrap_sd=_bootstrapped(system, config),
            length_ratio=length_ratio(sums.sum(axis=0)),
            precisions=[float(value) for value in precisions(sums.sum(axis=0))],
            against_baseline=against_baseline.get(name),
            against_control=against_control.get(name),
        )
    return found


def _contrasts(
    systems: Mapping[str, SystemOutputs], other: str, documents: NDArray[np.int64] | None
) -> dict[str, Contrast]:
    """All systems compared with one, by name, corrected for their number; none if it has no name."""
    if not other:
        return {}
    differences = {
        name: compare_outputs(systems[other], outputs, documents)
        for name, outputs in systems.items()
        if name != other
    }
    corrected = holm([difference.p_value for difference in differences.values()])
    return {
        name: Contrast(
            each.delta,
            each.interval,
            each.p_value,
            corrected_p_value,
            each.smallest_found,
            each.run_variance is not None,
            each.standard_error,
            each.degrees_of_freedom,
        )
        for (name, each), corrected_p_value in zip(differences.items(), corrected, strict=True)
    }


def _networks(runs: Sequence[TuningRun | None]) -> list[int]:
    """For each run the number of its tables and models among those of its system; files count as one."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(run and run.network, len(numbers)) for run in runs]


def _same_outputs(outputs: Mapping[Path, Path]) -> dict[Path, list[str]]:
    hashes = {directory: file_digest(output) for directory, output in outputs.items()}
    return {
        directory: [str(other) for other in hashes if other != directory and hashes[other] == own]
        for directory, own in hashes.items()
    }


def _check_runs(system: str, members: Sequence[Path], runs: Mapping[Path, TuningRun]) -> None:
    if len({path.resolve() for path in members}) < len(members):
        raise ConfigError(f"{system} has a run twice: its deviation would be too small")
    if len({path in runs for path in members}) > 1:
        raise ConfigError(f"{system} has runs and files of translations; make two systems of them")
    shapes = {
        path: {name: len(values) for name, values in runs[path].weights.items()}
        for path in members
        if path in runs
    }
    first = members[0]
    for path, shape in shapes.items():
        if shape != shapes[first]:
            raise ConfigError(
                f"{system}: {path} has other features than {first}: "
                f"{_in_words(shape)}, not {_in_words(shapes[first])}; make two systems of them"
            )


def _in_words(shape: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({n_weights})" for name, n_weights in shape.items())


def digests(
    systems: Mapping[str, Sequence[Path]], texts: Sequence[Path]
) -> Iterator[tuple[Path, str]]:
    """The files read by a comparison with their SHA-256: texts, weights and outputs of the runs.

    `texts` has the source first.
    """
    source = texts[0]
    for path in texts:
        yield path, file_digest(path)
    for directory in dict.fromkeys(run for runs in systems.values() for run in runs):
        if directory.is_dir():
            yield directory / "weights.json", file_digest(directory / "weights.json")
        output = output_path(directory, source)
        yield output, file_digest(output)


def _row(system: str, inputs: _Inputs, measured: _Measured) -> ResultRow:
    runs = {path: inputs.runs.get(path) for path in inputs.systems[system]}
    outputs, detokenised = measured.statistics[system], measured.detokenised[system]
    sums = outputs.statistics.sum(axis=1)
    test, total = bleu(sums), sums.sum(axis=0)
    known = [run for run in runs.values() if run is not None]
    dev = np.array([run.dev_bleu for run in known])
    between = outputs.group_means()
    words: list[WordAccuracy] = []
    if inputs.frequencies is not None:
        words = word_accuracies(measured.outputs[system], inputs.references[0], inputs.frequencies)
    return ResultRow(
        system=system,
        dev_bleu=float(dev.mean()) if known else None,
        dev_sd=_deviation(dev),
        test_bleu=outputs.mean_bleu(),
        test_sd=_deviation(test),
        against_baseline=None,
        against_control=None,
        n_runs=len(runs),
        n_networks=len(between),
        network_sd=_deviation(between),
        length_ratio=length_ratio(total),
        precisions=[float(value) for value in precisions(total)],
        bootstrap_sd=_bootstrapped(outputs, inputs.config),
        detokenised_bleu=float(np.mean([scores.bleu for scores in detokenised])),
        chrf=float(np.mean([scores.chrf for scores in detokenised])),
        ter=float(np.mean([scores.ter for scores in detokenised])),
        weights=_mean_weights(known),
        runs=[
            _run_summary(path, run, float(test_bleu), measured.same[path])
            for (path, run), test_bleu in zip(runs.items(), test, strict=True)
        ],
        words=words,
        tuned_for=", ".join(sorted({run.metric for run in known} - {"bleu"})),
        metrics=measured.metrics[system],
    )


def _bootstrapped(outputs: SystemOutputs, config: CompareConfig) -> float:
    return bootstrap_deviation(outputs.statistics[0], config.n_samples, config.seed)


def _run_summary(
    path: Path, run: TuningRun | None, test_bleu: float, same: list[str]
) -> RunSummary:
    if run is None:
        return RunSummary(str(path), 0, 0, "", True, None, test_bleu, [], same)
    return RunSummary(
        directory=str(path),
        n_iterations=len(run.iterations),
        kept=run.kept,
        end=run.end,
        left_start=run.left_start,
        dev_bleu=run.dev_bleu,
        test_bleu=test_bleu,
        constant=run.constant,
        same_output_as=same,
        caution=run.caution,
    )


def _deviation(values: NDArray[np.float64]) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _mean_weights(runs: Sequence[TuningRun]) -> dict[str, list[float]]:
    return {
        name: [float(value) for value in np.mean([run.weights[name] for run in runs], axis=0)]
        for name in (runs[0].weights if runs else ())
    }
