"""Commands that train: train, expected-bleu."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from moses_bridge.base.command import (
    EXISTING_DIRECTORY,
    INPUT_FILE,
    OUTPUT_DIRECTORY,
    choice_of,
    command,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.base.duration import duration
from moses_bridge.base.memory import loading
from rescorer.cli.options import DEVICE, RESUME, SEED, TRUST_CODE
from rescorer.contract.choices import Device, Reading

if TYPE_CHECKING:
    import torch

    from rescorer.contract.training import TrainingSettings
    from rescorer.runs.expected_bleu.run import ExpectedBleuConfig
    from rescorer.training.loop import TrainingReport

# An H100 learns six times as many pairs a second so as with 512 an update.
GPU_PAIRS = 4096


class _ArchitectureName(click.ParamType[str]):
    """The name of an architecture; their module is slow to load, so only help and completion load it."""

    name = "architecture"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The built-in names as choices, and the form of any other one."""
        return f"[{'|'.join([*_built_in(), 'MODULE:NAME'])}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The built-in names that begin so."""
        return [CompletionItem(name) for name in _built_in() if name.startswith(incomplete)]


def _built_in() -> Iterable[str]:
    from rescorer.contract.architectures import ARCHITECTURES

    return ARCHITECTURES


def _training_settings(
    config: Path | None,
    arch: str,
    minutes: float | None,
    epochs: int | None,
    hidden_width: int | None,
    reading: Reading | None,
) -> TrainingSettings:
    """The settings of `rescorer train`."""
    from rescorer.contract.architectures import load

    options = {
        "loop.max_minutes": minutes,
        "loop.n_epochs": epochs,
        "model.hidden_width": hidden_width,
        "reading": reading,
    }
    settings: TrainingSettings = with_options(load_config(load(arch).settings, config), options)
    return settings


@command
@click.argument("data", type=INPUT_FILE)
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Model directory to write.")
@click.option(
    "--arch",
    type=_ArchitectureName(),
    default="encdec",
    show_default=True,
    help="Architecture of the network: a built-in one, or package.module:NAME for one of your own, in a module "
    "on PYTHONPATH; package.module: is short for package.module:ARCHITECTURE.",
)
@click.option(
    "--source", type=INPUT_FILE, help="Source text, if DATA is its translation line by line."
)
@click.option(
    "--links",
    type=INPUT_FILE,
    help="Word alignment of --source and DATA in Pharaoh format, for architectures that need it.",
)
@click.option(
    "--texts",
    type=(INPUT_FILE, INPUT_FILE),
    metavar="SOURCE TARGET",
    help="Texts in which words are counted for the shortlists.  [default: the phrase pairs]",
)
@click.option(
    "--cache",
    type=OUTPUT_DIRECTORY,
    help="Directory in which to keep the pairs of the table for later trainings.",
)
@click.option(
    "--start",
    type=EXISTING_DIRECTORY,
    help="Model directory of a network of this architecture to train further: it keeps its shortlists, sizes "
    "and reading.  [default: a new network]",
)
@config_options(_training_settings)
@click.option(
    "--minutes",
    type=float,
    help="Largest number of minutes to train; sets the key loop.max_minutes.",
)
@click.option(
    "--epochs", type=int, help="Largest number of passes over the data; sets the key loop.n_epochs."
)
@click.option(
    "--hidden-width", type=int, help="Number of hidden units; sets the key model.hidden_width."
)
@click.option(
    "--reading",
    type=choice_of(Reading),
    help="How the network reads the data: reversed-sides learns p(source | target), "
    "right-to-left predicts "
    "the last word of a sentence first. Sets the key reading.",
)
@RESUME
@DEVICE
@SEED
def train(
    data: Path,
    out: Path,
    arch: str,
    source: Path | None,
    links: Path | None,
    texts: tuple[Path, Path] | None,
    cache: Path | None,
    start: Path | None,
    config: Path | None,
    minutes: float | None,
    epochs: int | None,
    hidden_width: int | None,
    reading: Reading | None,
    resume: bool,
    device: Device,
    seed: int,
) -> None:
    """Train a network on a phrase table or a text.

    DATA is a phrase table, whose distinct pairs are used, or, for language models such as --arch cslm, target
    text. Without a limit of minutes or epochs, training ends when the
    held-out loss stops falling. To train with several processes, run torchrun --nproc-per-node N -m rescorer
    train ...

    Example: rescorer train model/phrase-table.gz --out rnn
    """
    with loading():
        from moses_bridge.base.progress import print_note, quiet
        from rescorer.contract.compute import choose_device
        from rescorer.contract.training import Data
        from rescorer.runs.train import train as run_training
        from rescorer.training.peers import peers_on

    settings = _training_settings(config, arch, minutes, epochs, hidden_width, reading)
    asked = Data(data, source, links, texts, cache)
    with peers_on(choose_device(device)) as (peers, own_device):
        if not peers.is_first:
            quiet()
        if own_device.type != "cpu":
            print_note(_on_gpu(own_device, settings))
        report = run_training(arch, asked, out, settings, resume, own_device, seed, peers, start)
    if peers.is_first:
        click.echo(f"{out}: {_in_words(report, 'nats per word')}")
        print_note(f"next: {_next_command(arch, data, out)}")


