"""Commands that translate and measure: evaluate, translate, compare, gains, pool, scan."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moses_bridge.base.command import (
    DIRECTORY,
    FILE_OR_DIRECTORY,
    INPUT_FILE,
    JOBS,
    OUTPUT_DIRECTORY,
    choice_of,
    command,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.memory import loading
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.provenance import provenance
from tuning.cli.options import REFERENCE, SEED, SOURCE, run_commands_option
from tuning.report.forms import OutputFormat

if TYPE_CHECKING:
    from tuning.compare.comparison import Comparison
    from tuning.compare.scan import ScanConfig
    from tuning.compare.systems import CompareConfig


@command
@click.argument("systems", nargs=-1, required=True)
@REFERENCE
@click.option(
    "--groups",
    type=INPUT_FILE,
    help="Names of the documents of the sentences, one a line: the bootstrap draws documents instead of "
    "sentences.",
)
@click.option(
    "--target-language",
    default="fr",
    show_default=True,
    help="Target language, for the detokenizer.",
)
@click.option(
    "--format",
    "form",
    type=choice_of(OutputFormat),
    default="json",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--samples", type=click.IntRange(min=2), default=1000, help="Number of bootstrap samples."
)
@SEED
def evaluate(
    systems: tuple[str, ...],
    references: tuple[Path, ...],
    groups: Path | None,
    target_language: str,
    form: OutputFormat,
    samples: int,
    seed: int,
) -> None:
    """Print BLEU, chrF and TER of translations.

    BLEU is on tokens, with its bootstrap s.d.; then BLEU, chrF and TER are on detokenised text. SYSTEMS is
    one FILE of translations, one a line, or each of them is NAME=FILE[,FILE...]: then means over the files of
    each are printed.

    Example: tuning evaluate test.out --reference test.fr --target-language fr

    Example: tuning evaluate A=a1.out,a2.out B=b.out --reference test.fr --reference test2.fr --format text
    """
    from tuning.compare.output_scores import score_output, score_systems
    from tuning.report.write import format_scores, format_systems

    rest = (references, target_language, samples, seed, groups)
    if len(systems) == 1 and (Path(systems[0]).is_file() or "=" not in systems[0]):
        scores = score_output(Path(systems[0]), *rest)
        click.echo(format_scores(scores, form), nl=False)
        return
    named = _parse_systems(systems, "NAME=FILE[,FILE...]")
    click.echo(format_systems(score_systems(named, *rest), form), nl=False)


def _compare_settings(
    config: Path | None, target_language: str | None, control: str | None, run_commands: bool
) -> CompareConfig:
    """The settings of `tuning compare`."""
    from tuning.compare.systems import CompareConfig

    options = {
        "target_language": target_language,
        "control": control,
        "run_commands": run_commands or None,
    }
    return with_options(load_config(CompareConfig, config), options)


@command
@click.argument("systems", nargs=-1, required=True)
@SOURCE
@REFERENCE
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for the table.")
@click.option(
    "--target-language",
    help="Target language, for the detokenizer; sets the key target_language.",
)
@click.option(
    "--train-source",
    "training",
    type=INPUT_FILE,
    multiple=True,
    help="Source side of the training text, tokenised: print the share of test sentences with a near copy in "
    "it, and a second line a row for the others; may be given several times.",
)
@click.option(
    "--train-target",
    "training_targets",
    type=INPUT_FILE,
    multiple=True,
    help="Target side of the training text, tokenised: add the accuracy of words by their frequency in it to "
    "table.json and the page; may be given several times.",
)
@click.option(
    "--groups",
    type=INPUT_FILE,
    help="Names of the documents of the test sentences, one a line: leave out documents instead of sentences "
    "for the variance over texts.",
)
@click.option(
    "--control",
    help="System that cannot help; the others are compared with it too. Sets the key control.",
)
@run_commands_option("run_commands")
@config_options(_compare_settings)
@JOBS
def compare(
    systems: tuple[str, ...],
    source: Path,
    references: tuple[Path, ...],
    out: Path,
    target_language: str | None,
    training: tuple[Path, ...],
    training_targets: tuple[Path, ...],
    groups: Path | None,
    control: str | None,
    run_commands: bool,
    config: Path | None,
    jobs: int,
) -> None:
    """Compare systems on a test text.

    Each of SYSTEMS is NAME=RUN[,RUN...] or NAME=FILE[,FILE...]; the first one is the baseline. A RUN is the
    directory of a tuning, a FILE has translations, one a line.

    Example: tuning compare Baseline=b1,b2,b3 +RNN=r1,r2,r3 --source test.en --reference test.fr --out cmp
    """
    with loading():
        from tuning.compare.sentence_facts import TextContext
        from tuning.compare.systems import compare as compare_systems
        from tuning.compare.systems import digests
        from tuning.report.write import write_comparison, written_files

    texts = [source, *references, *training, *training_targets]
    texts += [] if groups is None else [groups]
    named = _parse_systems(systems, "NAME=RUN[,RUN...] or NAME=FILE[,FILE...]")
    outputs = [path for paths in named.values() for path in paths if path.is_file()]
    refuse_overwriting(written_files(out, "table"), [*texts, *outputs])
    settings = _compare_settings(config, target_language, control, run_commands)
    context = TextContext(training, training_targets, groups)
    comparison = compare_systems(named, source, references, settings, jobs, context)
    made = provenance(sys.argv, digests(named, texts))
    click.echo(write_comparison(replace(comparison, made=made), out), nl=False)


@command
@click.argument("comparisons", nargs=-1, required=True)
@click.option("--system", required=True, help="Row to take from each comparison, like +RNN.")
@click.option(
    "--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for table and picture."
)
def gains(comparisons: tuple[str, ...], system: str, out: Path) -> None:
    """Show side by side what a system gains.

    Each of COMPARISONS is NAME=table.json of `tuning compare`.

    Example: tuning gains small=a/table.json large=b/table.json --system +RNN --out gains
    """
    from tuning.compare.gains import gains_of
    from tuning.report.write import write_gains, written_files

    tables = _read_tables(comparisons, written_files(out, "gains"))
    click.echo(write_gains(gains_of(tables, system), out), nl=False)


@command
@click.argument("comparisons", nargs=-1, required=True)
@click.option("--system", required=True, help="Row to take from each comparison, like +RNN.")
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for the table.")
def pool(comparisons: tuple[str, ...], system: str, out: Path) -> None:
    """Pool what a system gains in several comparisons.

    Each of COMPARISONS is NAME=table.json of `tuning compare`. Prints the inverse-variance mean and that of
    random effects (DerSimonian and Laird, 1986) with 95% intervals, and how far the tables differ: Q, I^2 and
    tau^2.

    Example: tuning pool 5000=a/table.json 60000=b/table.json de=c/table.json --system +RNN --out pooled
    """
    from tuning.compare.gains import pool as pool_gains
    from tuning.report.write import write_pooled, written_files

    tables = _read_tables(comparisons, written_files(out, "pool"))
    click.echo(write_pooled(pool_gains(tables, system), out), nl=False)


def _scan_settings(
    config: Path | None,
    grid: str | None,
    against: str | None,
    neural_lms: tuple[str, ...],
    run_commands: bool,
) -> ScanConfig:
    """The settings of `tuning scan`."""
    from tuning.compare.scan import ScanConfig

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


@command
@click.argument("system", type=FILE_OR_DIRECTORY)
@click.option("--column", required=True, help="Column to scan, like TranslationModel0_4 or CSLM0.")
@SOURCE
@REFERENCE
@click.option(
    "--out", type=OUTPUT_DIRECTORY, required=True, help="Directory for decodings and table."
)
@click.option("--grid", help="Weights to try, like -0.01,0.01,0.02; sets the key grid.")
@click.option("--against", help="Column whose weight restores the length; sets the key against.")
@click.option(
    "--weights", type=INPUT_FILE, help="weights.json whose weights replace those of the ini."
)
@click.option(
    "--neural-lm",
    "neural_lms",
    multiple=True,
    help="NAME=COMMAND; see `tuning tune --help`; sets the key decoder.neural_lm.",
)
@run_commands_option("run_commands")
@click.option("--resume", is_flag=True, help="Reuse the decodings in --out.")
@config_options(_scan_settings)
@JOBS
def scan(
    system: Path,
    column: str,
    source: Path,
    references: tuple[Path, ...],
    out: Path,
    grid: str | None,
    against: str | None,
    weights: Path | None,
    neural_lms: tuple[str, ...],
    run_commands: bool,
    resume: bool,
    config: Path | None,
    jobs: int,
) -> None:
    """Decode with several weights for one column.

    SYSTEM is a moses.ini or a run directory.

    Example: tuning scan rnn/moses.ini --weights run1/weights.json --column TranslationModel0_4
    --source dev.en --reference dev.fr --out scan
    """
    from tuning.compare.scan import scan as scan_weights
    from tuning.loop.fingerprints import ParallelText
    from tuning.report.write import write_scan, written_files

    refuse_overwriting(written_files(out, "scan"), [source, *references])
    settings = _scan_settings(config, grid, against, neural_lms, run_commands)
    text = ParallelText(source, references)
    found = scan_weights(system, column, text, out, settings, jobs, resume, weights)
    click.echo(write_scan(found, out), nl=False)


@command
@click.argument("runs", nargs=-1, required=True, type=DIRECTORY)
@SOURCE
@run_commands_option()
@JOBS
def translate(runs: tuple[Path, ...], source: Path, run_commands: bool, jobs: int) -> None:
    """Translate a text with the weights of runs.

    `tuning compare` then finds the translations. The names of the output files are printed.

    Example: tuning translate base1 base2 base3 --source test.en
    """
    with loading():
        from tuning.compare.translations import translate_runs

    for output in translate_runs(runs, source, jobs, run_commands).values():
        click.echo(output)


def _read_tables(tables: tuple[str, ...], written: list[Path]) -> dict[str, Comparison]:
    """The comparisons in files given as NAME=TABLE, none of which is to be written."""
    from tuning.compare.comparison import read_comparison

    named = _named(tables, "NAME=TABLE", "the table {} is given twice")
    paths = {name: Path(path) for name, path in named.items()}
    refuse_overwriting(written, paths.values())
    return {name: read_comparison(path) for name, path in paths.items()}


def _parse_systems(systems: tuple[str, ...], form: str) -> dict[str, list[Path]]:
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


COMMANDS = (evaluate, translate, compare, gains, pool, scan)
