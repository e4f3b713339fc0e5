"""The command tuning: a thin shell over one public function for each verb."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.command import (
    JOBS,
    RAY,
    VERSION,
    WORKERS,
    CommandGroup,
    check_workers,
    command_line,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.base.errors import ConfigError
from tuning.optimisers.by_name import OPTIMIZER_NAMES

if TYPE_CHECKING:
    from tuning.compare.systems import CompareConfig
    from tuning.loop.rerank_run import RerankConfig
    from tuning.loop.tuning_loop import TuningConfig
    from tuning.optimisers.by_name import OptimizerName
    from tuning.optimisers.contract import OptimizerConfig
    from tuning.scan.weight_scan import ScanConfig

FORMATS = ("json", "text", "markdown", "latex")
READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(path_type=Path)
SOURCE = click.option("--source", type=READABLE, required=True, help="Tokenised source text.")
REFERENCE = click.option(
    "--reference",
    "references",
    type=READABLE,
    required=True,
    multiple=True,
    help="Tokenised reference; may be given several times.",
)
OPTIMIZER = click.option(
    "--optimizer",
    type=click.Choice(OPTIMIZER_NAMES),
    help="How weights are found; sets the key optimizer.",
)
NBEST_SIZE = click.option(
    "--nbest-size",
    type=click.IntRange(min=1),
    help="Different translations of a sentence in an n-best list; sets the key nbest_size.",
)
RUN_COMMANDS = "Run the commands that stand in the runs' weights.json"
SEED = click.option("--seed", type=int, default=1, show_default=True)


@click.group(cls=CommandGroup)
@VERSION
def main() -> None:
    """Tune log-linear weights against BLEU and compare tuned systems."""


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


@main.command()
@click.option("--ini", type=READABLE, required=True, help="The system; its weights are the start.")
@SOURCE
@REFERENCE
@click.option("--out", type=DIRECTORY, required=True, help="Run directory.")
@OPTIMIZER
@NBEST_SIZE
@click.option(
    "--max-iterations",
    type=click.IntRange(min=1),
    help="Decodings of the dev text at most; sets the key max_iterations.",
)
@SEED
@click.option("--resume", is_flag=True, help="Continue the run that stands in --out.")
@click.option("--init-weights", type=READABLE, help="weights.json of the run to start from.")
@click.option(
    "--nbest-feature",
    "nbest_features",
    multiple=True,
    help="NAME=COMMAND that adds a feature to n-best lists; {nbest}, {source}, {out} are paths. A command "
    'without them stays open and gives the values: "CSLM0=rescorer serve cslm". With NAME:LM0=COMMAND the '
    "decoder's LM0 has the weights of both while it searches.",
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
    help="A column that stays at weight 0, as TranslationModel0_2; sets the key left_out.",
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
    """Decode, pool, optimise, until the weights settle; write weights.json and moses.ini.

    Example: tuning tune --ini moses.ini --source dev.en --reference dev.fr --out run1 --seed 1
    """
    from moses_bridge.base.cluster import open_cluster
    from moses_bridge.base.steps import LOG_NAME, recorded_step
    from tuning.loop.nbest_choice import NBestFeature
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
            jobs,
            resume,
            [NBestFeature.parse(text) for text in nbest_features],
            init_weights,
            cluster,
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


@main.command()
@click.argument("run", type=DIRECTORY)
@SOURCE
@REFERENCE
@click.option("--out", type=DIRECTORY, required=True, help="Run directory to write.")
@click.option(
    "--nbest-feature",
    "nbest_features",
    multiple=True,
    help="NAME=COMMAND that adds a feature to n-best lists; {nbest}, {source}, {out} are paths. Without "
    "any, RUN's own features are weighed anew: the control.",
)
@OPTIMIZER
@NBEST_SIZE
@SEED
@click.option("--resume", is_flag=True, help="Continue what stands in --out.")
@click.option("--run-commands", is_flag=True, help=f"{RUN_COMMANDS}; sets the key run_commands.")
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
    """Tune weights that choose from the n-best lists of RUN, whose search stays as it is.

    What is written is a run for `tuning translate` and `tuning compare`.

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


