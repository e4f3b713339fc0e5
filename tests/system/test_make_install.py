"""The step of `make install` that installs KenLM, on machines with and without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the Makefile itself calls.
TOOLS = (
    "awk",
    "bash",
    "cat",
    "dirname",
    "echo",
    "env",
    "find",
    "id",
    "make",
    "nproc",
    "sed",
    "sh",
    "timeout",
)
# An interpreter that has no kenlm, names no packages, and notes what pip is asked for.
PYTHON = """#!/bin/sh
case "$*" in
    *"import kenlm"*) exit 1 ;;
    *tomllib*) echo kenlm ;;
    *pip*) echo "$@" >>"$0.asked"; exit {pip} ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the programs of a machine and, in `venv`, an environment whose pip installs nothing."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    return tmp_path


def make_kenlm(machine: Path, pip_status: int = 0) -> subprocess.CompletedProcess[str]:
    write_program(machine / "venv" / "bin" / "python", PYTHON.format(pip=pip_status))
    return subprocess.run(
        ["make", "kenlm", f"VENV={machine / 'venv'}"],
        cwd=ROOT,
        env={"PATH": str(machine / "programs"), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
    )


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def asked_of_pip(machine: Path) -> str:
    asked = machine / "venv" / "bin" / "python.asked"
    return asked.read_text() if asked.exists() else ""


def test_without_a_compiler_it_goes_on_and_says_what_is_missing(machine: Path) -> None:
    done = make_kenlm(machine)
    assert done.returncode == 0, done.stderr
    assert "KenLM is not installed, all else is" in done.stderr
    assert "install g++ and cmake, then type: make kenlm" in done.stderr
    assert asked_of_pip(machine) == ""


def test_with_a_compiler_pip_is_asked(machine: Path) -> None:
    write_program(machine / "programs" / "g++", "#!/bin/sh\n")
    done = make_kenlm(machine)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip" in asked_of_pip(machine) and "-c constraints.txt" in asked_of_pip(machine)


def test_a_failed_compilation_does_not_end_the_installation(machine: Path) -> None:
    write_program(machine / "programs" / "g++", "#!/bin/sh\n")
    done = make_kenlm(machine, pip_status=1)
    assert done.returncode == 0
    assert "then type: make kenlm" in done.stderr


def test_root_gets_a_compiler_through_apt(machine: Path) -> None:
    """Its apt-get brings a compiler, as the real one would."""
    programs = machine / "programs"
    (programs / "id").unlink()
    write_program(programs / "id", "#!/bin/sh\necho 0\n")
    compiler = programs / "g++"
    chmod = shutil.which("chmod")
    write_program(
        programs / "apt-get",
        f'#!/bin/sh\n[ "$1" = update ] || {{ echo "#!/bin/sh" >{compiler}; {chmod} 755 {compiler}; }}\n',
    )
    done = make_kenlm(machine)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Installing a C++ compiler for KenLM" in done.stdout
    assert "pip" in asked_of_pip(machine)
