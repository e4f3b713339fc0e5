"""Options that the commands share."""

from __future__ import annotations

import click

SOURCE = click.option("--source", required=True, help="Code of the source language: en.")
TARGET = click.option(
    "--target", required=True, help="Code of the target language: fr, de or pt_BR."
)
