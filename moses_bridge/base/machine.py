"""This machine and this process on it: processors, what is loaded, and the memory that it keeps."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

DESCRIPTION = Path("/proc/cpuinfo")
# Numbers of glibc's malloc.h, and bytes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MOST_KEPT, MOST_KEPT_BEFORE_2_35 = 2**29, 2**25


def n_processors() -> int:
    """The number of processors this process may use, at most those of the machine.

    A container or a batch system often gives a process only some of them; more worker processes than these
    would only wait for each other.
    """
    return len(os.sched_getaffinity(0))


def processor_name() -> str:
    """The model of the processor, as the system names it."""
    with contextlib.suppress(OSError):
        for line in DESCRIPTION.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def processor_words() -> frozenset[str]:
    """The words of the system's description of the processor, its instructions among them; none without one."""
    with contextlib.suppress(OSError):
        return frozenset(DESCRIPTION.read_text(errors="replace").split())
    return frozenset()


def machine() -> str:
    """A description of this machine: processor, number of processors, memory, system, Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [
        processor_name(),
        f"{n_processors()} processors",
        f"{memory:.0f} GiB",
        platform.system(),
        f"Python {platform.python_version()}",
    ]
    return ", ".join(part for part in parts if part)


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
