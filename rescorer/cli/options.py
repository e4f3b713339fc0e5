"""Options that the commands share."""

from __future__ import annotations

import click

RESUME = click.option("--resume", is_flag=True, help="Continue an interrupted training.")
SEED = click.option("--seed", type=int, default=1, show_default=True)
DEVICE = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True
)
PRECISION = click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Of the products; sums and softmax are float32 in either case.",
)
UNNORMALIZED = click.option(
    "--unnormalized",
    is_flag=True,
    help="Leave out the softmax's denominator; for models trained with self_normalisation.",
)
TRUST_CODE = click.option(
    "--trust-code",
    is_flag=True,
    help="Run the code that a model names as its architecture, where this is not rescorer's own.",
)
FORM = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
