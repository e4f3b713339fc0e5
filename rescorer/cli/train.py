"""Commands that train: train, expected-bleu."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click
from click.shell_completion import CompletionItem

from moses_bridge.base.command import command
from moses_bridge.base.machine import loading
from moses_bridge.base.options import (
    ARGUMENT,
    ConfigOptions,
    ExistingDirectory,
    InputFile,
    OutputDirectory,
    option,
)
from rescorer.contract.choices import Device, Reading

if TYPE_CHECKING:
    import torch

    from rescorer.contract.training import TrainingSettings
    from rescorer.runs.expected_bleu.run import ExpectedBleuConfig
    from rescorer.training.loop import TrainingReport


class _ArchitectureName(click.ParamType[str]):
    """The name of an architecture; help and completion alone load their module, which is slow."""

    name = "architecture"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The built-in names as choices, and the form of other names."""
        return f"[{'|'.join([*_built_in(), 'MODULE:NAME'])}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The built-in names with this beginning."""
        return [CompletionItem(name) for name in _built_in() if name.startswith(incomplete)]


def _built_in() -> Iterable[str]:
    from rescorer.contract.architectures import ARCHITECTURES

    return ARCHITECTURES


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The data of `rescorer train`.

    Attributes:
        data: Phrase table or text.
        source: Source text, if DATA is its translation line by line.
        links: Word alignment of --source and DATA in Pharaoh format, for architectures that need it.
        texts: Texts in which words are counted for the shortlists. [default: the phrase pairs]
        cache: Directory in which to keep the pairs of the table for later trainings.
    """

    data: Annotated[InputFile, ARGUMENT]
    source: InputFile | None = None
    links: InputFile | None = None
    texts: Annotated[tuple[InputFile, InputFile] | None, option(metavar="SOURCE TARGET")] = None
    cache: OutputDirectory | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(ConfigOptions):
    """Options of the course and end of a training.

    Attributes:
        minutes: Largest number of minutes to train, with --resume those of this call.
        epochs: Largest number of passes over the data; 0 for no limit.
        resume: Continue an interrupted training.
        overwrite: Replace the training in --out, whose model is removed.
        device: Where the network is computed; auto is a GPU if there is one.
        seed: Seed of the random numbers.
    """

    minutes: Annotated[float | None, option(key="loop.max_minutes")] = None
    epochs: Annotated[int | None, option(key="loop.n_epochs")] = None
    resume: bool = False
    overwrite: bool = False
    device: Device = "auto"
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingOptions):
    """Options of `rescorer train`.

    Attributes:
        out: Model directory to write.
        arch: Architecture of the network: a built-in one, or package.module:NAME for one of your own, in a
            module on PYTHONPATH; package.module: is short for package.module:ARCHITECTURE.
        start: Model directory of a network of this architecture to train further: it keeps its shortlists,
            sizes and reading. [default: a new network]
        hidden_width: Number of hidden units.
        reading: How the network reads the data: reversed-sides learns p(source | target), right-to-left
            predicts the last word of a sentence first.
    """

    out: OutputDirectory
    arch: Annotated[str, _ArchitectureName()] = "encdec"
    start: ExistingDirectory | None = None
    hidden_width: Annotated[int | None, option(key="model.hidden_width")] = None
    reading: Annotated[Reading | None, option(key="reading")] = None

    def settings(self, on_gpu: bool = False) -> TrainingSettings:
        """The settings of the training; on a GPU some that are not given may have other values."""
        from rescorer.contract.architectures import load

        kind: Any = load(self.arch).settings
        settings = self.settings_of(kind)
        if on_gpu and hasattr(settings, "for_gpu"):
            settings = settings.for_gpu(self.settings_of(kind, kind.of_gpu()))
        return cast("TrainingSettings", settings)


@command
def train(given: DataOptions, options: TrainOptions) -> None:
    """Train a network on a phrase table or a text.

    DATA is a phrase table, whose distinct pairs are used, or, for language models such as --arch cslm, target
    text. Training ends after the passes that the architecture plans or --epochs says, and earlier when the
    held-out loss stops falling. Ctrl-C leaves the best model so far, and --resume continues. To train with
    several processes, run torchrun --nproc-per-node N -m rescorer train ...

    Example: rescorer train model/phrase-table.gz --out rnn
    """
    with loading():
        from moses_bridge.base.progress import print_note, quiet
        from rescorer.contract.compute import choose_device
        from rescorer.contract.training import Data
        from rescorer.runs.train import train as run_training
        from rescorer.training.peers import peers_on

    arch, out, place = options.arch, options.out, choose_device(options.device)
    settings = options.settings(on_gpu=place.type == "cuda")
    data = Data(given.data, given.source, given.links, given.texts, given.cache)
    with peers_on(place) as (peers, device):
        if not peers.is_first:
            quiet()
        if device.type != "cpu":
            print_note(_on_gpu(device, settings))
        report = run_training(
            arch,
            data,
            out,
            settings,
            options.resume,
            device,
            options.seed,
            peers,
            options.start,
            options.overwrite,
        )
    if peers.is_first:
        click.echo(f"{out}: {_in_words(report, 'nats per word')}")
        print_note(f"next: {_next_command(arch, given.data, out)}")


@dataclass(frozen=True, kw_only=True)
class ExpectedBleuOptions(TrainingOptions):
    """Options of `rescorer expected-bleu`.

    Attributes:
        model: Model directory of a phrase model.
        nbest: N-best list of the training text.
        source: Source text of the n-best lists.
        references: Reference translation of --source; may be given several times.
        groups: Document of each line of --source, one name per line: whole documents are held out. [default:
            sentences are held out]
        out: Model directory to write.
        trust_code: Allow code from outside rescorer to run, if it is the architecture of a model.
    """

    model: Annotated[ExistingDirectory, ARGUMENT]
    nbest: Annotated[InputFile, ARGUMENT]
    source: InputFile
    references: Annotated[tuple[InputFile, ...], option("--reference")]
    groups: InputFile | None = None
    out: OutputDirectory
    trust_code: bool = False

    def settings(self) -> ExpectedBleuConfig:
        """The settings of the training."""
        from rescorer.runs.expected_bleu.run import ExpectedBleuConfig

        return self.settings_of(ExpectedBleuConfig)


@command
def expected_bleu(options: ExpectedBleuOptions) -> None:
    """Fine-tune a phrase model for expected BLEU.

    The model learns to maximise the expected BLEU of n-best lists. NBEST must have the segmentation of each
    translation (-include-segmentation-in-n-best). The other features keep the weights the list was decoded
    with.

    Example: rescorer expected-bleu cptm train.nbest.gz --source train.en --reference train.fr --out cptm-bleu
    """
    with loading():
        from moses_bridge.base.progress import print_note
        from rescorer.contract.compute import choose_device
        from rescorer.runs.expected_bleu.run import UNIT, ListText, train_for_expected_bleu

    settings = options.settings()
    lists = ListText(options.nbest, options.source, options.references, options.groups)
    before, report = train_for_expected_bleu(
        options.model,
        lists,
        options.out,
        settings,
        options.resume,
        choose_device(options.device),
        options.seed,
        options.trust_code,
        options.overwrite,
    )
    first = "" if before is None else f"held-out loss before {before:.4g} {UNIT}, "
    click.echo(f"{options.out}: {first}{_in_words(report, UNIT)}")
    table = shlex.quote(str(options.out / "phrase-table.gz"))
    print_note(f"next: rescorer score TABLE --model {shlex.quote(str(options.out))} --out {table}")


def _on_gpu(device: torch.device, settings: Any) -> str:
    """The GPU, and the settings that it may change."""
    import torch

    note, loop = f"training on {torch.cuda.get_device_name(device)}", settings.loop
    if not hasattr(settings, "for_gpu"):
        return note
    return (
        f"{note} with batch_pairs = {settings.pairs_per_update}, loop.learning_rate = "
        f"{loop.learning_rate:g}, loop.n_epochs = {loop.n_epochs}"
    )


def _in_words(report: TrainingReport, unit: str) -> str:
    from moses_bridge.base.progress import duration

    loss = report.held_out_loss
    parts = [] if loss is None else [f"held-out loss {loss:.4g} {unit}"]
    parts += [f"{report.n_updates:,} updates", f"{report.n_epochs:.4g} passes"]
    parts += [duration(60 * report.minutes)]
    if report.log_z_mean is not None and report.log_z_sd is not None:
        parts += [f"log Z {report.log_z_mean:.4g}, s.d. {report.log_z_sd:.4g}"]
    return f"{', '.join(parts)}; ended as {report.ended}"


def _next_command(arch: str, data: Path, out: Path) -> str:
    """A command to type after a training; words in capitals are placeholders."""
    from rescorer.contract.architectures import load

    architecture, model = load(arch), shlex.quote(str(out))
    if architecture.data != "phrase pairs":
        feature = "NN0" if ":" in arch else f"{arch.upper().replace('_', '')}0"
        if architecture.ngrams is not None:
            served = shlex.quote(f"{feature}=rescorer serve {model}")
            texts = "--source DEV_SOURCE --reference DEV_REFERENCE"
            return f"tuning tune --ini MOSES_INI --neural-lm {served} {texts} --out RUN"
        text = f"--source SOURCE --feature {feature} --out NEW_NBEST"
        return f"rescorer nbest NBEST --model {model} {text}"
    words = ["rescorer", "score", data, "--model", out, "--out", out / "phrase-table.gz"]
    ini = data.parent / "moses.ini"
    if ini.exists():
        words += ["--ini", ini, "--ini-out", out / "moses.ini"]
    return shlex.join(map(str, words))
