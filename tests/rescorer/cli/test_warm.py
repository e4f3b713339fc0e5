"""Compiling before the first use; that every command of it runs, `make install` shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ToolError, UserError
from rescorer.cli import warm


def test_a_command_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "CHAINS", (("rescorer score {folder}/nothing --out {folder}/o",),))
    with pytest.raises(ToolError, match="nothing"):
        warm.compile_all(1)


def test_a_process_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dying.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(warm, "CHAINS", (("dying now",),))
    with pytest.raises(UserError, match="dying now: the process died"):
        warm.compile_all(1)


def test_commands_without_their_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "find_spec", lambda module: None)
    monkeypatch.setattr(warm, "_run", lambda chain, folder, progress: ran.extend(chain))
    ran: list[str] = []
    warm.compile_all(1)
    assert {line.split()[0] for line in ran} == {"rescorer"}


def test_the_installed_packages_are_compiled_and_not_those_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `make install` does it in a clone."""
    for package in ("rescorer", "moses_bridge"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('a clone')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warm, "CHAINS", (("rescorer --version",),))
    warm.compile_all(1)
