"""Commands that find weights: tune, rerank, optimize."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.command import (
    DIRECTORY,
    INPUT_FILE,
    JOBS,
    OUTPUT_DIRECTORY,
    RAY,
    WORKERS,
    check_workers,
    choice_of,
    command,
    command_line,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.memory import loading
from moses_bridge.base.provenance import provenance
from tuning.cli.options import (
    METRIC,
    METRIC_COMMAND,
    NBEST_SIZE,
    OPTIMIZER,
    REFERENCE,
    SEED,
    SOURCE,
    run_commands_option,
)
from tuning.metrics.by_name import MbrMetricName, MetricName
from tuning.optimisers.by_name import OptimizerName

if TYPE_CHECKING:
    from tuning.loop.rerank import ListedText, Reranked
    from tuning.loop.settings import RerankConfig, TuningConfig
    from tuning.metrics.by_name import MetricChoice
    from tuning.optimisers.contract import OptimizerConfig


def _tuning_settings(
    config: Path | None,
    optimizer: OptimizerName | None,
    metric: MetricName | None,
    metric_command: str | None,
    nbest_size: int | None,
    max_iterations: int | None,
    neural_lms: tuple[str, ...],
    left_out: tuple[str, ...],
) -> TuningConfig:
    """The settings of `tuning tune`."""
    from tuning.loop.settings import TuningConfig

    options = {
        "optimizer": optimizer,
        "metric": metric,
        "metric_command": metric_command,
        "nbest_size": nbest_size,
        "max_iterations": max_iterations,
        "decoder.neural_lm": [*neural_lms] or None,
        "left_out": [*left_out] or None,
    }
    return with_options(load_config(TuningConfig, config), options)


@command
@click.option(
    "--ini",
    type=INPUT_FILE,
    required=True,
    help="The moses.ini to tune; its weights are the start.",
)
@SOURCE
@REFERENCE
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Run directory.")
@OPTIMIZER
@METRIC
@METRIC_COMMAND
@NBEST_SIZE
@click.option(
    "--max-iterations",
    type=click.IntRange(min=1),
    help="Largest number of decodings of the dev text; sets the key max_iterations.",
)
@SEED
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@click.option(
    "--init-weights", type=INPUT_FILE, help="weights.json of the run whose weights are the start."
)
@click.option(
    "--nbest-feature",
    "nbest_features",
    multiple=True,
    help="NAME=COMMAND, adding a feature to n-best lists; {nbest}, {source}, {out} become paths. A command "
    'without them stays open and returns the values: "CSLM0=rescorer serve cslm". With NAME:LM0=COMMAND '
    "the search gives the decoder's LM0 the sum of both weights.",
)
@click.option(
    "--neural-lm",
    "neural_lms",
    multiple=True,
    help='NAME=COMMAND, a feature of the built-in search: "CSLM0=rescorer serve cslm". May be given '
    "several times; sets the key decoder.neural_lm.",
)
@click.option(
    "--leave-out",
    "left_out",
    multiple=True,
    help="Column kept at weight 0, like TranslationModel0_2; may be given several times; sets the key "
    "left_out.",
)
@config_options(_tuning_settings)
@RAY
@WORKERS
@JOBS
def tune(
    ini: Path,
    source: Path,
    references: tuple[Path, ...],
    out: Path,
    optimizer: OptimizerName | None,
    metric: MetricName | None,
    metric_command: str | None,
    nbest_size: int | None,
    max_iterations: int | None,
    seed: int,
    resume: bool,
    init_weights: Path | None,
    nbest_features: tuple[str, ...],
    neural_lms: tuple[str, ...],
    left_out: tuple[str, ...],
    config: Path | None,
    address: str | None,
    workers: int | None,
    jobs: int,
) -> None:
    """Find the weights of a system on a dev text.

    Decode, pool, optimise, until the weights settle; then write weights.json and moses.ini.

    Example: tuning tune --ini moses.ini --source dev.en --reference dev.fr --out run1 --seed 1
    """
    with loading():
        from moses_bridge.base.cluster import open_cluster
        from moses_bridge.base.steps import LOG_NAME, recorded_step
        from tuning.loop.fingerprints import ParallelText
        from tuning.loop.list_features import NBestFeature
        from tuning.loop.tuning_loop import TunedSystem, Workers
        from tuning.loop.tuning_loop import tune as run_tuning

    check_workers(address, workers)
    settings = _tuning_settings(
        config, optimizer, metric, metric_command, nbest_size, max_iterations, neural_lms, left_out
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(recorded_step(out / LOG_NAME, str(out), command_line()))
        connected = None if address is None else open_cluster(address, workers, "CPU")
        cluster = None if connected is None else stack.enter_context(connected)
        features = [NBestFeature.parse(text) for text in nbest_features]
        system, text = TunedSystem(ini, features, init_weights), ParallelText(source, references)
        run = run_tuning(system, text, out, settings, seed, Workers(jobs, cluster), resume)
    click.echo(f"dev BLEU {run.dev_bleu:.2f}, weights in {out / 'weights.json'}")


def _rerank_settings(
    config: Path | None,
    optimizer: OptimizerName | None,
    metric: MetricName | None,
    metric_command: str | None,
    nbest_size: int | None,
    run_commands: bool,
    n_runs: int | None,
    list_format: ListFormat | None,
    mbr: MbrMetricName | None,
    mbr_command: str | None,
) -> RerankConfig:
    """The settings of `tuning rerank`."""
    from tuning.loop.settings import RerankConfig

    options = {
        "optimizer": optimizer,
        "metric": metric,
        "metric_command": metric_command,
        "nbest_size": nbest_size,
        "run_commands": run_commands or None,
        "n_runs": n_runs,
        "list_format": list_format,
        "mbr": mbr,
        "mbr_command": mbr_command,
    }
    return with_options(load_config(RerankConfig, config), options)


@command
@click.argument("run", type=DIRECTORY, required=False)
@click.option("--list", "dev_list", type=INPUT_FILE, help="N-best list of the dev text.")
@SOURCE
@REFERENCE
@click.option("--test-list", type=INPUT_FILE, help="N-best list of the test text.")
@click.option("--test-source", type=INPUT_FILE, help="Tokenised source of the test text.")
@click.option(
    "--test-reference",
    "test_references",
    type=INPUT_FILE,
    multiple=True,
    help="Tokenised reference of the test text, to compare the systems with; may be given several times.",
)
@click.option(
    "--list-format",
    type=choice_of(ListFormat),
    help="Format of the lists; sets the key list_format.",
)
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Directory to write.")
@click.option(
    "--nbest-feature",
    "nbest_features",
    multiple=True,
    help="NAME=COMMAND, adding a feature to n-best lists; {nbest}, {source}, {out} become paths. Without "
    "one, only the features that are there are tuned, as a control.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="NAME=DIRECTORY, adding the scores of a model as a feature, by `rescorer nbest`.",
)
@click.option(
    "--mbr",
    type=choice_of(MbrMetricName),
    help="Add the feature MBR0: the mean of this metric over the other hypotheses of a sentence as references; "
    "sets the key mbr.",
)
@click.option(
    "--mbr-command",
    help="Command of --mbr column, as --metric-command: it scores each hypothesis with each other one of its "
    "sentence as {reference}; sets the key mbr_command.",
)
@OPTIMIZER
@METRIC
@METRIC_COMMAND
@NBEST_SIZE
@click.option(
    "--runs",
    "n_runs",
    type=click.IntRange(min=1),
    help="Number of times weights are learned, with seeds from --seed on; sets the key n_runs.",
)
@click.option(
    "--init-weights",
    type=INPUT_FILE,
    help="weights.json of the run whose weights are the start for lists.",
)
@click.option(
    "--target-language",
    default="fr",
    show_default=True,
    help="Target language, for the detokenizer.",
)
@click.option(
    "--groups", type=INPUT_FILE, help="Names of the documents of the test sentences, one a line."
)
@SEED
@click.option("--resume", is_flag=True, help="Continue the reranking of a RUN in --out.")
@run_commands_option("run_commands")
@config_options(_rerank_settings)
@JOBS
def rerank(
    run: Path | None,
    dev_list: Path | None,
    source: Path,
    references: tuple[Path, ...],
    test_list: Path | None,
    test_source: Path | None,
    test_references: tuple[Path, ...],
    list_format: ListFormat | None,
    out: Path,
    nbest_features: tuple[str, ...],
    models: tuple[str, ...],
    mbr: MbrMetricName | None,
    mbr_command: str | None,
    optimizer: OptimizerName | None,
    metric: MetricName | None,
    metric_command: str | None,
    nbest_size: int | None,
    n_runs: int | None,
    init_weights: Path | None,
    target_language: str,
    groups: Path | None,
    seed: int,
    resume: bool,
    run_commands: bool,
    config: Path | None,
    jobs: int,
) -> None:
    """Tune weights for reranking n-best lists.

    The lists are those of RUN, the directory of a tuning, whose search stays as it is. This writes a run
    directory for `tuning translate` and `tuning compare`.

    Without RUN the lists are --list and --test-list, of any decoder. This writes weights, the chosen
    translations, and their comparison with the first hypotheses.

    Example: tuning rerank run1 --source dev.en --reference dev.fr --out reranked1 --model NN0=rnn

    Example: tuning rerank --list dev.nbest --source dev.en --reference dev.fr --test-list test.nbest
    --test-source test.en --test-reference test.fr --model NN0=rnn --out reranked
    """
    from moses_bridge.base.steps import LOG_NAME, recorded_step
    from tuning.loop.fingerprints import ParallelText
    from tuning.loop.list_features import NBestFeature, feature_of_model
    from tuning.loop.rerank import ListedText, rerank_lists, rerank_run

    of_lists: dict[str, object] = {
        "--list": dev_list,
        "--test-list": test_list,
        "--mbr": mbr,
        "--mbr-command": mbr_command,
        "--runs": n_runs,
        "--list-format": list_format,
        "--init-weights": init_weights,
        "--groups": groups,
    }
    of_run: dict[str, object] = {
        "--nbest-size": nbest_size,
        "--resume": resume,
        "--run-commands": run_commands,
    }
    _refuse_options(of_run if run is None else of_lists, "a RUN" if run is None else "lists")
    settings = _rerank_settings(
        config,
        optimizer,
        metric,
        metric_command,
        nbest_size,
        run_commands,
        n_runs,
        list_format,
        mbr,
        mbr_command,
    )
    features = [NBestFeature.parse(text) for text in nbest_features]
    features += [feature_of_model(text) for text in models]
    if run is not None:
        with recorded_step(out / LOG_NAME, str(out), command_line()):
            text = ParallelText(source, references)
            reranked = rerank_run(run, text, out, settings, seed, jobs, resume, features)
        click.echo(f"dev BLEU {reranked.dev_bleu:.2f}, weights in {out / 'weights.json'}")
        return
    if dev_list is None:
        raise ConfigError("found neither a RUN nor --list, expected one of them")
    if bool(test_list) != bool(test_source) or (test_references and not test_list):
        raise ConfigError("--test-list, --test-source and --test-reference belong together")
    dev = ListedText(dev_list, source, references)
    test = (
        ListedText(test_list, test_source, test_references) if test_list and test_source else None
    )
    found = rerank_lists(dev, test, out, settings, features, seed, jobs, init_weights)
    if test is not None and test_references:
        _print_comparison(found, test, out, target_language, groups, jobs, settings.chosen_metric)
    else:
        click.echo(f"weights in {out / 'weights.json'}")


def _refuse_options(options: Mapping[str, object], of_what: str) -> None:
    for name, value in options.items():
        if value:
            raise ConfigError(f"found {name}, an option for {of_what} alone")


def _print_comparison(
    reranked: Reranked,
    test: ListedText,
    out: Path,
    target_language: str,
    groups: Path | None,
    jobs: int,
    metric: MetricChoice,
) -> None:
    """Compare the chosen test translations, as `tuning compare` does; write the table and print it."""
    from tuning.compare.sentence_facts import TextContext
    from tuning.compare.systems import CompareConfig, compare, digests
    from tuning.loop.rerank import FIRST, RERANKED
    from tuning.report.write import write_comparison

    outputs = reranked.outputs(out)
    control = RERANKED if len(outputs) > 2 else ""  # shows what learning weights gives by itself
    settings = CompareConfig(target_language=target_language, control=control)
    metrics = [] if metric.name == "bleu" else [metric]
    context = TextContext(groups=groups)
    comparison = compare(outputs, test.source, test.references, settings, jobs, context, metrics)
    made = provenance(sys.argv, digests(outputs, [test.source, *test.references]))
    tuned_for = "" if reranked.metric == "bleu" else reranked.metric
    rows = [
        dataclasses.replace(row, tuned_for="" if row.system == FIRST else tuned_for)
        for row in comparison.rows
    ]
    click.echo(
        write_comparison(dataclasses.replace(comparison, rows=rows, made=made), out), nl=False
    )


def _optimizer_settings(config: Path | None) -> OptimizerConfig:
    """The settings of `tuning optimize`."""
    from tuning.optimisers.contract import OptimizerConfig

    return load_config(OptimizerConfig, config)


@command
@click.option(
    "--features",
    type=INPUT_FILE,
    required=True,
    multiple=True,
    help="A features.dat; may be given several times.",
)
@click.option(
    "--scores",
    type=INPUT_FILE,
    required=True,
    multiple=True,
    help="The scores.dat of each, in the same order.",
)
@click.option(
    "--init-weights",
    type=INPUT_FILE,
    required=True,
    help="An init.opt with the weights to start from.",
)
@click.option(
    "--optimizer",
    type=choice_of(OptimizerName),
    default="kbmira",
    show_default=True,
    help="How weights are found.",
)
@SEED
@config_options(_optimizer_settings)
@JOBS
def optimize(
    features: tuple[Path, ...],
    scores: tuple[Path, ...],
    init_weights: Path,
    optimizer: OptimizerName,
    seed: int,
    config: Path | None,
    jobs: int,
) -> None:
    """Optimise on the tuning files of Moses.

    Weights and BLEU are printed as JSON.

    Example: tuning optimize --features run1.features.dat --scores run1.scores.dat --init-weights init.opt
    """
    from tuning.optimisers.moses_files import optimize_files

    settings = _optimizer_settings(config)
    result = optimize_files(features, scores, init_weights, optimizer, settings, seed, jobs)
    for name in set(result.frozen) - set(settings.frozen):
        click.echo(f"warning: {name} is constant in every sentence; its weight stays", err=True)
    click.echo(json.dumps(dataclasses.asdict(result), indent=1))


COMMANDS = (tune, rerank, optimize)
