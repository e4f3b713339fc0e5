"""What is printed, and standard streams that are closed or full, in processes of their own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from moses_bridge.base.streams import cleaned

MOSES_BRIDGE = f"{sys.executable} -m moses_bridge"
MENDED = "import sys; from moses_bridge.base.streams import mend_streams; mend_streams()\n"


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", command], capture_output=True, cwd=folder, check=False)


def on_terminal(command: list[str]) -> bytes:
    """What a command prints on a terminal."""
    own, its = pty.openpty()
    process = subprocess.Popen(command, stdout=its, stderr=its)
    os.close(its)
    printed = b""
    try:
        while piece := os.read(own, 1 << 16):
            printed += piece
    except OSError:  # Linux tells the end so
        pass
    os.close(own)
    assert process.wait() == 0
    return printed


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_work_goes_on_without_standard_error(stream: str, tmp_path: Path) -> None:
    code = (
        "n = open('out', 'w').fileno(); print('message', file=sys.stderr, flush=True)\n"
        "print('other' * 9999, file=sys.stderr); print(n > 2); sys.exit(3)"
    )
    (tmp_path / "code.py").write_text(MENDED + code)
    done = shell(f"{sys.executable} code.py {stream}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"True\n", b"")


def test_a_command_without_any_stream(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[a]\nb = 1\n")
    assert shell(f"{MOSES_BRIDGE} config a.toml --out a <&- >&- 2>&-", tmp_path).returncode == 0
    assert (tmp_path / "a" / "a.toml").exists()


@pytest.mark.parametrize(
    ("stream", "fault"),
    [
        ("steps >&-", b"[Errno 9] Bad file descriptor"),
        (
            "steps >/dev/full",
            b"[Errno 28] No space left on device. Make room there, or name another",
        ),
        ("- <&-", b"-:1: found Bad file descriptor, expected a readable file"),
    ],
)
def test_a_stream_that_is_needed_is_told(stream: str, fault: bytes, tmp_path: Path) -> None:
    (tmp_path / "steps").write_bytes(b"")
    done = shell(f"{MOSES_BRIDGE} steps {stream}", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"moses-bridge: error: " + fault)
    assert done.stderr.count(b"\n") == 1


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """The first sets a window's title, the second one begins such a sequence, too; U+009B is one character."""
    step = (
        '{"name": "\\u001b]0;PWNED\\u0007\\u009b2J", "command": "", "version": "1", "started": "", '
        '"seconds": 1, "processor_seconds": 1, "peak_memory": 1, "status": 0, "machine": ""}\n'
    )
    (tmp_path / "steps").write_text(step)
    printed = on_terminal([sys.executable, "-m", "moses_bridge", "steps", str(tmp_path / "steps")])
    assert rb"\x1b]0;PWNED\x07\x9b2J" in printed
    missing = [sys.executable, "-m", "moses_bridge", "steps", "\x1b[2J"]
    told = subprocess.run(missing, capture_output=True, check=False).stderr
    assert b"\x1b" not in printed + told and "\x9b" not in printed.decode()


def test_what_a_progress_bar_prints_is_left_as_it_is() -> None:
    assert cleaned("\rbar:  50%") == "\rbar:  50%"
    assert cleaned("a\rb\r\n") == "a\\x0db\r\n"
    assert cleaned("tab\tand\nend é …") == "tab\tand\nend é …"


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        MENDED + "name = sys.argv[1]; print(name); print(name, file=sys.stderr)"
    )
    command = [sys.executable, str(tmp_path / "code.py"), b"a\xff"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"a\xff\n", b"a\\udcff\n")
