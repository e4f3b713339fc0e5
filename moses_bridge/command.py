"""What the three commands share: faults of the user's input end with one line and status 1."""

from __future__ import annotations

import sys
from typing import Any

import click

from moses_bridge.errors import UserError

FAILED = 1
INTERRUPTED = 130


class CommandGroup(click.Group):
    """A click group whose commands end with one line on standard error instead of a traceback.

    Exit status 1: a fault the user can mend (UserError, or the system's: no space, no permission);
    130: interrupted; 2, from click: a wrong command line. A reader that closed the pipe (`| head`)
    ends the command in silence, with status 1.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see the class."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            message = str(error)
        except BrokenPipeError:
            raise
        except OSError as error:
            message = str(error)
        except KeyboardInterrupt:
            click.echo(f"{ctx.info_name}: interrupted", err=True)
            sys.exit(INTERRUPTED)
        click.echo(f"{ctx.info_name}: error: {message}", err=True)
        sys.exit(FAILED)
