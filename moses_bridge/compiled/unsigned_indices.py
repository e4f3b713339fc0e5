"""Indices of arrays as unsigned numbers, so that compiled code need not ask whether they are negative.

In Python an index below 0 counts from the end of an array, so numba compares each one with 0 before it reads
or writes. In loops that read a number here and there from many arrays, as the search does, these comparisons
take a tenth of the time. Compiled by `Compiler`, a function takes its indices as unsigned numbers, so one
below 0 is an address outside the array. Only a constant may still be negative: `a[-1]`.

`numba.config.BOUNDSCHECK` (NUMBA_BOUNDSCHECK=1) makes each index outside its array an error.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing.templates import Signature

from moses_bridge.compiled.kept_code import njit


@register_pass(mutates_CFG=False, analysis_only=False)
class UnsignedIndices(FunctionPass):  # type: ignore[misc]  # numba has no types
    """Makes indices unsigned where a number is read from an array or written to one."""

    _name = "unsigned_indices"

    def __init__(self) -> None:  # abstract in numba
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """See numba's "Customizing the compiler"; numba casts an index to the type in the signature."""
        accesses = {
            operation: _with_unsigned_index(signature)
            for operation, signature in state.calltypes.items()
            if isinstance(operation, ir.SetItem) or _reads(operation)
        }
        state.calltypes.update(accesses)
        return True


class Compiler(CompilerBase):  # type: ignore[misc]  # numba has no types
    """numba's compiler with `UnsignedIndices`."""

    def define_pipelines(self) -> list[PassManager]:
        """See numba's "Customizing the compiler"."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(UnsignedIndices, NopythonRewrites)
        passes.finalize()
        return [passes]


def _reads(operation: Any) -> bool:
    return isinstance(operation, ir.Expr) and operation.op == "getitem"


def _with_unsigned_index(signature: Signature) -> Signature:
    container, index, *value = signature.args
    if not isinstance(container, types.Array):
        return signature
    return signature.replace(args=(container, _unsigned(index), *value))


def _unsigned(index: types.Type) -> types.Type:
    if isinstance(index, types.BaseTuple):
        return types.Tuple([_unsigned(each) for each in index])
    return types.uintp if index in types.signed_domain else index


compiled = njit(no_cfunc_wrapper=True, pipeline_class=Compiler)
