"""What the three commands share: faults of the user's input end with one line and status 1."""

from __future__ import annotations

import sys
from typing import Any

import click

from moses_bridge.errors import UserError

INTERRUPTED = 130


class CommandGroup(click.Group):
    """A click group that turns UserError into one line on standard error and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see the class."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"{ctx.info_name}: error: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo(f"{ctx.info_name}: interrupted", err=True)
            sys.exit(INTERRUPTED)
