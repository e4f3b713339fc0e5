from __future__ import annotations

import gzip
import signal
import sys
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError, ToolError
from moses_bridge.base.programs import InteractiveProgram, find_program, run_program

UPPER = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read().upper())"
FAIL = (
    "import sys; print('half'); print('no ' * 2000 + 'reason\\xe9', file=sys.stderr); sys.exit(3)"
)
LOUD = "import sys; sys.stderr.write('x' * 10**6); sys.stdout.write('y' * 10**6)"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_programs_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "lmplz"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("lmplz") == program
    assert find_program("moses") is None


def test_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"abc\n"))
    out = tmp_path / "out.gz"
    assert run_program(python(UPPER)) == b""
    assert run_program(python(UPPER), tmp_path / "in.gz") == b"ABC\n"
    assert run_program(python(UPPER), tmp_path / "in.gz", out) == b""
    assert gzip.decompress(out.read_bytes()) == b"ABC\n"


def test_a_program_that_talks_much_on_both_streams() -> None:
    assert run_program(python(LOUD)) == b"y" * 10**6


def test_a_failure_tells_the_last_words_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="failed with status 3") as error:
        run_program(python(FAIL), stdout_path=tmp_path / "out")
    assert error.value.exit_code == 3
    assert error.value.stderr_tail.rstrip().endswith("reason\xe9")
    assert len(error.value.stderr_tail) <= 2000
    assert list(tmp_path.iterdir()) == []


def test_notes_of_a_program_that_succeeds_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    told = "loaded\\nnote: 3 of 4 are empty\\nfootnote: none"
    run_program(python(f"import sys; sys.stderr.write('{told}')"))
    assert capsys.readouterr().err == "note: 3 of 4 are empty\n"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started") as error:
        run_program([str(tmp_path / "nothing"), "-f", "moses.ini"])
    assert error.value.exit_code is None
    with pytest.raises(InputError, match="nowhere"):
        run_program(python(UPPER), tmp_path / "nowhere")


def test_an_asked_program_answers_and_ends_with_its_input() -> None:
    program = InteractiveProgram(["sh", "-c", "cat; echo bye >&2; exit 3"])
    program.input.write(b"a question\n")
    program.input.flush()
    assert program.output.readline() == b"a question\n"
    assert program.status(0.0) is None
    assert program.end() == 3
    assert program.messages() == "bye"
    program.close()


def test_an_asked_program_that_does_not_end_is_killed() -> None:
    program = InteractiveProgram(["sleep", "60"])
    assert program.end(0.1) == -signal.SIGKILL
    program.close()


def test_children_of_a_killed_program_do_not_hold_up_its_end() -> None:
    """They have its standard streams."""
    program = InteractiveProgram(["sh", "-c", "cat; true"])
    program.kill()
    assert program.status() == -signal.SIGKILL