@main.command()
@click.option("--features", type=READABLE, required=True, multiple=True, help="A features.dat.")
@click.option("--scores", type=READABLE, required=True, multiple=True, help="Its scores.dat.")
@click.option("--init", type=READABLE, required=True, help="init.opt: start, minimum, maximum.")
@click.option("--optimizer", type=click.Choice(OPTIMIZER_NAMES), default="mert", show_default=True)
@SEED
@config_options(_optimizer_settings)
@JOBS
def optimize(
    features: tuple[Path, ...],
    scores: tuple[Path, ...],
    init: Path,
    optimizer: OptimizerName,
    seed: int,
    config: Path | None,
    jobs: int,
) -> None:
    """Optimise on the tuning files of Moses; print weights and BLEU as JSON.

    Example: tuning optimize --features run1.features.dat --scores run1.scores.dat --init init.opt
    """
    from tuning.optimisers.by_name import load_optimizer
    from tuning.pools.moses_pool import read_moses_pool, read_start

    if len(features) != len(scores):
        raise ConfigError(
            f"{len(features)} --features and {len(scores)} --scores; they go in pairs"
        )
    pool = read_moses_pool(features, scores)
    start = read_start(init, pool)
    settings = _optimizer_settings(config)
    result = load_optimizer(optimizer)(pool, start[None], settings, seed, jobs)
    for name in set(result.frozen) - set(settings.frozen):
        click.echo(f"warning: {name} is constant in every sentence; its weight stays", err=True)
    click.echo(json.dumps(dataclasses.asdict(result), indent=1))


@main.command()
@click.option("--output", type=READABLE, required=True, help="Translations, one a line.")
@REFERENCE
@click.option("--target", default="fr", show_default=True, help="Language of the detokenizer.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="json", show_default=True)
@click.option("--samples", type=click.IntRange(min=2), default=1000, help="Of the bootstrap.")
@SEED
def evaluate(
    output: Path, references: tuple[Path, ...], target: str, form: str, samples: int, seed: int
) -> None:
    """Print BLEU on tokens with its bootstrap s.d., and BLEU, chrF and TER on detokenised text.

    Example: tuning evaluate --output test.out --reference test.fr --target fr
    """
    from tuning.compare.output_scores import score_output
    from tuning.report.write import format_scores

    scores = score_output(output, references, target, samples, seed)
    click.echo(format_scores(scores, form), nl=False)


def _compare_settings(
    config: Path | None, target: str | None, control: str | None, run_commands: bool
) -> CompareConfig:
    """The settings of `tuning compare`."""
    from tuning.compare.systems import CompareConfig

    options = {"target": target, "control": control, "run_commands": run_commands or None}
    return with_options(load_config(CompareConfig, config), options)


@main.command()
@click.argument("systems", nargs=-1, required=True)
@SOURCE
@REFERENCE
@click.option("--out", type=DIRECTORY, required=True, help="Directory for the table.")
@click.option("--target", help="Target language, for the detokenizer; sets the key target.")
@click.option(
    "--control",
    help="A system that cannot help; the others are set against it too. Sets the key control.",
)
@click.option(
    "--run-commands",
    is_flag=True,
    help=f"{RUN_COMMANDS}; sets the key run_commands.",
)
@config_options(_compare_settings)
@JOBS
def compare(
    systems: tuple[str, ...],
    source: Path,
    references: tuple[Path, ...],
    out: Path,
    target: str | None,
    control: str | None,
    run_commands: bool,
    config: Path | None,
    jobs: int,
) -> None:
    """Compare SYSTEMS, each NAME=RUN[,RUN...], on a test text; the first one is the baseline.

    Example: tuning compare Baseline=b1,b2,b3 +RNN=r1,r2,r3 --source test.en --reference test.fr --out cmp
    """
    from tuning.compare.systems import compare as compare_systems
    from tuning.report.write import write_comparison

    settings = _compare_settings(config, target, control, run_commands)
    comparison = compare_systems(_parse_systems(systems), source, references, settings, jobs)
    click.echo(write_comparison(comparison, out), nl=False)


@main.command()
@click.argument("experiments", nargs=-1, required=True, type=READABLE)
@click.option("--out", type=DIRECTORY, help="The rules, a makefile.")
@click.option(
    "--set", "changes", multiple=True, help='TOML that replaces keys: "seeds.runs = [1, 2]".'
)
@click.option(
    "--dry-run", is_flag=True, help="Print what is made from what, in order; write nothing."
)
def plan(
    experiments: tuple[Path, ...], out: Path | None, changes: tuple[str, ...], dry_run: bool
) -> None:
    """Write what EXPERIMENTS say of systems, networks and tables as rules for make.

    Example: tuning plan tuning/experiments/small.toml --dry-run
    """
    from tuning.experiments.description import read_experiment
    from tuning.experiments.plan import plan_graph, write_plan

    if (out is None) != dry_run:
        raise click.UsageError("give one of --out and --dry-run")
    experiment = read_experiment(experiments, changes)
    if out is None:
        click.echo(plan_graph(experiment), nl=False)
    else:
        write_plan(experiment, out)


@main.command()
@click.argument("tables", nargs=-1, required=True)
@click.option("--system", required=True, help="A row of each table, as +RNN.")
@click.option("--out", type=DIRECTORY, required=True, help="Directory for table and picture.")
def gains(tables: tuple[str, ...], system: str, out: Path) -> None:
    """Put what a system gains in several TABLES, each NAME=table.json of tuning compare, side by side.

    Example: tuning gains small=a/table.json large=b/table.json --system +RNN --out gains
    """
    from tuning.compare.gains import gains_of
    from tuning.report.table_file import read_comparison
    from tuning.report.write import write_gains

    comparisons = {name: read_comparison(path) for name, path in _parse_tables(tables).items()}
    click.echo(write_gains(gains_of(comparisons, system), out), nl=False)


def _scan_settings(
    config: Path | None,
    grid: str | None,
    against: str | None,
    neural_lms: tuple[str, ...],
    run_commands: bool,
) -> ScanConfig:
    """The settings of `tuning scan`."""
    from tuning.scan.weight_scan import ScanConfig

    options = {
        "grid": None if grid is None else _numbers(grid),
        "against": against,
        "decoder.neural_lm": [*neural_lms] or None,
        "run_commands": run_commands or None,
    }
    return with_options(load_config(ScanConfig, config), options)


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--grid: found {text!r}, expected numbers joined by commas") from error


@main.command()
@click.argument("system", type=click.Path(exists=True, path_type=Path))
@click.option("--feature", required=True, help="The column, as TranslationModel0_4 or CSLM0.")
@SOURCE
@REFERENCE
@click.option("--out", type=DIRECTORY, required=True, help="Directory for decodings and table.")
@click.option("--grid", help="Values of its weight, as -0.01,0.01,0.02; sets the key grid.")
@click.option("--against", help="What makes up for the length; sets the key against.")
@click.option("--init-weights", type=READABLE, help="weights.json of the run to take weights from.")
@click.option(
    "--neural-lm",
    "neural_lms",
    multiple=True,
    help="NAME=COMMAND, as of tuning tune; sets the key decoder.neural_lm.",
)
@click.option(
    "--run-commands",
    is_flag=True,
    help="Run the commands that stand in the run's weights.json; sets the key run_commands.",
)
@click.option("--resume", is_flag=True, help="Take the decodings that stand in --out.")
@config_options(_scan_settings)
@JOBS
def scan(
    system: Path,
    feature: str,
    source: Path,
    references: tuple[Path, ...],
    out: Path,
    grid: str | None,
    against: str | None,
    init_weights: Path | None,
    neural_lms: tuple[str, ...],
    run_commands: bool,
    resume: bool,
    config: Path | None,
    jobs: int,
) -> None:
    """Decode with several weights of a feature of SYSTEM, a moses.ini or a run directory.

    Example: tuning scan rnn/moses.ini --init-weights run1/weights.json --feature TranslationModel0_4
    --source dev.en --reference dev.fr --out scan
    """
    from tuning.report.write import write_scan
    from tuning.scan.weight_scan import scan as scan_weights

    settings = _scan_settings(config, grid, against, neural_lms, run_commands)
    texts = (source, references, out)
    found = scan_weights(system, feature, *texts, settings, jobs, resume, init_weights)
    click.echo(write_scan(found, out), nl=False)


@main.command()
@click.argument("runs", nargs=-1, required=True, type=DIRECTORY)
@SOURCE
@click.option("--run-commands", is_flag=True, help=f"{RUN_COMMANDS}.")
@JOBS
def translate(runs: tuple[Path, ...], source: Path, run_commands: bool, jobs: int) -> None:
    """Translate a text with the weights of RUNS, ahead of `tuning compare`, and print where it is.

    Example: tuning translate base1 base2 base3 --source test.en
    """
    from tuning.compare.systems import translate_runs

    for output in translate_runs(runs, source, jobs, run_commands).values():
        click.echo(output)


@main.command()
@click.argument("runs", nargs=-1, required=True, type=DIRECTORY)
@click.option("--out", type=DIRECTORY, required=True, help="Picture, .svg or .png.")
def plot(runs: tuple[Path, ...], out: Path) -> None:
    """Draw dev BLEU by iteration and the weights of RUNS, directories that tuning tune made.

    Example: tuning plot run1 run2 run3 --out tuning.svg
    """
    from tuning.report.plot import plot_runs

    plot_runs(runs, out)


@main.command()
@click.argument("runs", nargs=-1, type=DIRECTORY)
@click.option("--out", type=DIRECTORY, required=True, help="The page, .html.")
@click.option(
    "--table",
    "tables",
    type=READABLE,
    multiple=True,
    help="table.json of tuning compare; its runs are added. May be given several times.",
)
@click.option("--source", type=READABLE, help="Tokenised test text; shows its translations.")
@click.option(
    "--reference",
    "references",
    type=READABLE,
    multiple=True,
    help="Tokenised reference; may be given several times.",
)
@click.option(
    "--model",
    "models",
    type=DIRECTORY,
    multiple=True,
    help="Model directory with the log of its training; those behind the runs are found.",
)
@click.option(
    "--scored", type=READABLE, multiple=True, help="Phrase table with the column of a model."
)
@click.option(
    "--map",
    "maps",
    type=READABLE,
    multiple=True,
    help="Map that rescorer map wrote: words.json or phrases.json.",
)
@click.option("--steps", type=READABLE, help="Log of moses-bridge step.")
@click.option("--title", default="Tuning report", show_default=True)
@click.option(
    "--points",
    type=click.IntRange(min=1),
    default=3000,
    show_default=True,
    help="Pairs of a scored table that are shown at most.",
)
@SEED
def report(
    runs: tuple[Path, ...],
    out: Path,
    tables: tuple[Path, ...],
    source: Path | None,
    references: tuple[Path, ...],
    models: tuple[Path, ...],
    scored: tuple[Path, ...],
    maps: tuple[Path, ...],
    steps: Path | None,
    title: str,
    points: int,
    seed: int,
) -> None:
    """Write one HTML page about RUNS, directories that tuning tune made, and tables of them.

    Example: tuning report --table cmp/table.json --source test.en --reference test.fr --out report.html
    """
    from tuning.report.page.contents import ReportInputs
    from tuning.report.page.write import write_report

    inputs = ReportInputs(
        runs,
        tables,
        source,
        references,
        models,
        scored,
        maps,
        steps,
        title,
        points,
        seed,
    )
    write_report(inputs, out)
    click.echo(f"report in {out}")


def _parse_tables(tables: tuple[str, ...]) -> dict[str, Path]:
    named = _named(tables, "NAME=TABLE", "the table {} is given twice")
    return {name: Path(path) for name, path in named.items()}


def _parse_systems(systems: tuple[str, ...]) -> dict[str, list[Path]]:
    form = "NAME=RUN[,RUN...]"
    named = _named(systems, form, "the system {} is given twice; join its runs by commas")
    parsed = {}
    for name, runs in named.items():
        directories = runs.split(",")
        if not all(directories):
            raise _unexpected(f"{name}={runs}", form)
        parsed[name] = [Path(run) for run in directories]
    return parsed


def _named(texts: tuple[str, ...], form: str, twice: str) -> dict[str, str]:
    named: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise _unexpected(text, form)
        if name in named:
            raise ConfigError(twice.format(name))
        named[name] = value
    return named


def _unexpected(text: str, form: str) -> ConfigError:
    return ConfigError(f"found {text!r}, expected {form}")
