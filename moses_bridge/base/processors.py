"""How many processors there are for this process."""

from __future__ import annotations

import os


def n_processors() -> int:
    """Processors that this process may use, which can be fewer than the machine has.

    A container or a batch system often leaves a process some of them; more processes than those would
    only wait for each other.
    """
    return len(os.sched_getaffinity(0))
