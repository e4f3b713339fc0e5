"""Options that the commands share."""

from __future__ import annotations

import click

SOURCE_LANGUAGE = click.option(
    "--source-language", required=True, help="Code of the source language: en."
)
TARGET_LANGUAGE = click.option(
    "--target-language", required=True, help="Code of the target language: fr, de or pt_BR."
)
