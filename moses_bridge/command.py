"""What the three commands share: how they end, and the options that mean the same in each of them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click

from moses_bridge.errors import UserError
from moses_bridge.processors import n_processors
from moses_bridge.textio import remove_unfinished

Command = TypeVar("Command", bound=Callable[..., Any])
FAILED = 1
INTERRUPTED = 130
VERSION = click.version_option(package_name="rescorer", message="%(prog)s %(version)s")
CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Settings in TOML; an unknown key is an error.",
)
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def jobs_option(what: str) -> Callable[[Command], Command]:
    """The option --jobs: how many at a time, by default one for each processor.

    Args:
        what: what the number counts, for the help: "Processes to run".
    """
    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=n_processors(),
        help=f"{what}.  [default: one for each processor]",
    )


class CommandGroup(click.Group):
    """A click group whose commands end with one line on standard error instead of a traceback.

    Exit status 1: a fault the user can mend (UserError, or the system's: no space, no permission);
    130: interrupted; 2, from click: a wrong command line. A reader that closed the pipe (`| head`)
    ends the command in silence, with status 1. SIGTERM and SIGHUP end it at once, as they do by
    default, but leave no unfinished files.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see the class."""
        try:
            with _tidy_when_ended():
                return super().invoke(ctx)
        except UserError as error:
            message = str(error)
        except BrokenPipeError:
            _close_output()
            sys.exit(FAILED)
        except OSError as error:
            message = str(error)
            _close_output()
        except KeyboardInterrupt:
            click.echo(f"{ctx.info_name}: interrupted", err=True)
            sys.exit(INTERRUPTED)
        click.echo(f"{ctx.info_name}: error: {message}", err=True)
        sys.exit(FAILED)


@contextlib.contextmanager
def _tidy_when_ended() -> Iterator[None]:
    """Remove unfinished files when a signal ends the process; a worker process ends as it is."""
    owner = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            remove_unfinished()
            for child in multiprocessing.active_children():
                child.terminate()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    replaced = []
    if threading.current_thread() is threading.main_thread():
        replaced = [
            number for number in ENDING_SIGNALS if signal.getsignal(number) is signal.SIG_DFL
        ]
    for number in replaced:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _close_output() -> None:
    """Let go of what cannot be written, or Python would try again at its end and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
