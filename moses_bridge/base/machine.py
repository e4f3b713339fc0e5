"""This machine and this process: processors, loaded modules, kept memory."""

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
    """The number of processors this process may use; a container or batch system may allow only some."""
    return len(os.sched_getaffinity(0))


def processor_name() -> str:
    """The model of the processor, as the system names it."""
    with contextlib.suppress(OSError):
        for line in DESCRIPTION.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def processor_words() -> frozenset[str]:
    """The words, including instructions, of the system's description of the processor, if it has one."""
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
    """Skip garbage collection while loading modules, and exempt the loaded objects from it.

    Modules stay until the process ends, yet collecting through their objects takes 0.5 of the 1.4 s of a
    process only loading PyTorch. Later objects are collected as usual, so a file left open by a user's own
    module is complete.
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
    """Let this process keep the memory it frees, where the C library is glibc.

    By default glibc returns large pieces to the system and gets them again, cleared page by page: a tenth
    of the time of an NNJM's training.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    # The first threshold is for pieces taken directly from the system; glibc before 2.35 limits it.
    if mallopt(M_MMAP_THRESHOLD, MOST_KEPT) or mallopt(M_MMAP_THRESHOLD, MOST_KEPT_BEFORE_2_35):
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT)
