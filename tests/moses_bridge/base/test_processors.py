from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
from moses_bridge.base.processors import n_processors
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
print(n_processors())
"""


def test_a_process_that_may_use_one_processor_counts_one() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert done.stdout == b"1\n"
