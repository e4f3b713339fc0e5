"""Commands that train: train, expected-bleu."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moses_bridge.base.command import (
    EXISTING_DIRECTORY,
    INPUT_FILE,
    OUTPUT_DIRECTORY,
    choice_of,
    command,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from rescorer.cli.options import DEVICE, RESUME, SEED, TRUST_CODE
from rescorer.contract.choices import Device, Reading

if TYPE_CHECKING:
    from rescorer.contract.training import TrainingSettings
    from rescorer.runs.expected_bleu.task import ExpectedBleuConfig


class _ArchitectureOption(click.Option):
    """The option --arch; the architectures are slow to load, so only its help loads their names."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help."""
        from rescorer.contract.architectures import ARCHITECTURES

        self.help = (
            f"Architecture of the network: one of {', '.join(ARCHITECTURES)}, or package.module:NAME "
            "for one of your own, in a module on PYTHONPATH; package.module: is short for "
            "package.module:ARCHITECTURE."
        )
        return super().get_help_record(ctx)


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
@click.option("--arch", cls=_ArchitectureOption, default="encdec", show_default=True)
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
    config: Path | None,
    minutes: float | None,
    epochs: int | None,
    hidden_width: int | None,
    reading: Reading | None,
    resume: bool,
    device: Device,
    seed: int,
) -> None:
    """Train a network on DATA: a phrase table or, for language models such as --arch cslm, target text.

    Of a phrase table it uses the distinct pairs. Without a limit of minutes or epochs, training ends when the
    held-out loss stops falling. To train with several processes, run torchrun --nproc-per-node N -m rescorer
    train ...

    Example: rescorer train model/phrase-table.gz --out rnn
    """
    from moses_bridge.base.progress import quiet
    from rescorer.contract.compute import choose_device
    from rescorer.contract.data import Data
    from rescorer.runs.train import train as run_training
    from rescorer.training.peers import peers_on

    settings = _training_settings(config, arch, minutes, epochs, hidden_width, reading)
    asked = Data(data, source, links, texts, cache)
    with peers_on(choose_device(device)) as (peers, own_device):
        if not peers.is_first:
            quiet()
        report = run_training(arch, asked, out, settings, resume, own_device, seed, peers)
    if peers.is_first:
        click.echo(f"{out}: {_in_words(report)}")


def _expected_bleu_settings(
    config: Path | None, minutes: float | None, epochs: int | None
) -> ExpectedBleuConfig:
    """The settings of `rescorer expected-bleu`."""
    from rescorer.runs.expected_bleu.task import ExpectedBleuConfig

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
    out: Path,
    config: Path | None,
    minutes: float | None,
    epochs: int | None,
    trust_code: bool,
    resume: bool,
    device: Device,
    seed: int,
) -> None:
    """Fine-tune a phrase model to maximise expected BLEU on n-best lists.

    NBEST must have the segmentation of each translation (-include-segmentation-in-n-best). The other features
    keep the weights the list was decoded with.

    Example: rescorer expected-bleu cptm train.nbest.gz --source train.en --reference train.fr --out cptm-bleu
    """
    from rescorer.contract.compute import choose_device
    from rescorer.runs.expected_bleu.run import ListText, train_for_expected_bleu

    settings = _expected_bleu_settings(config, minutes, epochs)
    lists = ListText(nbest, source, references)
    place = choose_device(device)
    before, report = train_for_expected_bleu(
        model, lists, out, settings, resume, place, seed, trust_code
    )
    first = "" if before is None else f"held out loss before {before:.4g}, "
    click.echo(f"{out}: {first}{_in_words(report)}")


def _in_words(report: Any) -> str:
    """The numbers of a report, name by name."""
    values = dataclasses.asdict(report)
    return ", ".join(
        f"{name.replace('_', ' ')} " + (f"{value:.4g}" if isinstance(value, float) else f"{value}")
        for name, value in values.items()
        if value is not None
    )


COMMANDS = (
    train,
    expected_bleu,
)
