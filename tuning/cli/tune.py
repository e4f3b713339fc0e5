"""Commands that find weights: tune, rerank, optimize."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
from tuning.cli.options import NBEST_SIZE, OPTIMIZER, REFERENCE, SEED, SOURCE, run_commands_option
from tuning.optimisers.by_name import OptimizerName

if TYPE_CHECKING:
    from tuning.loop.rerank_run import RerankConfig
    from tuning.loop.tuning_loop import TuningConfig
    from tuning.optimisers.contract import OptimizerConfig


def _tuning_settings(
    config: Path | None,
    optimizer: OptimizerName | None,
    nbest_size: int | None,
    max_iterations: int | None,
    neural_lms: tuple[str, ...],
    left_out: tuple[str, ...],
) -> TuningConfig:
    """The settings of `tuning tune`."""
    from tuning.loop.tuning_loop import TuningConfig

    options = {
        "optimizer": optimizer,
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
    from moses_bridge.base.cluster import open_cluster
    from moses_bridge.base.steps import LOG_NAME, recorded_step
    from tuning.loop.nbest_choice import NBestFeature
    from tuning.loop.tuning_loop import Workers
    from tuning.loop.tuning_loop import tune as run_tuning

    check_workers(address, workers)
    settings = _tuning_settings(config, optimizer, nbest_size, max_iterations, neural_lms, left_out)
    with contextlib.ExitStack() as stack:
        stack.enter_context(recorded_step(out / LOG_NAME, str(out), command_line()))
        connected = None if address is None else open_cluster(address, workers, "CPU")
        cluster = None if connected is None else stack.enter_context(connected)
        run = run_tuning(
            ini,
            source,
            references,
            out,
            settings,
            seed,
            Workers(jobs, cluster),
            resume,
            [NBestFeature.parse(text) for text in nbest_features],
            init_weights,
        )
    click.echo(f"dev BLEU {run.dev_bleu:.2f}, weights in {out / 'weights.json'}")


def _rerank_settings(
    config: Path | None,
    optimizer: OptimizerName | None,
    nbest_size: int | None,
    run_commands: bool,
) -> RerankConfig:
    """The settings of `tuning rerank`."""
    from tuning.loop.rerank_run import RerankConfig

    options = {
        "optimizer": optimizer,
        "nbest_size": nbest_size,
        "run_commands": run_commands or None,
    }
    return with_options(load_config(RerankConfig, config), options)


@command
@click.argument("run", type=DIRECTORY)
@SOURCE
@REFERENCE
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Run directory to write.")
@click.option(
    "--nbest-feature",
    "nbest_features",
    multiple=True,
    help="NAME=COMMAND, adding a feature to n-best lists; {nbest}, {source}, {out} become paths. Without "
    "one, only RUN's own features are tuned again, as a control.",
)
@OPTIMIZER
@NBEST_SIZE
@SEED
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@run_commands_option("run_commands")
@config_options(_rerank_settings)
@JOBS
def rerank(
    run: Path,
    source: Path,
    references: tuple[Path, ...],
    out: Path,
    nbest_features: tuple[str, ...],
    optimizer: OptimizerName | None,
    nbest_size: int | None,
    seed: int,
    resume: bool,
    run_commands: bool,
    config: Path | None,
    jobs: int,
) -> None:
    """Tune weights for reranking n-best lists.

    The lists are those of RUN, whose search stays as it is. Writes a run directory for `tuning translate` and
    `tuning compare`.

    Example: tuning rerank run1 --source dev.en --reference dev.fr --out reranked1
    --nbest-feature "NN0=rescorer nbest {nbest} --source {source} --model rnn --feature NN0 --out {out}"
    """
    from moses_bridge.base.steps import LOG_NAME, recorded_step
    from tuning.loop.nbest_choice import NBestFeature
    from tuning.loop.rerank_run import rerank_run

    settings = _rerank_settings(config, optimizer, nbest_size, run_commands)
    features = [NBestFeature.parse(text) for text in nbest_features]
    with recorded_step(out / LOG_NAME, str(out), command_line()):
        texts = (source, references, out)
        reranked = rerank_run(run, *texts, settings, seed, jobs, resume, features)
    click.echo(f"dev BLEU {reranked.dev_bleu:.2f}, weights in {out / 'weights.json'}")


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
