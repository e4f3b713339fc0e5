"""Memory that is read soon, so that a loop need not wait for each of its places."""

from __future__ import annotations

from typing import Any

from numba import config, types
from numba.core.cgutils import int32_t, ir, voidptr_t
from numba.extending import intrinsic


@intrinsic
def _begin_to_read(context: Any, array: Any, row: Any) -> Any:
    """LLVM's llvm.prefetch."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of_array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(of_array.strides, 0)
        first = builder.bitcast(of_array.data, voidptr_t)
        place = builder.gep(first, [builder.mul(stride, arguments[1])])
        kind = ir.FunctionType(ir.VoidType(), [voidptr_t, int32_t, int32_t, int32_t])
        function = builder.module.declare_intrinsic("llvm.prefetch", (voidptr_t,), kind)
        # To be read, into all caches, data.
        builder.call(function, [place, int32_t(0), int32_t(3), int32_t(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _nothing(array: Any, row: int) -> None:
    """Python without a compiler (NUMBA_DISABLE_JIT=1) reads nothing ahead."""


# prefetch(array, row): begin to read the row of an array that has this number, without waiting.
prefetch = _nothing if config.DISABLE_JIT else _begin_to_read
