"""Python objects named `package.module:NAME`, like entry points of Python packages.

Importing a module runs it, so only names given or trusted by the user are loaded.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from moses_bridge.base.errors import ConfigError, InputError

FORM = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)?")
OWN_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class ObjectReference:
    """The module of an object, as `import` takes it, and its name there."""

    module: str
    name: str

    @classmethod
    def parse(cls, text: str, default_name: str = "") -> ObjectReference:
        """Read `package.module:NAME`; `default_name` completes a text that ends at its colon.

        Raises:
            ConfigError: the text has another form.
        """
        form = FORM.fullmatch(text)
        name = (form[2] or default_name) if form else ""
        if form is None or not name:
            raise ConfigError(f"no object {text!r}; write package.module:NAME")
        return cls(form[1], name)

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def is_own(self) -> bool:
        """Whether it belongs to this package."""
        return self.module.partition(".")[0] == OWN_PACKAGE

    def load(self) -> object:
        """Import the module and return the object.

        Raises:
            ConfigError: the module or the name does not exist.
            InputError: the module itself fails; names the line in it.
        """
        module = self._module()
        if not hasattr(module, self.name):
            raise ConfigError(f"{self}: {module.__file__ or self.module} has no {self.name}")
        return getattr(module, self.name)

    def _module(self) -> ModuleType:
        try:
            return import_module(self.module)
        except ModuleNotFoundError as error:
            if f"{self.module}.".startswith(f"{error.name}."):
                raise ConfigError(
                    f"{self}: Python finds no module {error.name!r}; put its folder into PYTHONPATH, "
                    "as in PYTHONPATH=. for the current one, or install its package"
                ) from error
            raise self._failed_import(error) from error
        except (Exception, SystemExit) as error:
            raise self._failed_import(error) from error

    def _failed_import(self, error: BaseException) -> InputError:
        if isinstance(error, SyntaxError) and error.filename:
            path, line = error.filename, error.lineno
        else:
            frames = traceback.extract_tb(error.__traceback__)
            outside = [frame for frame in frames[1:] if not frame.filename.startswith("<frozen")]
            own = [frame for frame in outside if "importlib" not in frame.filename]
            path, line = (own[-1].filename, own[-1].lineno) if own else (self.module, None)
        told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return InputError(path, line, told, f"a module that can be imported, for {self}")


def imported_when_called(place: str, *bound: object) -> Callable[..., Any]:
    """Return a function (package.module:NAME) whose module is imported at its first call.

    The arguments `bound` follow those of a call.
    """
    reference = ObjectReference.parse(place)
    return lambda *arguments: cast(Callable[..., Any], reference.load())(*arguments, *bound)
