"""Commands that find weights: tune, rerank, optimize."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.command import command, command_line
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.machine import loading
from moses_bridge.base.options import (
    ARGUMENT,
    ClusterOptions,
    ConfigOptions,
    Directory,
    InputFile,
    JobsOptions,
    Natural,
    OutputDirectory,
    OutputFile,
    Positive,
    option,
)
from moses_bridge.base.provenance import provenance
from tuning.cli.options import References, TextOptions
from tuning.compare.target_text import TokenizerName
from tuning.metrics.by_name import MbrMetricName
from tuning.optimisers.by_name import OptimizerName

if TYPE_CHECKING:
    from tuning.loop.rerank import ListedText, Reranked
    from tuning.loop.run_directory import TuningRun
    from tuning.loop.settings import RerankConfig, TuningConfig
    from tuning.metrics.by_name import MetricChoice
    from tuning.optimisers.contract import OptimizerConfig


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ConfigOptions):
    """Options of finding weights.

    Attributes:
        optimizer: Algorithm that finds the weights.
        metric: Metric that the weights maximise: bleu, chrf, ter, word-accuracy, line-accuracy, cer or column;
            or several with weights, as bleu=0.5,chrf=0.5.
        metric_command: Command that computes --metric column: {hypotheses}, {source} and {reference} become
            paths, and it writes a number for each line to {out}.
        nbest_size: Number of distinct translations per sentence in an n-best list.
    """

    optimizer: Annotated[OptimizerName | None, option(key="optimizer")] = None
    metric: Annotated[str | None, option(key="metric", metavar="METRIC")] = None
    metric_command: Annotated[str | None, option(key="metric_command")] = None
    nbest_size: Annotated[Positive | None, option(key="nbest_size")] = None


@dataclass(frozen=True, kw_only=True)
class TuneOptions(JobsOptions, SearchOptions):
    """Options of `tuning tune`.

    Attributes:
        ini: The moses.ini to tune; its weights are the start.
        out: Run directory.
        max_iterations: Largest number of decodings of the dev text.
        seed: Seed of the random numbers.
        resume: Continue the run in --out.
        overwrite: Replace the run in --out.
        init_weights: weights.json of the run, or moses.ini, whose weights are the start.
        nbest_features: NAME=COMMAND, a feature to add to n-best lists; {nbest}, {source}, {out} become paths.
            A command without them stays open and returns the values: "CSLM0=rescorer serve cslm". With
            NAME:LM0=COMMAND the search gives the decoder's LM0 the sum of both weights.
        neural_lms: NAME=COMMAND, a feature of the built-in decoder: "CSLM0=rescorer serve cslm". May be given
            several times.
        left_out: Column kept at weight 0, like TranslationModel0_2; may be given several times.
    """

    ini: InputFile
    out: OutputDirectory
    max_iterations: Annotated[Positive | None, option(key="max_iterations")] = None
    seed: int = 1
    resume: bool = False
    overwrite: bool = False
    init_weights: InputFile | None = None
    nbest_features: Annotated[tuple[str, ...], option("--nbest-feature")] = ()
    neural_lms: Annotated[tuple[str, ...], option("--neural-lm", key="decoder.neural_lm")] = ()
    left_out: Annotated[tuple[str, ...], option("--leave-out", key="left_out")] = ()

    def settings(self) -> TuningConfig:
        """The settings of a tuning."""
        from tuning.loop.settings import TuningConfig

        return self.settings_of(TuningConfig)


@command
def tune(text: TextOptions, options: TuneOptions, cluster: ClusterOptions) -> None:
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

    out, settings = options.out, options.settings()
    with contextlib.ExitStack() as stack:
        stack.enter_context(recorded_step(out / LOG_NAME, str(out), command_line()))
        workers = Workers(options.jobs)
        if cluster.address is not None:
            connected = open_cluster(cluster.address, cluster.workers, "CPU")
            workers = dataclasses.replace(workers, cluster=stack.enter_context(connected))
        features = [NBestFeature.parse(feature) for feature in options.nbest_features]
        system = TunedSystem(options.ini, features, options.init_weights)
        dev = ParallelText(text.source, text.references)
        again = options.resume, options.overwrite
        run = run_tuning(system, dev, out, settings, options.seed, workers, *again)
    _print_end(run, out)


def _print_end(run: TuningRun, out: Path) -> None:
    """Print the result of a run, and a command to type next; words in capitals are placeholders."""
    from moses_bridge.base.progress import print_note
    from tuning.loop.run_directory import with_caution

    line = f"dev BLEU {run.dev_bleu:.2f}, weights in {out / 'weights.json'}"
    click.echo(with_caution(line, run.caution))
    system = shlex.quote(f"{out.name}={out}")
    trusted = " --run-commands" if run.commands() else ""
    texts = "--source TEST_SOURCE --reference TEST_REFERENCE --out COMPARISON"
    print_note(f"next: tuning compare BASELINE=RUN {system} {texts}{trusted}")


@dataclass(frozen=True, kw_only=True)
class TestOptions:
    """The test text of `tuning rerank`, for lists.

    Attributes:
        test_list: N-best list of the test text.
        test_source: Tokenised source of the test text.
        test_references: Tokenised reference of the test text, to compare the systems with; may be given
            several times.
        target_language: Code of the target language, as fr or pt_BR. [default: from the reference's suffix]
        tokenize: Tokenizer of sacreBLEU for BLEU of detokenised text. [default: by language]
        groups: Names of the documents of the test sentences, one per line.
    """

    test_list: InputFile | None = None
    test_source: InputFile | None = None
    test_references: Annotated[tuple[InputFile, ...], option("--test-reference")] = ()
    target_language: str = ""
    tokenize: TokenizerName | None = None
    groups: InputFile | None = None

    def text(self) -> ListedText | None:
        """The test text with its list, None without one; a ConfigError if a part of it is missing."""
        from tuning.loop.rerank import ListedText

        if bool(self.test_list) != bool(self.test_source) or (
            self.test_references and not self.test_list
        ):
            raise ConfigError("--test-list, --test-source and --test-reference belong together")
        if not (self.test_list and self.test_source):
            return None
        return ListedText(self.test_list, self.test_source, self.test_references)


@dataclass(frozen=True, kw_only=True)
class RerankOptions(JobsOptions, SearchOptions):
    """Options of `tuning rerank`.

    Attributes:
        run: Run directory of `tuning tune`.
        source: Tokenised source text.
        references: Tokenised reference, needed without --apply; may be given several times.
        dev_list: N-best list of the dev text, or of the text for --apply.
        apply: Choose from --list by these weights, without references: weights.json of a reranking, or a table.
        nbest_out: With --apply, a list to write in Moses's format, the best hypotheses first.
        list_format: Format of the lists.
        list_size: Number of hypotheses of each sentence in lists of the format plain.
        out: Directory to write.
        nbest_features: NAME=COMMAND, a feature to add to n-best lists; {nbest}, {source}, {out} become paths.
            Without one, only the features in the lists are tuned, as a control.
        models: NAME=DIRECTORY, a model whose scores `rescorer nbest` adds as a feature.
        skip_bad: Give up to N hypotheses of a list that a model cannot score the least score of their sentence.
        mbr: Add the feature MBR0: the mean of this metric over the other hypotheses of a sentence as
            references.
        mbr_command: Command that computes --mbr column, like --metric-command: it scores each hypothesis with
            each other one of its sentence as {reference}.
        n_runs: Number of times weights are learned, with seeds from --seed on.
        init_weights: weights.json of the run, or moses.ini, whose weights are the start for lists.
        seed: Seed of the random numbers.
        resume: Continue the reranking of a RUN in --out.
        overwrite: Replace the reranking of lists in --out.
        run_commands: Run the commands named in the weights.json of a run, or of --apply.
    """

    run: Annotated[Directory | None, ARGUMENT] = None
    source: InputFile
    references: References = ()
    dev_list: Annotated[InputFile | None, option("--list")] = None
    apply: InputFile | None = None
    nbest_out: OutputFile | None = None
    list_format: Annotated[ListFormat | None, option(key="list_format")] = None
    list_size: Annotated[Positive | None, option(key="list_size")] = None
    out: OutputDirectory
    nbest_features: Annotated[tuple[str, ...], option("--nbest-feature")] = ()
    models: Annotated[tuple[str, ...], option("--model")] = ()
    skip_bad: Annotated[Natural, option(metavar="N")] = 0
    mbr: Annotated[MbrMetricName | None, option(key="mbr")] = None
    mbr_command: Annotated[str | None, option(key="mbr_command")] = None
    n_runs: Annotated[Positive | None, option("--runs", key="n_runs")] = None
    init_weights: InputFile | None = None
    seed: int = 1
    resume: bool = False
    overwrite: bool = False
    run_commands: Annotated[bool, option(key="run_commands")] = False

    def settings(self) -> RerankConfig:
        """The settings of a reranking."""
        from tuning.loop.settings import RerankConfig

        return self.settings_of(RerankConfig)


@command
def rerank(options: RerankOptions, of_test: TestOptions) -> None:
    """Tune weights for reranking n-best lists.

    The lists are those of RUN, the directory of a tuning, whose search stays as it is. This writes a run
    directory for `tuning decode` and `tuning compare`.

    Without RUN the lists are --list and --test-list, of any decoder. This writes weights, the chosen
    translations, and their comparison with the first hypotheses.

    With --apply nothing is learned: this writes the lines chosen from --list, and their scores.

    Example: tuning rerank run1 --source dev.en --reference dev.fr --out reranked1 --model NN0=rnn

    Example: tuning rerank --list dev.nbest --source dev.en --reference dev.fr --test-list test.nbest
    --test-source test.en --test-reference test.fr --model NN0=rnn --out reranked

    Example: tuning rerank --apply reranked/weights.json --list new.nbest --source new.en --model NN0=rnn
    --out chosen
    """
    from moses_bridge.base.steps import LOG_NAME, recorded_step
    from moses_bridge.base.textio import files_to_replace
    from tuning.compare.target_text import target_text
    from tuning.loop.fingerprints import ParallelText
    from tuning.loop.list_features import NBestFeature, feature_of_model
    from tuning.loop.rerank import ListedText, rerank_lists
    from tuning.loop.rerank_run import rerank_run
    from tuning.loop.reranker import APPLIED_NAMES, apply_weights, read_reranked
    from tuning.loop.run_directory import with_caution

    _refuse_options(options, of_test)
    run, out, seed, jobs = options.run, options.out, options.seed, options.jobs
    settings = options.settings()
    features = [NBestFeature.parse(each) for each in options.nbest_features]
    features += [feature_of_model(each, options.skip_bad) for each in options.models]
    if run is not None:
        with recorded_step(out / LOG_NAME, str(out), command_line()):
            parallel = ParallelText(options.source, options.references)
            reranked = rerank_run(
                run, parallel, out, settings, seed, jobs, options.resume, features
            )
        _print_end(reranked, out)
        return
    if options.dev_list is None:
        raise ConfigError("found neither a RUN nor --list, expected one of them")
    dev = ListedText(options.dev_list, options.source, options.references)
    if options.apply is not None:
        weights = read_reranked(options.apply)
        # Refused before any work is done.
        if options.nbest_out is not None and out.resolve() in options.nbest_out.resolve().parents:
            raise ConfigError(f"{options.nbest_out}: found a file in --out, expected one elsewhere")
        files_to_replace(out.resolve(), APPLIED_NAMES if options.overwrite else ())
        applied = apply_weights(dev, weights, settings, features, options.nbest_out)
        applied.write(out, options.overwrite)
        click.echo(with_caution(applied.summary, weights.caution))
        return
    test = of_test.text()
    if test is not None and test.references:  # refused before any work is done
        target_text(test.references, of_test.target_language, of_test.tokenize)
    start, overwrite = options.init_weights, options.overwrite
    found = rerank_lists(dev, test, out, settings, features, seed, jobs, start, overwrite)
    if test is not None and test.references:
        _print_comparison(found, test, of_test, out, jobs, settings.chosen_metric)
        if found.caution:
            click.echo(f"warning: {found.caution}")
    else:
        for system, runs in found.systems.items():
            scores = ", ".join(f"{each.dev_score:.2f}" for each in runs)
            click.echo(f"{system}: dev {found.metric} {scores}")
        click.echo(with_caution(f"weights in {out / 'weights.json'}", found.caution))


def _refuse_options(options: RerankOptions, of_test: TestOptions) -> None:
    is_run, is_applied = options.run is not None, options.apply is not None
    flags = {"dev_list": "list", "n_runs": "runs", "references": "reference"}
    on_lists = "test_list n_runs init_weights groups target_language tokenize"
    kinds = {
        "a RUN": (is_run, "nbest_size resume"),
        "a RUN or --apply": (is_run or is_applied, "run_commands"),
        "--apply": (is_applied, "nbest_out"),
        "lists": (not is_run, "dev_list apply mbr mbr_command list_format list_size overwrite"),
        "lists with references": (not (is_run or is_applied), on_lists),
        "learning": (not is_applied, "references metric metric_command optimizer"),
    }
    given = vars(options) | vars(of_test)
    for of_what, (fits, names) in kinds.items():
        for name in names.split():
            if given[name] and not fits:
                flag = flags.get(name, name).replace("_", "-")
                raise ConfigError(f"found --{flag}, an option for {of_what} alone")
    if not (options.references or is_applied):
        raise ConfigError("found no --reference, expected one to learn from, or --apply WEIGHTS")


def _print_comparison(
    reranked: Reranked,
    test: ListedText,
    of_test: TestOptions,
    out: Path,
    jobs: int,
    metric: MetricChoice,
) -> None:
    """Compare the chosen test translations like `tuning compare`; write and print the table."""
    from tuning.compare.sentence_facts import TextContext
    from tuning.compare.systems import CompareConfig, compare, digests
    from tuning.loop.rerank import FIRST, RERANKED
    from tuning.report.write import write_comparison

    outputs = reranked.outputs(out)
    control = RERANKED if len(outputs) > 2 else ""  # learned weights without new features
    settings = CompareConfig(
        target_language=of_test.target_language, tokenize=of_test.tokenize, control=control
    )
    metrics = [] if metric.name == "bleu" else [metric]
    context = TextContext(groups=of_test.groups)
    comparison = compare(outputs, test.source, test.references, settings, jobs, context, metrics)
    made = provenance(sys.argv, digests(outputs, [test.source, *test.references]))
    tuned_for = "" if reranked.metric == "bleu" else reranked.metric
    rows = [
        dataclasses.replace(row, tuned_for="" if row.system == FIRST else tuned_for)
        for row in comparison.rows
    ]
    comparison = dataclasses.replace(comparison, rows=rows, made=made)
    click.echo(write_comparison(comparison, out), nl=False)


@dataclass(frozen=True, kw_only=True)
class OptimizeOptions(JobsOptions, ConfigOptions):
    """Options of `tuning optimize`.

    Attributes:
        features: File features.dat of Moses; may be given several times.
        scores: File scores.dat for each --features, in the same order.
        init_weights: File init.opt of Moses with the weights to start from.
        optimizer: Algorithm that finds the weights.
        seed: Seed of the random numbers.
    """

    features: tuple[InputFile, ...]
    scores: tuple[InputFile, ...]
    init_weights: InputFile
    optimizer: OptimizerName = "kbmira"
    seed: int = 1

    def settings(self) -> OptimizerConfig:
        """The settings of the optimisers."""
        from tuning.optimisers.contract import OptimizerConfig

        return self.settings_of(OptimizerConfig)


@command
def optimize(options: OptimizeOptions) -> None:
    """Optimise on the tuning files of Moses.

    Weights and BLEU are printed as JSON.

    Example: tuning optimize --features run1.features.dat --scores run1.scores.dat --init-weights init.opt
    """
    from tuning.optimisers.moses_files import optimize_files

    settings = options.settings()
    result = optimize_files(
        options.features,
        options.scores,
        options.init_weights,
        options.optimizer,
        settings,
        options.seed,
        options.jobs,
    )
    for name in set(result.frozen) - set(settings.frozen):
        click.echo(f"warning: {name} is constant in every sentence; its weight stays", err=True)
    click.echo(json.dumps(dataclasses.asdict(result), indent=1))
