from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import click
import numpy as np
import pytest
from click.testing import CliRunner

from moses_bridge.base.command import (
    CommandGroup,
    command,
    command_line,
    program,
)
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.options import ARGUMENT, ConfigOptions, option
from moses_bridge.base.progress import print_note

MOSES_BRIDGE = [
    sys.executable,
    "-c",
    "from moses_bridge.cli import main; main(prog_name='moses-bridge')",
]


MAKE_ROOM = ". Make room there, or name another place; where a command has --resume, it continues"


@pytest.mark.parametrize(
    ("fault", "status", "printed"),
    [
        (InputError("t", 3, "x", "y"), 1, "prog: error: t:3: found x, expected y\n"),
        (ConfigError("no such key"), 1, "prog: error: no such key\n"),
        (OSError(errno.ENOSPC, "No space left", "out"), 1, f"No space left: 'out'{MAKE_ROOM}\n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "out"),
            1,
            "Permission denied: 'out'\n",
        ),
        (KeyboardInterrupt(), 130, "prog: interrupted\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, ""),
        (SystemExit(7), 7, ""),
        (click.UsageError("wrong"), 2, "Error: wrong\n"),
    ],
)
def test_how_commands_end(fault: BaseException, status: int, printed: str) -> None:
    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @prog.command()
    def fail() -> None:
        raise fault

    result = CliRunner().invoke(prog, ["fail"], prog_name="prog")
    assert result.exit_code == status
    assert result.stderr.endswith(printed)
    assert bool(result.stderr) == bool(printed)
    assert "Traceback" not in result.output


ALLOCATION = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 4000 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("fault", "arguments", "printed"),
    [
        (
            MemoryError("Unable to allocate 52.2 GiB for an array"),
            ["--stack", "100000000", "--size", "5"],
            "not enough memory (Unable to allocate 52.2 GiB for an array): lower --stack 100000000, "
            "--size 5, or use a larger machine\n",
        ),
        (MemoryError(), [], "not enough memory: lower the sizes in its settings and in the dir"),
        (RuntimeError(f"{ALLOCATION}\nframe #0"), ["--stack", "3"], "allocate 4000 bytes. Err"),
        (ImportError("failed to map segment from shared object"), [], "not enough memory (failed"),
    ],
)
def test_without_memory_a_command_says_what_to_lower(
    fault: BaseException, arguments: list[str], printed: str
) -> None:
    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @prog.command()
    @click.option("--stack", type=int)
    @click.option("--size", type=int, default=7)
    def fail(stack: int | None, size: int) -> None:
        raise fault

    result = CliRunner().invoke(prog, ["fail", *arguments], prog_name="prog")
    assert result.exit_code == 1
    assert printed in result.stderr and result.stderr.count("\n") == 1


def test_an_array_that_fits_no_memory() -> None:
    """NumPy's own error, of an array of an exabyte."""

    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @prog.command()
    @click.option("--n", type=int)
    def fill(n: int) -> None:
        np.ones(n)

    result = CliRunner().invoke(prog, ["fill", "--n", str(2**57)], prog_name="prog")
    assert result.exit_code == 1
    assert "prog: error: not enough memory (Unable to allocate 1.00 EiB" in result.stderr
    assert f"lower --n {2**57}, or use" in result.stderr


