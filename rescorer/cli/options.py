"""Options that the commands share."""

from __future__ import annotations

import click

from moses_bridge.base.command import choice_of
from rescorer.contract.choices import Device, OutputFormat, Precision

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
    help="Number format of matrix products; sums and the softmax are always float32.",
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
