"""How functions are compiled that only compiled code calls.

Without the wrappers that make them callable from Python, compiling the decoder for the first time
takes two thirds of the time. The result is kept in numba's cache, as that of all others. A test that
calls such a function from Python ends the whole process, so it has to wrap it in one of its own.

numba counts the references to every array that a function is given, takes from a tuple or slices, one
atomic addition and one subtraction each, and it seldom sees that they cancel out. In the search that was
half of the time. An `inner` function does not count: whoever calls it holds its arrays for as long as it
runs. So it may neither make an array nor return one, not even a slice of one that it was given. numba
refuses to compile the first and does not notice the second. `inner_maker` is for those that do. (It says
so aloud, since numba compiles a function that says nothing as it compiles the one that calls it.)
"""

from __future__ import annotations

from numba import njit

inner = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
inner_maker = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=True)