def test_our_own_bugs_keep_their_traceback() -> None:
    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @prog.command()
    def fail() -> None:
        raise ZeroDivisionError

    result = CliRunner().invoke(prog, ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_an_interrupt_while_options_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """click would make a status of 1 of it."""

    def interrupt(is_quiet: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("moses_bridge.base.progress.quiet", interrupt)

    @program
    def prog() -> None:
        """Do nothing."""

    assert CliRunner().invoke(prog, ["--quiet", "show"]).exit_code == 130


def test_an_interrupted_process() -> None:
    command = [*MOSES_BRIDGE, "--quiet", "check", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        # More than a pipe holds: when all is written, the process has begun to read.
        process.stdin.write(b"a ||| b ||| 1\n" * 50_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"moses-bridge: interrupted\n"


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"faulty\n" * 50_000)
    with subprocess.Popen(
        [*MOSES_BRIDGE, "--quiet", "check", str(table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(str(table).encode() + b":1: found 1 column")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


SLOW_WRITER = """
import sys, time, click
from moses_bridge.base.command import CommandGroup
from moses_bridge.base.textio import open_write

@click.group(cls=CommandGroup)
def prog(): ...

@prog.command()
@click.argument("out")
def write(out):
    with open_write(out) as stream:
        for number in range(10**9):
            stream.write(b"%d ||| %d ||| 0.5\\n" % (number, number))
            if number == 100_000 and out != "-":
                print("under way", flush=True)

prog(prog_name="prog")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_leaves_no_unfinished_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out.gz"
    out.write_bytes(b"old")
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER, "write", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"under way\n"
        assert len(os.listdir(tmp_path)) == 2
        process.send_signal(number)
        assert process.wait(60) == -number
        assert process.stderr.read() == b""
    assert os.listdir(tmp_path) == ["out.gz"]
    assert out.read_bytes() == b"old"


def test_a_signal_that_is_ignored_stays_so() -> None:
    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @prog.command()
    def show() -> None:
        click.echo(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
        click.echo(callable(signal.getsignal(signal.SIGTERM)))

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert CliRunner().invoke(prog, ["show"]).output == "True\nTrue\n"
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_closed_pipe_ends_the_writer_in_silence() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER, "write", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"0 ||| 0 ||| 0.5\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_a_full_standard_output() -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-c", SLOW_WRITER, "write", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert result.returncode == 1
    expected = f"prog: error: [Errno 28] No space left on device{MAKE_ROOM}\n"
    assert result.stderr.decode() == expected


def test_a_limit_of_file_size(tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (99_999, 99_999))"
    result = subprocess.run(
        [sys.executable, "-c", limit + SLOW_WRITER, "write", str(out)],
        capture_output=True,
        check=False,
    )
    assert result.returncode == 1
    advice = "Raise the limit of file sizes (ulimit -f), or name another place"
    assert result.stderr.decode() == f"prog: error: [Errno 27] File too large: '{out}'. {advice}\n"
    assert os.listdir(tmp_path) == []


@dataclass(frozen=True)
class Small:
    """Settings of one kind.

    Attributes:
        width: of a layer.
    """

    width: int = 3


@dataclass(frozen=True)
class Large(Small):
    """Settings of another kind.

    Attributes:
        depth: layers.
    """

    depth: int = 2


@dataclass(frozen=True, kw_only=True)
class TrainOptions(ConfigOptions):
    """Options of a command.

    Attributes:
        table: Tables.
        out: File to write.
        size: Kind of the settings.
        width: Units of a layer.
    """

    table: Annotated[tuple[str, ...], ARGUMENT]
    out: str
    size: Literal["small", "large"] = "small"
    width: Annotated[int | None, option(key="width")] = None

    def settings(self) -> Small:
        return self.settings_of(Large if self.size == "large" else Small)


def _program() -> click.Group:
    @click.group(cls=CommandGroup)
    def prog() -> None: ...

    @command
    def train(options: TrainOptions) -> None:
        """Train."""
        click.echo(f"{options.table} {options.out} {options.settings()}")

    prog.add_command(train)
    return prog


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--print-config"], "# of a layer.\nwidth = 3\n"),
        (["--print-config", "a", "b", "--width", "4"], "# of a layer.\nwidth = 4\n"),
        (["--size=large", "--print-config"], "width = 3\n\n# layers.\ndepth = 2\n"),
        (["--print-config", "--size", "large"], "width = 3\n\n# layers.\ndepth = 2\n"),
        (["--print-config", "--help"], "Usage: prog train [OPTIONS] TABLE..."),
        (["a", "b", "--out", "c", "--size", "large"], "('a', 'b') c Large(width=3, depth=2)\n"),
    ],
)
def test_settings_of_a_command_whose_options_choose_their_kind(
    arguments: list[str], printed: str
) -> None:
    result = CliRunner().invoke(_program(), ["train", *arguments], prog_name="prog")
    assert (result.exit_code, result.stderr) == (0, "")
    assert printed in result.stdout


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], "TABLE"),
        (["a"], "--out"),
        (["--print-config", "--size", "huge"], "'huge' is not one of"),
        (["--print-config", "--width"], "--width"),
    ],
)
def test_print_config_makes_nothing_else_optional(arguments: list[str], found: str) -> None:
    group = _program()
    for _ in range(2):  # printing once leaves the command as it was
        result = CliRunner().invoke(group, ["train", *arguments], prog_name="prog")
        assert result.exit_code == 2
        assert found in result.stderr
        assert CliRunner().invoke(group, ["train", "--print-config"]).exit_code == 0


def _grouped() -> CommandGroup:
    @program
    def prog() -> None: ...

    @command
    def train(resume: Annotated[bool, "Continue."] = False) -> None:
        """Train a network on whatever there is. Then say so."""
        print_note("under way")
        raise KeyboardInterrupt

    @command
    def check() -> None:
        """Find faults."""
        raise InputError("t", 3, "x", "y")

    train.section, check.section = "Make", "Look"
    prog.add_command(train)
    prog.add_command(check)
    return prog


def test_commands_are_listed_in_sections() -> None:
    for name in ("-h", "--help"):
        result = CliRunner().invoke(_grouped(), [name], prog_name="prog")
        listed = result.stdout.split("exit.\n")[-1].split("\n")
        assert [line for line in listed if line] == [
            "Make:",
            "  train  Train a network on whatever there is.",
            "Look:",
            "  check  Find faults.",
        ]
    result = CliRunner().invoke(_grouped(), ["train", "-h"], prog_name="prog")
    assert result.stdout.startswith("Usage: prog train ")


@pytest.mark.parametrize("given", [[], ["--resume"], ["--overwrite"]])
def test_an_interrupt_says_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/prog", "train", "a b", *given])
    result = CliRunner().invoke(_grouped(), ["train"], prog_name="prog")
    assert (result.exit_code, result.stderr) == (
        130,
        "under way\nprog: interrupted; continue with: prog train 'a b' --resume\n",
    )


def test_quiet_shows_no_progress_of_this_call_alone() -> None:
    for options, told in ((["-q"], ""), (["--quiet"], ""), ([], "under way\n")):
        result = CliRunner().invoke(_grouped(), [*options, "train"], prog_name="prog")
        assert result.stderr.startswith(f"{told}prog: interrupted; continue with: ")


def test_verbose_measures_and_shows_where_an_error_is_from() -> None:
    result = CliRunner().invoke(_grouped(), ["-v", "check"], prog_name="prog")
    assert result.exit_code == 1
    first, *_, measured, last = result.stderr.splitlines()
    assert re.fullmatch(r"prog \S+, .* processors, \d+ GiB, .*", first)
    assert "Traceback (most recent call last):" in result.stderr
    assert re.fullmatch(
        r"prog: .* s, .* s of processor time, [\d,]+ MiB of memory at most", measured
    )
    assert last == "prog: error: t:3: found x, expected y"


@pytest.mark.parametrize("module", ["moses_bridge", "rescorer", "tuning"])
def test_each_command_is_a_module_too(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith(f"{module.replace('_', '-')} ")
    assert result.stderr == ""


def test_the_command_line_of_a_module_is_that_of_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/moses_bridge/__main__.py", "check", "a b"])
    assert command_line() == "moses-bridge check 'a b'"


def test_a_command_of_two_words_is_found_before_that_of_the_first_word() -> None:
    @program
    def main() -> None:
        """A program."""

    @command
    def run(experiment: Annotated[str, ARGUMENT]) -> None:
        """Run an experiment."""
        click.echo(f"ran {experiment}")

    @command
    def improve(size: Annotated[int, "A size."]) -> None:
        """Improve a system."""
        click.echo(f"improved {size}")

    improve.name = "run improve"
    main.add_command(run)
    main.add_command(improve)
    told = CliRunner().invoke(main, ["run", "improve", "--size", "3"])
    assert told.output == "improved 3\n"
    assert CliRunner().invoke(main, ["run", "table1"]).output == "ran table1\n"
    assert "main run improve" in CliRunner().invoke(main, ["run", "improve", "-h"]).output


@pytest.mark.parametrize("words", [["letters", "--help"], ["letters"]])
def test_the_first_of_two_words_has_a_help(words: list[str]) -> None:
    @program
    def main() -> None:
        """A program."""

    @command
    def train() -> None:
        """Learn spellings."""

    train.name = "letters train"
    main.add_command(train)
    told = CliRunner().invoke(main, words).output
    assert "Usage: main letters" in told and "train  Learn spellings." in told
