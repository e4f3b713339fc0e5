"""Commands that train: train, expected-bleu."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moses_bridge.base.command import (
    DIRECTORY,
    EXISTING_DIRECTORY,
    INPUT_FILE,
    choice_of,
    command,
    config_options,
)
from moses_bridge.base.config import load_config, with_options
from moses_bridge.base.progress import quiet
from rescorer.cli.options import DEVICE, RESUME, SEED, TRUST_CODE
from rescorer.contract.architectures import ARCHITECTURES
from rescorer.contract.data import Reading

if TYPE_CHECKING:
    from rescorer.contract.compute import Device
    from rescorer.contract.training import TrainingSettings
    from rescorer.runs.expected_bleu.task import ExpectedBleuConfig


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
@click.option("--out", type=DIRECTORY, required=True, help="Model directory to write.")
@click.option(
    "--arch",
    default="encdec",
    show_default=True,
    help=f"What is trained: {', '.join(ARCHITECTURES)}; or your own, package.module:NAME (package.module: for "
    "NAME ARCHITECTURE), of a module that Python finds (PYTHONPATH).",
)
@click.option("--source", type=INPUT_FILE, help="Source text, where DATA is parallel target text.")
@click.option("--links", type=INPUT_FILE, help="Its word links, where the architecture needs them.")
@click.option(
    "--texts",
    type=(INPUT_FILE, INPUT_FILE),
    metavar="SOURCE TARGET",
    help="Texts whose words are counted for the shortlists; else those of the phrase pairs are.",
)
@click.option(
    "--cache",
    type=DIRECTORY,
    help="Keep the pairs of the table here; read them from here where they are kept already.",
)
@config_options(_training_settings)
@click.option("--minutes", type=float, help="At most so many; sets the key loop.max_minutes.")
@click.option("--epochs", type=int, help="Passes at most; sets the key loop.n_epochs.")
@click.option("--hidden-width", type=int, help="Sets the key model.hidden_width.")
@click.option(
    "--reading",
    type=choice_of(Reading),
    help="Learn p(source | target), or the last word of a sentence first; sets the key reading.",
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
    """Train a network on the distinct pairs of a phrase table (or, --arch cslm, on target text).

    Without a limit of minutes or epochs it trains until the held-out loss stops falling. Several
    processes train together by torchrun --nproc-per-node N -m rescorer train ...

    Example: rescorer train model/phrase-table.gz --out rnn
    """
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
@click.option("--source", type=INPUT_FILE, required=True, help="The text that was translated.")
@click.option(
    "--reference",
    "references",
    type=INPUT_FILE,
    multiple=True,
    required=True,
    help="Its translation; may be given several times.",
)
@click.option("--out", type=DIRECTORY, required=True, help="Model directory to write.")
@config_options(_expected_bleu_settings)
@click.option("--minutes", type=float, help="At most so many; sets the key loop.max_minutes.")
@click.option("--epochs", type=int, help="Passes at most; sets the key loop.n_epochs.")
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
    """Train a phrase model (encdec, cptm, word_pairs) on, for the BLEU that is expected on n-best lists.

    NBEST has the segmentation of each translation (-include-segmentation-in-n-best); the weights of the other
    features are those that it was made with.

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