def _expected_bleu_settings(
    config: Path | None, minutes: float | None, epochs: int | None
) -> ExpectedBleuConfig:
    """The settings of `rescorer expected-bleu`."""
    from rescorer.runs.expected_bleu.run import ExpectedBleuConfig

    options = {"loop.max_minutes": minutes, "loop.n_epochs": epochs}
    return with_options(load_config(ExpectedBleuConfig, config), options)


@command
@click.argument("model", type=EXISTING_DIRECTORY)
@click.argument("nbest", type=INPUT_FILE)
@click.option("--source", type=INPUT_FILE, required=True, help="Source text of the n-best lists.")
@click.option(
    "--reference",
    "references",
    type=INPUT_FILE,
    multiple=True,
    required=True,
    help="Reference translation of --source; may be given several times.",
)
@click.option(
    "--groups",
    type=INPUT_FILE,
    help="Document of each line of --source, one name per line: whole documents are held out.  "
    "[default: sentences are held out]",
)
@click.option("--out", type=OUTPUT_DIRECTORY, required=True, help="Model directory to write.")
@config_options(_expected_bleu_settings)
@click.option(
    "--minutes",
    type=float,
    help="Largest number of minutes to train; sets the key loop.max_minutes.",
)
@click.option(
    "--epochs", type=int, help="Largest number of passes over the data; sets the key loop.n_epochs."
)
@TRUST_CODE
@RESUME
@DEVICE
@SEED
def expected_bleu(
    model: Path,
    nbest: Path,
    source: Path,
    references: tuple[Path, ...],
    groups: Path | None,
    out: Path,
    config: Path | None,
    minutes: float | None,
    epochs: int | None,
    trust_code: bool,
    resume: bool,
    device: Device,
    seed: int,
) -> None:
    """Fine-tune a phrase model for expected BLEU.

    The model learns to maximise the expected BLEU of n-best lists. NBEST must have the segmentation of each
    translation (-include-segmentation-in-n-best). The other features keep the weights the list was decoded
    with.

    Example: rescorer expected-bleu cptm train.nbest.gz --source train.en --reference train.fr --out cptm-bleu
    """
    with loading():
        from rescorer.contract.compute import choose_device
        from rescorer.runs.expected_bleu.run import UNIT, ListText, train_for_expected_bleu

    settings = _expected_bleu_settings(config, minutes, epochs)
    lists = ListText(nbest, source, references, groups)
    place = choose_device(device)
    before, report = train_for_expected_bleu(
        model, lists, out, settings, resume, place, seed, trust_code
    )
    first = "" if before is None else f"held-out loss before {before:.4g} {UNIT}, "
    click.echo(f"{out}: {first}{_in_words(report, UNIT)}")


def _on_gpu(device: torch.device, settings: Any) -> str:
    """Which GPU, and what it waits for: the start of each operation of an update."""
    import torch

    n_pairs = getattr(settings, "pairs_per_update", GPU_PAIRS)
    advice = f"; batch_pairs = {GPU_PAIRS} instead of {n_pairs} makes better use of it"
    return (
        f"training on {torch.cuda.get_device_name(device)}{advice if n_pairs < GPU_PAIRS else ''}"
    )


def _in_words(report: TrainingReport, unit: str) -> str:
    """A report as a line for the user; the unit is that of the loss."""
    loss = report.held_out_loss
    parts = [] if loss is None else [f"held-out loss {loss:.4g} {unit}"]
    parts += [f"{report.n_updates:,} updates", f"{report.n_epochs:.4g} passes"]
    parts += [duration(60 * report.minutes)]
    if report.log_z_mean is not None and report.log_z_sd is not None:
        parts += [f"log Z {report.log_z_mean:.4g}, s.d. {report.log_z_sd:.4g}"]
    return f"{', '.join(parts)}; ended as {report.ended}"


def _next_command(arch: str, data: Path, out: Path) -> str:
    """What to type after a training; words in capitals are to be replaced."""
    from rescorer.contract.architectures import load

    architecture = load(arch)
    if architecture.data != "phrase pairs":
        if architecture.ngrams is not None:
            return f"tuning tune --neural-lm {shlex.quote(f'NN0=rescorer serve {out}')} ..."
        text = "--source SOURCE --feature NN0 --out NEW_NBEST"
        return f"rescorer nbest NBEST --model {shlex.quote(str(out))} {text}"
    words = ["rescorer", "score", data, "--model", out, "--out", out / "phrase-table.gz"]
    ini = data.parent / "moses.ini"
    if ini.exists():
        words += ["--ini", ini, "--ini-out", out / "moses.ini"]
    return shlex.join(map(str, words))


COMMANDS = (
    train,
    expected_bleu,
)
