"""How functions called only by compiled code are compiled.

Without wrappers for calls from Python, the decoder's first compilation takes two thirds of the time. Calling
such a function directly from Python ends the whole process, so tests wrap it in a function of their own. Its
code is kept as a part of its callers' code.

numba counts the references to every array that a function is given, takes from a tuple or slices: one atomic
addition and one subtraction each. It seldom sees that they cancel out, and in the search this took half of the
time. An `inner` function does not count: its caller holds the arrays while it runs. So it may neither make an
array nor return one, not even in a tuple or one that it was given. numba refuses to compile most that do, but
not all that return one; `inner_maker` is for those. (It says that it counts, since numba compiles a function
without a setting like its caller.)

An array is passed as seven numbers, so a call with the tables of a search pushes some hundreds of them.
`inlined` is for functions called by the innermost loops with many arrays and too long for LLVM to inline by
itself. The body of an `expanded` one replaces the call before types are known.

In all compiled functions, loops set slices from arrays or tuples: `a[i:j] = b` makes numba compile the message
of an error about shapes, with its Unicode, for two seconds in each process.
"""

from __future__ import annotations

from functools import partial

from numba import njit

_unwrapped = partial(njit, no_cpython_wrapper=True, no_cfunc_wrapper=True)
inner = _unwrapped(_nrt=False)
inner_maker = _unwrapped(_nrt=True)
inlined = _unwrapped(_nrt=False, forceinline=True)
expanded = njit(inline="always")
