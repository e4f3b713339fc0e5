"""Tuned systems on a test text: their translations measured and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import track
from tuning.compare.comparison import (
    Comparison,
    Contrast,
    FarScores,
    NgramContrast,
    ResultRow,
    RunSummary,
)
from tuning.compare.detokenised import DetokenisedReferences, DetokenisedScores
from tuning.compare.matched_ngrams import contrast_ngrams
from tuning.compare.sentence_facts import SentenceFacts, read_sentence_facts
from tuning.compare.significance import (
    SystemOutputs,
    bootstrap_deviation,
    compare_outputs,
    holm,
)
from tuning.compare.translations import output_path, refuse_new_commands, translate_all
from tuning.compare.tuned_metrics import metrics_of_runs, tuned_metrics
from tuning.compare.word_accuracy import count_words, word_accuracies
from tuning.loop.run_directory import TuningRun, check_unchanged, file_hash, load_run
from tuning.pools.bleu_stats import References, bleu, length_ratio, precisions
from tuning.pools.metric_by_name import MetricChoice


@dataclass(frozen=True)
class CompareConfig:
    """Settings of `compare`.

    Attributes:
        n_samples: number of bootstrap samples.
        seed: seed of the bootstrap.
        target_language: code of the target language, for the detokenizer.
        control: a system known to be useless, such as a column of noise; the others are compared with it
            too. "" for none.
        run_commands: whether to run the commands of n-best features and neural language models named in
            the runs' files, to translate the text.
    """

    n_samples: Annotated[int, AtLeast(2)] = 1000
    seed: Annotated[int, AtLeast(0)] = 1
    target_language: str = "fr"
    control: str = ""
    run_commands: bool = False

    def __post_init__(self) -> None:
        check_limits(self)


def compare(
    systems: Mapping[str, Sequence[Path]],
    source: Path,
    references: Sequence[Path],
    config: CompareConfig,
    jobs: int = 1,
    training: Sequence[Path] = (),
    groups: Path | None = None,
    training_targets: Sequence[Path] = (),
    metrics: Sequence[MetricChoice] = (),
) -> Comparison:
    """Translate the test text with every run and compare the systems.

    Args:
        systems: the run directories of each system, any number for each; the first system is the
            baseline. A file in the place of a directory has the translations of a run, one a line.
        source: test source text, tokenised.
        references: test references, tokenised as the output is.
        config: settings.
        jobs: processes of the decoder.
        training: source sides of the training texts, tokenised; what they have in common with the test text is
            stated, and the systems are also compared on the sentences far from them.
        groups: the name of each test sentence's document, one a line; documents instead of sentences are then
            what another text would have others of.
        training_targets: target sides of the training texts, tokenised; the accuracy of words is counted by
            their frequency in them, against the first reference.
        metrics: metrics that files of translations were chosen by; each row gets its value by them, and by
            those the runs were tuned for.

    Raises:
        InputError: a run directory or text is malformed, or groups or translations do not fit the text.
        ConfigError: the text has one sentence, a moses.ini, table or model is not the one tuned by a run,
            a system has a run twice or runs with weights of other features, the control is no
            system, or a command would have to be run without permission.
    """
    if config.control and config.control not in systems:
        raise ConfigError(f"no system {config.control}; there are {', '.join(systems)}")
    paths = dict.fromkeys(path for members in systems.values() for path in members)
    all_runs = {path: load_run(path) for path in paths if not path.is_file()}
    if not config.run_commands:
        refuse_new_commands(all_runs, source)
    check_unchanged(all_runs)
    for system, members in systems.items():
        _check_runs(system, members, all_runs)
    reference = References.read(references, source)
    if len(reference) < 2:
        raise ConfigError(
            f"{source}: one sentence; how sure a difference is can be told from two on"
        )
    facts = read_sentence_facts(source, training, groups, jobs)
    frequencies = count_words(training_targets)
    outputs = {path: path for path in paths if path not in all_runs}
    statistics = {path: reference.output_statistics(path) for path in outputs}
    outputs |= translate_all(all_runs, source, jobs, config.run_commands)
    same = _same_outputs(outputs)
    detokenised = DetokenisedReferences(references, config.target_language)
    scores = detokenised.scores([outputs[path] for path in paths])
    scores_of = dict(zip(paths, scores, strict=True))
    statistics |= {path: reference.output_statistics(outputs[path]) for path in all_runs}
    of_systems = {
        system: SystemOutputs(
            np.array([statistics[path] for path in members]),
            _networks([all_runs.get(path) for path in members]),
        )
        for system, members in systems.items()
    }
    against_baseline = _contrasts(of_systems, next(iter(systems)), facts.documents)
    against_control = _contrasts(of_systems, config.control, facts.documents)
    far = _far_scores(of_systems, facts, config)
    by_metrics = tuned_metrics(
        {name: [outputs[path] for path in members] for name, members in systems.items()},
        [*metrics, *metrics_of_runs([run.metric for run in all_runs.values()])],
        references,
        source,
    )
    models = {
        name: {all_runs[path].network for path in members if path in all_runs}
        for name, members in systems.items()
    }
    of_baseline = next(iter(models.values()))
    rows = []
    for system, members in track(systems.items(), "compare", len(systems), "systems"):
        row = _row(
            system,
            {path: all_runs.get(path) for path in members},
            of_systems[system],
            [scores_of[path] for path in members],
            same,
            config,
        )
        rows.append(
            replace(
                row,
                against_baseline=against_baseline.get(system),
                against_control=against_control.get(system),
                far=far.get(system),
                same_models=models[system] <= of_baseline,
                words=word_accuracies(
                    [outputs[path] for path in members], references[0], frequencies
                )
                if training_targets
                else [],
                metrics=by_metrics[system],
            )
        )
    signature = (
        f"BLEU|nrefs:{len(references)}|case:as in the files|tok:none|smooth:none|"
        f"test:jackknife{' of documents' if facts.n_documents else ''}+runs|seed:{config.seed}"
    )
    return Comparison(
        rows,
        signature,
        detokenised.signatures,
        len(reference),
        config.control,
        n_documents=facts.n_documents,
        near_copies=facts.near_copies,
        n_far=facts.n_far,
        ngrams=_best_ngrams(of_systems, systems, outputs, references[0], config.control),
    )


def _best_ngrams(
    of_systems: Mapping[str, SystemOutputs],
    systems: Mapping[str, Sequence[Path]],
    outputs: Mapping[Path, Path],
    reference: Path,
    control: str,
) -> NgramContrast | None:
    """What the best system wins and loses against the first; None if there is no other but the control."""
    baseline, *others = systems
    candidates = [name for name in others if name != control]
    if not candidates:
        return None
    best = max(candidates, key=lambda name: of_systems[name].mean_bleu())
    ours, theirs = ([outputs[path] for path in systems[name]] for name in (best, baseline))
    return contrast_ngrams(best, ours, theirs, reference)


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
            bootstrap_sd=bootstrap_deviation(system.statistics[0], config.n_samples, config.seed),
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
            difference.delta,
            difference.interval,
            difference.p_value,
            corrected_p_value,
            difference.smallest_found,
            difference.run_variance is not None,
            difference.standard_error,
            difference.degrees_of_freedom,
        )
        for (name, difference), corrected_p_value in zip(
            differences.items(), corrected, strict=True
        )
    }


def _networks(runs: Sequence[TuningRun | None]) -> list[int]:
    """For each run the number of its tables and models among those of its system; files count as one."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(run and run.network, len(numbers)) for run in runs]


def _same_outputs(outputs: Mapping[Path, Path]) -> dict[Path, list[str]]:
    """For each run the others with the same test output."""
    hashes = {directory: file_hash(output) for directory, output in outputs.items()}
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
    """What a comparison has read, each file with its SHA-256: texts, weights and outputs of the runs.

    Args:
        systems: the runs of each, or files of translations.
        texts: the source first, then all others.
    """
    source = texts[0]
    for path in texts:
        yield path, file_hash(path)
    for directory in dict.fromkeys(run for runs in systems.values() for run in runs):
        if directory.is_dir():
            yield directory / "weights.json", file_hash(directory / "weights.json")
        output = output_path(directory, source)
        yield output, file_hash(output)


def _row(
    system: str,
    runs: Mapping[Path, TuningRun | None],
    outputs: SystemOutputs,
    detokenised: Sequence[DetokenisedScores],
    same: Mapping[Path, list[str]],
    config: CompareConfig,
) -> ResultRow:
    sums = outputs.statistics.sum(axis=1)
    test = bleu(sums)
    known = [run for run in runs.values() if run is not None]
    dev = np.array([run.dev_bleu for run in known])
    total = sums.sum(axis=0)
    between = outputs.group_means()
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
        bootstrap_sd=bootstrap_deviation(outputs.statistics[0], config.n_samples, config.seed),
        detokenised_bleu=float(np.mean([scores.bleu for scores in detokenised])),
        chrf=float(np.mean([scores.chrf for scores in detokenised])),
        ter=float(np.mean([scores.ter for scores in detokenised])),
        weights=_mean_weights(known),
        runs=[
            _run_summary(path, run, float(test_bleu), same[path])
            for (path, run), test_bleu in zip(runs.items(), test, strict=True)
        ],
        tuned_for=", ".join(sorted({run.metric for run in known} - {"bleu"})),
    )


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
    )


def _deviation(values: NDArray[np.float64]) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None


def _mean_weights(runs: Sequence[TuningRun]) -> dict[str, list[float]]:
    return {
        name: [float(value) for value in np.mean([run.weights[name] for run in runs], axis=0)]
        for name in (runs[0].weights if runs else ())
    }
