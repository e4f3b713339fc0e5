"""Errors in the user's input, settings, tools or packages; their messages say how to mend them."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

BYTES_SHOWN = 120  # of a line quoted in a message
# What is quoted in a message, or else an option.
OPTION = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`|(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
FLAGS = {"overwrite", "replace", "resume", "run_commands", "trust_code", "unnormalized"}

Extra = Literal["build", "cluster", "ct2", "hf", "kenlm", "report", "views"]

# Modules by extra, as in pyproject.toml. Commands of moses-bridge need "build", of rescorer "views", of tuning
# "report"; for a module in several extras, the error names the command's own.
MODULES: Mapping[Extra, frozenset[str]] = {
    "build": frozenset({"polib", "rapidfuzz", "sacremoses", "scipy", "thot"}),
    "report": frozenset(
        {"jinja2", "matplotlib", "pandas", "rapidfuzz", "sacrebleu", "sacremoses", "scipy"}
        | {"sklearn", "vl_convert"}
    ),
    "views": frozenset({"matplotlib", "openTSNE", "pandas", "scipy", "tensorboardX"}),
    "cluster": frozenset({"ray"}),
    "hf": frozenset({"sacremoses", "sentencepiece", "transformers"}),
    "ct2": frozenset({"ctranslate2", "sacremoses", "sentencepiece", "transformers"}),
    "kenlm": frozenset({"kenlm"}),
}
NOTES: Mapping[Extra, str] = {
    "kenlm": " (it needs a C++ compiler: apt-get install g++ cmake); or name the model's ARPA file"
}


def shown(text: bytes) -> str:
    """Bytes of a file quoted for a message: decoded as UTF-8, and shortened if long."""
    return repr(text[:BYTES_SHOWN].decode("utf-8", "replace"))


class UserError(Exception):
    """A fault the user can mend: commands print the message alone and exit with status 1."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error for another process, whatever arguments its class takes."""
        return Exception.__new__, (type(self), *self.args), vars(self)


class InputError(UserError):
    """A fault in an input file, in a line from 1 or (None) in no single one: found, expected, advice."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        line: int | None,
        found: str,
        expected: str,
        hint: str = "",
    ) -> None:
        self.path = os.fspath(path)
        self.line = line
        self.found = found
        self.expected = expected
        self.hint = hint
        place = self.path if line is None else f"{self.path}:{line}"
        advice = f". {hint}" if hint else ""
        message = f"{place}: found {found}, expected {expected}{advice}"
        super().__init__(message.replace("\n", "\\n"))  # a name in a file may have a line's end


class ConfigError(UserError):
    """A setting that is unknown, has a wrong type or value, or does not fit another one."""


class ToolError(UserError):
    """A program that failed, with the end of its messages, or (exit_code None) why it could not start."""

    def __init__(self, command: Sequence[str], exit_code: int | None, stderr_tail: str) -> None:
        self.command = tuple(command)
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail
        told = stderr_tail.strip() or "it printed no message"
        super().__init__(f"{shlex.join(command)}: {_outcome(exit_code)}: {told}")


def _outcome(exit_code: int | None) -> str:
    """An exit status in words; a negative one is that of a program ended by a signal."""
    if exit_code is None:
        return "could not be started"
    if exit_code >= 0:
        return f"failed with status {exit_code}"
    hint = ", perhaps for want of memory" if -exit_code == signal.SIGKILL else ""
    return f"ended by {signal.Signals(-exit_code).name}{hint}"


class MissingExtraError(UserError):
    """A module of an extra is not installed; the message has the command installing it."""

    def __init__(self, module: str, extra: Extra) -> None:
        self.module = module
        self.extra: Extra = extra
        note = NOTES.get(extra, "")
        super().__init__(f"{module} is not installed: pip install 'rescorer[{extra}]'{note}")


@contextmanager
def extra_named(own: Extra) -> Iterator[None]:
    """Name the extra of a missing module, `own` first, in a `with` block or decorated function.

    Raises:
        MissingExtraError: the block imported a module of an extra that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").split(".")[0]
        extras = [extra for extra in (own, *MODULES) if module in MODULES[extra]]
        if not extras:
            raise
        raise MissingExtraError(module, extras[0]) from error


@contextmanager
def arguments_named() -> Iterator[None]:
    """Name arguments instead of options in errors, for functions of Python: `resume=True` for --resume."""
    try:
        yield
    except ToolError:
        raise
    except UserError as error:
        error.args = (OPTION.sub(_argument, str(error)),)
        raise


def _argument(found: re.Match[str]) -> str:
    name = (found[1] or "").replace("-", "_")
    return f"{name}=True" if name in FLAGS else name or found[0]
