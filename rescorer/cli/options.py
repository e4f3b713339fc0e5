"""Options that the commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moses_bridge.base.command import choice_of
from moses_bridge.base.config import choices
from rescorer.contract.choices import (
    Device,
    OutputFormat,
    Precision,
    PretrainedKind,
    TextCase,
)

if TYPE_CHECKING:
    from rescorer.models.pretrained.settings import PretrainedSettings

RESUME = click.option("--resume", is_flag=True, help="Continue an interrupted training.")
SEED = click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the random numbers."
)
DEVICE = click.option(
    "--device",
    type=choice_of(Device),
    default="auto",
    show_default=True,
    help="Where the network is computed; auto is a GPU if there is one.",
)
PRECISION = click.option(
    "--precision",
    type=choice_of(Precision),
    default="float32",
    show_default=True,
    help="Number format of matrix products; sums and the softmax are always float32. bfloat16 is faster "
    "where the processor has instructions for it, and slower elsewhere.",
)
UNNORMALIZED = click.option(
    "--unnormalized",
    is_flag=True,
    help="Leave out the denominator of the softmax. For models trained with self_normalisation.",
)
TRUST_CODE = click.option(
    "--trust-code",
    is_flag=True,
    help="Allow code from outside rescorer to run, if it is the architecture of a model.",
)
FORM = click.option(
    "--format",
    "form",
    type=choice_of(OutputFormat),
    default="text",
    show_default=True,
    help="Output format.",
)

PRETRAINED = "rescorer.pretrained"  # where a command keeps the options of pretrained models


class ModelPath(click.Path):
    """What gives values: an existing path, or the name of a pretrained model, such as hf:DIRECTORY."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; whether a pretrained model is there is found out when it is loaded."""
        kind, _, place = str(value).partition(":")
        if place and kind in choices(PretrainedKind):
            return Path(value)
        return super().convert(value, param, ctx)


MODEL_DIRECTORY = ModelPath(exists=True, file_okay=False, path_type=Path)
MODEL_FILE_OR_DIRECTORY = ModelPath(exists=True, path_type=Path)


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(PRETRAINED, {})[option.name] = value


def pretrained_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of pretrained models, for a command that reads them with `pretrained_settings`."""
    for decorate in (
        click.option(
            "--download",
            is_flag=True,
            expose_value=False,
            callback=_keep,
            help="Take a pretrained model that is no directory here from the Hugging Face hub.",
        ),
        click.option(
            "--source-prefix",
            default="",
            expose_value=False,
            callback=_keep,
            help="Text put before each source for a pretrained model, such as the task of a T5 model.",
        ),
        click.option(
            "--case",
            type=choice_of(TextCase),
            default="as-is",
            show_default=True,
            expose_value=False,
            callback=_keep,
            help="Letters given to a pretrained model: sentence raises the first one of each text.",
        ),
        click.option(
            "--detokenize/--no-detokenize",
            default=True,
            show_default=True,
            expose_value=False,
            callback=_keep,
            help="Join Moses's tokens into running text for a pretrained model.",
        ),
        click.option(
            "--target-language",
            default="",
            expose_value=False,
            callback=_keep,
            help="Code of the target language, as the tokenizer of a pretrained model writes it.",
        ),
        click.option(
            "--source-language",
            default="",
            expose_value=False,
            callback=_keep,
            help="Code of the source language, as the tokenizer of a pretrained model writes it.",
        ),
    ):
        function = decorate(function)
    return function


def pretrained_settings() -> PretrainedSettings:
    """What the options of `pretrained_options` say in the running command."""
    from rescorer.models.pretrained.settings import PretrainedSettings

    return PretrainedSettings(**click.get_current_context().meta[PRETRAINED])
