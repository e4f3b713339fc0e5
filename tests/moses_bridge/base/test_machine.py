"""The machine and this process: processors, what is loaded, and memory that is freed."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from moses_bridge.base.machine import keep_freed_memory, loading

PROGRAM = """
import os
from moses_bridge.base.machine import n_processors
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
print(n_processors())
"""


def test_a_process_that_may_use_one_processor_counts_one() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert done.stdout == b"1\n"


def printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


FAULTS = """
import resource, numpy
from moses_bridge.base.machine import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [numpy.ones(5_000_000) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = [faults() for _ in range(4)][-1]
keep_freed_memory()
print(given_back, [faults() for _ in range(4)][-1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_kept() -> None:
    given_back, kept = map(int, printed(FAULTS).split())
    # Pieces of 40 MB, since glibc may keep smaller ones by itself: 29,297 pages of 4 kB, or fewer larger ones.
    assert given_back > 50 and kept < given_back / 4


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
MIB = 1024 * 1024


@pytest.mark.parametrize("most", [None, 32 * MIB, 2**31])
def test_each_c_library_is_set_as_far_as_it_can_be(
    most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without mallopt nothing is set; glibc before 2.35 refuses a first threshold above 32 MiB."""
    accepted = []

    def mallopt(option: int, value: int) -> bool:
        if option == M_MMAP_THRESHOLD and value > (most or 0):
            return False
        accepted.append(option)
        return True

    library = SimpleNamespace() if most is None else SimpleNamespace(mallopt=mallopt)
    asked = []
    monkeypatch.setattr(
        "moses_bridge.base.machine.ctypes.CDLL", lambda name: asked.append(name) or library
    )
    keep_freed_memory()
    assert asked == [None]  # the libraries of this process
    assert accepted == ([] if most is None else [M_MMAP_THRESHOLD, M_TRIM_THRESHOLD])


LOADED = """
import gc
from moses_bridge.base.machine import loading

with loading():
    import numpy
    assert not gc.isenabled()
frozen, own = gc.get_freeze_count(), [[] for _ in range(100)]
with loading():
    import numpy
print(gc.isenabled(), frozen > 10_000, gc.get_freeze_count() == frozen)
"""


def test_what_is_loaded_is_not_swept() -> None:
    assert printed(LOADED) == "True True True\n"


# Python closes the file when it sweeps its own objects at the end: those of the module and its function.
OWN = """
from moses_bridge.base.machine import loading

with loading():
    import numpy
exec("log = open({path!r}, 'w')\\ndef tell(text):\\n    log.write(text)", own := {{}})
own["tell"]("told")
"""


def test_files_of_a_module_that_is_loaded_later_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "log"
    printed(OWN.format(path=str(path)))
    assert path.read_text() == "told"


def test_garbage_is_collected_after_an_error_as_before() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
