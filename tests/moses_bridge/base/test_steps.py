"""Steps of a pipeline: what the log has, and that the wrapper changes nothing for the command."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import InputError, ToolError
from moses_bridge.base.steps import (
    Step,
    finished_steps,
    read_steps,
    recorded_step,
    run_step,
    step_lines,
)
from moses_bridge.cli import main

STEP = Step("a", "cp x a", "1.0", "2026-01-01T00:00:00+00:00", 2.0, 1.5, 10_000_000, 0, "a machine")


def test_time_memory_and_status_are_logged(tmp_path: Path) -> None:
    log = tmp_path / "new" / "steps.jsonl"
    hungry = "import time; x = bytearray(300_000_000); time.sleep(0.3); raise SystemExit(3)"
    # In a process of its own: a child begins with the memory that its parent had, and pytest has much.
    code = "from moses_bridge.cli import main; main()"
    step = [sys.executable, "-c", code, "step", "--log", str(log), "--name", "model", "--"]
    assert subprocess.run([*step, sys.executable, "-c", hungry], check=False).returncode == 3
    assert run_step(["true"], log, "table") == 0
    first, second = read_steps(log)
    assert (first.name, first.status, second.name, second.status) == ("model", 3, "table", 0)
    assert 0.3 <= first.seconds < 60
    assert 300e6 < first.peak_memory < 400e6
    assert first.processor_seconds < first.seconds + 1
    assert first.command.startswith(sys.executable)
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]}" in first.machine


def test_a_product_is_logged_with_its_digest(tmp_path: Path) -> None:
    """FIPS 180-4's SHA-256 of "abc"; another run of a step writes NAME.new, and then gives it its name."""
    log, folder = tmp_path / "steps.jsonl", tmp_path / "out"
    writes = "mkdir -p out; printf abc >out/table.json; printf abc >out/table.txt; printf x >out/tables.txt"
    names = {
        "out/table.json": writes,
        "out/table.txt": "printf abc >out/table.txt.new",
        "gone": "true",
    }
    for name, command in names.items():
        assert run_step(["sh", "-c", f"cd {tmp_path}; {command}"], log, name) == 0
        (folder / "table.txt").write_text("old")
    assert run_step(["sh", "-c", "exit 3"], log, "out/table.json") == 3
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    both = {"table.json": abc, "table.txt": abc}
    assert [step.made for step in read_steps(log)] == [both, both, {}, {}]


def test_a_block_of_this_process_is_logged_unless_it_fails(tmp_path: Path) -> None:
    log = tmp_path / "run" / "steps.jsonl"
    with pytest.raises(ValueError, match="no"), recorded_step(log, "run", "tuning tune"):
        raise ValueError("no")
    assert not log.exists()
    with recorded_step(log, "run", "tuning tune"):
        time.sleep(0.05)
    (step,) = read_steps(log)
    assert (step.name, step.command, step.status) == ("run", "tuning tune", 0)
    assert 0.05 <= step.seconds < 30
    assert step.peak_memory <= 1024 * max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def test_the_command_has_its_input_output_and_status(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from moses_bridge.cli import main; main()"]
    log = tmp_path / "steps.jsonl"
    wrapped = [*program, "step", "--log", str(log), "--name", "x", "--"]
    result = subprocess.run(
        [*wrapped, "sh", "-c", "cat; exit 7", "--log"], input=b"text", capture_output=True
    )
    assert (result.returncode, result.stdout) == (7, b"text")
    assert read_steps(log)[0].command == "sh -c 'cat; exit 7' --log"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_command(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "steps.jsonl"
    code = "from moses_bridge.cli import main; main()"
    wrapped = [sys.executable, "-c", code, "step", "--log", str(log), "--", "sh", "-c"]
    process = subprocess.Popen(
        [*wrapped, "echo ready; exec sleep 600"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    if number == signal.SIGINT:  # as a terminal does: to all
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(timeout=60) == 128 + number
    assert read_steps(log)[0].status == 128 + number
    process.stdout.close()


def test_an_ignored_signal_stays_ignored_for_the_command(tmp_path: Path) -> None:
    """As `nohup` begins a command."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_step(["sh", "-c", "kill -HUP $$; exit 3"], tmp_path / "log", "a") == 3
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        run_step(["no-such-program"], tmp_path / "log", "x")
    result = CliRunner().invoke(
        main, ["step", "--log", str(tmp_path / "log"), "--", "no-such-program"]
    )
    assert result.exit_code == 1
    assert "no-such-program: could not be started" in result.stderr


def test_failed_tries_count_with_the_success_after_them() -> None:
    tries = [
        replace(STEP, seconds=5.0, status=1),
        replace(STEP, name="b"),
        replace(STEP, seconds=1.0),
        replace(STEP, name="b", seconds=7.0),
        replace(STEP, name="c", status=2),
    ]
    assert [(step.name, step.seconds) for step in finished_steps(tries)] == [("a", 6.0), ("b", 7.0)]


def test_the_list_for_a_reader(tmp_path: Path) -> None:
    log = tmp_path / "log"
    steps = [STEP, replace(STEP, name="b", seconds=63.2, peak_memory=1_500_000_000)]
    log.write_text("".join(json.dumps(vars(step)) + "\n" for step in steps))
    assert step_lines(steps)[1:] == [
        "    2.0 s     10 MB  a",
        "1 min 03 s  1,500 MB  b",
        "1 min 05 s            all steps, one after the other",
    ]
    result = CliRunner().invoke(main, ["steps", str(log)])
    assert result.output.splitlines() == step_lines(steps)


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"name": 1}', "nothing"])
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    log = tmp_path / "log"
    log.write_text(json.dumps(vars(STEP)) + "\n" + line + "\n")
    with pytest.raises(InputError, match=r"log:2: .*expected a line of `moses-bridge step`"):
        read_steps(log)
