"""How functions are compiled that only compiled code calls.

Without the wrappers that make them callable from Python, compiling the decoder for the first time
takes two thirds of the time. The result is kept in numba's cache, as that of all others. A test that
calls such a function from Python ends the whole process, so it has to wrap it in one of its own.
"""

from __future__ import annotations

from numba import njit

inner = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
