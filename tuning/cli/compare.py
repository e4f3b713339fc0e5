"""Commands that decode and measure: evaluate, decode, compare, gains, pool, scan."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.command import command
from moses_bridge.base.config import AtLeast, with_options
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.machine import loading
from moses_bridge.base.options import (
    ARGUMENT,
    N_JOBS,
    ConfigOptions,
    Directory,
    FileOrDirectory,
    InputFile,
    Jobs,
    JobsOptions,
    OutputDirectory,
    OutputFile,
    option,
)
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.provenance import provenance
from tuning.cli.options import LANGUAGE_HELP, TOKENIZE_HELP, References, TextOptions
from tuning.compare.target_text import TokenizerName
from tuning.metrics.by_name import MetricName
from tuning.report.forms import OutputFormat

if TYPE_CHECKING:
    from tuning.compare.comparison import Comparison
    from tuning.compare.scan import ScanConfig
    from tuning.compare.systems import CompareConfig


@command
def evaluate(
    systems: Annotated[tuple[str, ...], ARGUMENT],
    references: References,
    groups: Annotated[
        InputFile | None,
        "Names of the documents of the sentences, one per line: the bootstrap draws documents instead of "
        "sentences.",
    ] = None,
    target_language: Annotated[str, LANGUAGE_HELP] = "",
    tokenize: Annotated[TokenizerName | None, TOKENIZE_HELP] = None,
    form: Annotated[OutputFormat, option("--format"), "Output format."] = "json",
    samples: Annotated[int, AtLeast(2), "Number of bootstrap samples."] = 1000,
    seed: Annotated[int, "Seed of the random numbers."] = 1,
) -> None:
    """Print BLEU, chrF and TER of translations.

    BLEU is on tokens, with its bootstrap s.d.; then BLEU, chrF and TER are on detokenised text. SYSTEMS is
    one FILE of translations, one a line, or each of them is NAME=FILE[,FILE...]: then means over the files of
    each are printed.

    Example: tuning evaluate test.out --reference test.fr --target-language fr

    Example: tuning evaluate A=a1.out,a2.out B=b.out --reference test.fr --reference test2.fr --format text
    """
    from tuning.compare.output_scores import score_output, score_systems
    from tuning.compare.target_text import target_text
    from tuning.report.write import format_scores, format_systems

    target = target_text(references, target_language, tokenize)
    rest = (references, target, samples, seed, groups)
    if len(systems) == 1 and (Path(systems[0]).is_file() or "=" not in systems[0]):
        scores = score_output(Path(systems[0]), *rest)
        click.echo(format_scores(scores, form), nl=False)
        return
    named = _parse_systems(systems, "NAME=FILE[,FILE...]")
    click.echo(format_systems(score_systems(named, *rest), form), nl=False)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(JobsOptions, ConfigOptions):
    """Options of `tuning compare`.

    Attributes:
        systems: Systems as NAME=RUN[,RUN...] or NAME=FILE[,FILE...].
        out: Directory for the table.
        target_language: Code of the target language, as fr or pt_BR. [default: from the reference's suffix]
        tokenize: Tokenizer of sacreBLEU for BLEU of detokenised text. [default: by language]
        training: Source side of the training text, tokenised, for printing the share of test sentences with a
            near copy in it, and a second line per row for the others; may be given several times.
        training_targets: Target side of the training text, tokenised, for adding the accuracy of words by
            their frequency in it to table.json and the page; may be given several times.
        groups: Names of the documents of the test sentences, one per line: the variance over texts leaves out
            documents instead of sentences.
        control: System that cannot help; the others are compared with it, too.
        run_commands: Run the commands named in the weights.json of a run.
    """

    systems: Annotated[tuple[str, ...], ARGUMENT]
    out: OutputDirectory
    target_language: Annotated[str | None, option(key="target_language")] = None
    tokenize: Annotated[TokenizerName | None, option(key="tokenize")] = None
    training: Annotated[tuple[InputFile, ...], option("--train-source")] = ()
    training_targets: Annotated[tuple[InputFile, ...], option("--train-target")] = ()
    groups: InputFile | None = None
    control: Annotated[str | None, option(key="control")] = None
    run_commands: Annotated[bool, option(key="run_commands")] = False

    def settings(self) -> CompareConfig:
        """The settings of a comparison."""
        from tuning.compare.systems import CompareConfig

        return self.settings_of(CompareConfig)


@command
def compare(text: TextOptions, options: CompareOptions) -> None:
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

    out, groups = options.out, options.groups
    texts = [text.source, *text.references, *options.training, *options.training_targets]
    texts += [] if groups is None else [groups]
    named = _parse_systems(options.systems, "NAME=RUN[,RUN...] or NAME=FILE[,FILE...]")
    outputs = [path for paths in named.values() for path in paths if path.is_file()]
    refuse_overwriting(written_files(out, "table"), [*texts, *outputs])
    comparison = compare_systems(
        named,
        text.source,
        text.references,
        options.settings(),
        options.jobs,
        TextContext(options.training, options.training_targets, groups),
    )
    made = provenance(sys.argv, digests(named, texts))
    click.echo(write_comparison(dataclasses.replace(comparison, made=made), out), nl=False)


@command
def gains(
    comparisons: Annotated[tuple[str, ...], ARGUMENT],
    system: Annotated[str, "Row to take from each comparison, like +RNN."],
    out: Annotated[OutputDirectory, "Directory for table and picture."],
) -> None:
    """Show side by side what a system gains.

    Each of COMPARISONS is NAME=table.json of `tuning compare`.

    Example: tuning gains small=a/table.json large=b/table.json --system +RNN --out gains
    """
    from tuning.compare.gains import gains_of
    from tuning.report.write import write_gains, written_files

    tables = _read_tables(comparisons, written_files(out, "gains"))
    click.echo(write_gains(gains_of(tables, system), out), nl=False)


@command
def pool(
    comparisons: Annotated[tuple[str, ...], ARGUMENT],
    system: Annotated[str, "Row to take from each comparison, like +RNN."],
    out: Annotated[OutputDirectory, "Directory for the table."],
) -> None:
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


@dataclass(frozen=True, kw_only=True)
class WorthOptions:
    """Options of `tuning worth`.

    Attributes:
        nbest: N-best list of the text.
        columns: NAME=FILE, a number a hypothesis.
        models: NAME=DIRECTORY, a model to judge.
        groups: Names of the documents, one per sentence.
        list_format: Format of the list.
        list_size: Number of hypotheses of each sentence in a list of the format plain.
        metric: Metric whose gain is asked for.
        metric_command: Command of --metric column; see `tuning rerank --help`.
        form: Output format.
        seed: Seed of the random numbers.
    """

    nbest: Annotated[InputFile, option("--list")]
    columns: Annotated[tuple[str, ...], option("--feature")] = ()
    models: Annotated[tuple[str, ...], option("--model")] = ()
    groups: InputFile | None = None
    list_format: ListFormat = "moses"
    list_size: Annotated[int, AtLeast(0)] = 0
    metric: MetricName = "bleu"
    metric_command: str = ""
    form: Annotated[OutputFormat, option("--format")] = "text"
    seed: int = 1


@command
def worth(text: TextOptions, options: WorthOptions) -> None:
    """Print what each score of an n-best list is worth.

    By least squares within lists: what a score adds beside all others, how much of it they explain, and what
    choosing by it gains in cross-fitting. Scores to judge are added by --feature, which reads a number for each
    hypothesis in the order of the list, and --model. Three columns of noise show what chance does.

    Example: tuning worth --list dev.nbest --source dev.en --reference dev.fr --model NN0=rnn
    """
    from tuning.compare.worth import worth as worth_of_scores
    from tuning.report.write import format_worth

    files, directories = (
        _named(each, "NAME=PATH", "the score {} is given twice")
        for each in (options.columns, options.models)
    )
    found = worth_of_scores(
        options.nbest,
        text.source,
        text.references,
        files,
        directories,
        options.groups,
        options.list_format,
        options.metric,
        options.metric_command,
        options.seed,
        options.list_size,
    )
    click.echo(format_worth(found, options.form), nl=False)


@dataclass(frozen=True, kw_only=True)
class ScanOptions(JobsOptions, ConfigOptions):
    """Options of `tuning scan`.

    Attributes:
        system: A moses.ini or a run directory.
        column: Column to scan, like TranslationModel0_4 or CSLM0.
        out: Directory for decodings and table.
        grid: Weights to try, like -0.01,0.01,0.02; sets the key grid.
        against: Column whose weight restores the length.
        weights: weights.json whose weights replace those of the ini.
        neural_lms: NAME=COMMAND, a feature of the built-in decoder; see `tuning tune --help`.
        run_commands: Run the commands named in the weights.json of a run.
        resume: Reuse the decodings in --out.
    """

    system: Annotated[FileOrDirectory, ARGUMENT]
    column: str
    out: OutputDirectory
    grid: str | None = None
    against: Annotated[str | None, option(key="against")] = None
    weights: InputFile | None = None
    neural_lms: Annotated[tuple[str, ...], option("--neural-lm", key="decoder.neural_lm")] = ()
    run_commands: Annotated[bool, option(key="run_commands")] = False
    resume: bool = False

    def settings(self) -> ScanConfig:
        """The settings of a scan."""
        from tuning.compare.scan import ScanConfig

        grid = None if self.grid is None else _numbers(self.grid)
        return with_options(self.settings_of(ScanConfig), {"grid": grid})


@command
def scan(text: TextOptions, options: ScanOptions) -> None:
    """Decode with several weights for one column.

    SYSTEM is a moses.ini or a run directory.

    Example: tuning scan rnn/moses.ini --weights run1/weights.json --column TranslationModel0_4
    --source dev.en --reference dev.fr --out scan
    """
    from tuning.compare.scan import scan as scan_weights
    from tuning.loop.fingerprints import ParallelText
    from tuning.report.write import write_scan, written_files

    refuse_overwriting(written_files(options.out, "scan"), [text.source, *text.references])
    found = scan_weights(
        options.system,
        options.column,
        ParallelText(text.source, text.references),
        options.out,
        options.settings(),
        options.jobs,
        options.resume,
        options.weights,
    )
    click.echo(write_scan(found, options.out), nl=False)


@command
def decode(
    runs: Annotated[tuple[Directory, ...], ARGUMENT],
    source: Annotated[InputFile, "Tokenised source text."],
    out: Annotated[OutputFile | None, "File for the translations; with a single run."] = None,
    run_commands: Annotated[bool, "Run the commands named in the weights.json of a run."] = False,
    jobs: Jobs = N_JOBS,
) -> None:
    """Decode a tokenised text with the weights of runs.

    `tuning compare` then finds the translations. The names of the output files are printed.

    Example: tuning decode base1 base2 base3 --source test.en

    Example: tuning decode better --source new.en --out new.fr
    """
    with loading():
        from moses_bridge.base.textio import read_lines, write_lines
        from tuning.compare.translations import translate_runs

    if out is not None and len(runs) != 1:
        raise ConfigError(f"found {len(runs)} runs, expected one: --out is a single file")
    for output in translate_runs(runs, source, jobs, run_commands).values():
        if out is not None:
            write_lines(out, read_lines(output))
        click.echo(out or output)


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--grid: found {text!r}, expected numbers joined by commas") from error


def _read_tables(tables: tuple[str, ...], written: list[Path]) -> dict[str, Comparison]:
    """The comparisons in files given as NAME=TABLE, which must not be written."""
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
            raise ConfigError(f"found {f'{name}={runs}'!r}, expected {form}")
        parsed[name] = [Path(run) for run in directories]
    return parsed


def _named(texts: tuple[str, ...], form: str, twice: str) -> dict[str, str]:
    named: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise ConfigError(f"found {text!r}, expected {form}")
        if name in named:
            raise ConfigError(twice.format(name))
        named[name] = value
    return named
