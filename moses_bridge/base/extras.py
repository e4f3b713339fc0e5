"""Packages that belong to an extra, and the command that installs one that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from moses_bridge.base.errors import UserError

Extra = Literal["build", "cluster", "ct2", "hf", "kenlm", "report", "views"]

# Modules by extra, as in pyproject.toml. Commands of moses-bridge need "build", those of rescorer "views", and
# those of tuning "report"; where several extras have a module, the error names the command's own.
MODULES: Mapping[Extra, frozenset[str]] = {
    "build": frozenset({"polib", "rapidfuzz", "sacremoses", "scipy", "thot"}),
    "report": frozenset(
        {
            "jinja2",
            "matplotlib",
            "pandas",
            "rapidfuzz",
            "sacrebleu",
            "sacremoses",
            "scipy",
            "sklearn",
            "vl_convert",
        }
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


class MissingExtraError(UserError):
    """A package is not installed; the message has the command that installs it.

    Args:
        module: the module that could not be imported.
        extra: the extra it belongs to.
    """

    def __init__(self, module: str, extra: Extra) -> None:
        self.module = module
        self.extra: Extra = extra
        note = NOTES.get(extra, "")
        super().__init__(f"{module} is not installed: pip install 'rescorer[{extra}]'{note}")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, Extra]]:
        """Pickle the error for another process."""
        return type(self), (self.module, self.extra)


@contextmanager
def extra_named(own: Extra) -> Iterator[None]:
    """Name the extra if a module of one is missing, in a `with` block or as a decorator of a function.

    Args:
        own: the extra to name for a module that several have.

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
