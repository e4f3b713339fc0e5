"""The place of compiled code, on a machine where nothing can be written but temporary files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moses_bridge.base import compiled_code
from moses_bridge.base.compiled_code import VARIABLE, place_for_compiled_code


@pytest.fixture(autouse=True)
def no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the package nor a home can be written to: the directories of /proc cannot be, by anybody."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/nobody")
    monkeypatch.setattr(compiled_code, "PACKAGE", Path("/proc/nothing"))
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not str(path).startswith("/proc") and access(path, mode)
    )


def test_without_a_place_there_is_a_folder_for_the_time_of_the_command() -> None:
    with place_for_compiled_code():
        folder = Path(os.environ[VARIABLE])
        assert folder.is_dir()
    assert not folder.exists()
    assert VARIABLE not in os.environ


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME", VARIABLE])
def test_a_place_that_is_there_is_used(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "new"))
    before = os.environ.get(VARIABLE)
    with place_for_compiled_code():
        assert os.environ.get(VARIABLE) == before


@pytest.mark.slow
def test_a_read_only_package_and_no_home(small_golden: Path, tmp_path: Path) -> None:
    """numba itself ends with a traceback there. A mount namespace makes a directory read-only for root too."""
    package = tmp_path / "packages"
    for name in ("moses_bridge", "rescorer", "tuning"):
        place = Path(compiled_code.__file__).resolve().parents[2] / name
        shutil.copytree(place, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    mount = f"mount --bind {package} {package} && mount -o remount,ro,bind {package} && "
    if subprocess.run(["unshare", "-m", "sh", "-c", f"{mount} true"], check=False).returncode:
        pytest.skip("directories cannot be mounted here")
    command = f"{sys.executable} -m moses_bridge check phrase-table.gz"
    told = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} {command}"],
        cwd=small_golden / "decode",
        env=os.environ | {"PYTHONPATH": str(package), "HOME": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
