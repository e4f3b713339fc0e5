"""The model of the processor, its instructions, and the number of processors for this process."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

DESCRIPTION = Path("/proc/cpuinfo")


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
