"""How this process looks after its memory: what is loaded is not swept, what is freed may be kept."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

# Numbers of glibc's malloc.h, and bytes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MOST_KEPT, MOST_KEPT_BEFORE_2_35 = 2**29, 2**25


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Load modules in this block; they are not swept for garbage, neither meanwhile nor later.

    Modules stay until the process ends, and Python looks through their objects again and again, at the end
    too: 0.5 of the 1.4 s of a process that does no more than load PyTorch. What is made after the block is
    swept as ever, so a file that a user's own module left open is complete.
    """
    n_modules = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    if len(sys.modules) > n_modules:
        gc.freeze()


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, where the C library is glibc.

    By default glibc gives large pieces back to the system and gets them anew, cleared page by page: a tenth of
    the time of an NNJM's training.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    # The first threshold is for pieces that come from the system directly; glibc before 2.35 has a limit.
    if mallopt(M_MMAP_THRESHOLD, MOST_KEPT) or mallopt(M_MMAP_THRESHOLD, MOST_KEPT_BEFORE_2_35):
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT)
