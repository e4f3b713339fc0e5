"""Asking for memory before it is read, so that many cache lines come at a time."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

FOR_READING, INTO_ALL_CACHES, DATA = 0, 3, 1


@intrinsic
def prefetch(context: Any, array: Any, place: Any) -> Any:
    """Ask for the cache line of an element of a contiguous array, counted from its first one.

    It is no more than advice to the processor. For compiled code only.
    """
    if not isinstance(array, types.Array) or array.layout != "C":
        return None  # numba tells that there is no such function

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(function, [address, word(FOR_READING), word(INTO_ALL_CACHES), word(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate
