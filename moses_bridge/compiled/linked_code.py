"""Code of functions that only compiled functions call: it becomes a part of theirs.

numba optimises every function, makes machine code of it and keeps that in its cache. But a compiled function
takes in the code of those that it calls before it is optimised itself, so their code is optimised again,
and their own machine code never runs. Without these steps compiling the decoder takes a sixth less time.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import PassManager

from moses_bridge.compiled.unsigned_indices import Compiler


class LinkedCode(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of a function that is optimised and made into machine code only as a part of others."""

    def _optimize_final_module(self) -> None:
        """Leave it to the functions that take the code in."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """The address of the function for callers in Python: 0, as it has none."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """Where numba puts the function's environment; see `set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do without an environment, which holds the Python objects of a function: there are none."""


class LinkedCompiler(Compiler):
    """`Compiler` for functions that only compiled functions call."""

    def define_pipelines(self) -> list[PassManager]:
        """See numba's "Customizing the compiler"; numba takes the library that it finds here."""
        self.state.library = LinkedCode(
            self.state.targetctx.codegen(), self.state.func_id.func_qualname
        )
        return super().define_pipelines()
