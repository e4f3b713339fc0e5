"""Commands that are killed, run out of disk or lose their reader: a complete file or none, always."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from rescorer.cli import main as rescorer_command
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from tests.faults.conftest import KILLS, N_POINTS, Commands, Interrupted

SCORE = ("score", "--control", "random", "--jobs", "1")
OLD = b"an older file\n"
TRAINING = {
    "encdec": """\
n_held_out = 100
batch_pairs = 64
[model]
hidden_width = 16
embedding_width = 8
maxout_width = 8
""",
    "cslm": """\
n_held_out = 100
batch_words = 256
n_sampled = 50
dropout = 0.1
[model]
context_words = 3
embedding_width = 8
first_width = 32
second_width = 16
""",
}
LOOP = """\
[loop]
n_epochs = 3
checkpoint_minutes = 0.002
"""
INI = """\
[feature]
PhraseDictionaryMemory name=TM0 num-features=2 path=table.gz
[weight]
TM0= 0.2 0.2
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 20,000 rows, its ini, and text that uses half of them."""
    folder = tmp_path_factory.mktemp("model")
    rng = random.Random(6)
    rows = [
        b"%d w ||| %d %d ||| 0.5 %g\n" % (n // 3, n, rng.randrange(10**9), rng.random())
        for n in range(20_000)
    ]
    (folder / "table.gz").write_bytes(gzip.compress(b"".join(rows), 1))
    (folder / "moses.ini").write_text(INI)
    (folder / "input").write_bytes(b"".join(b"%d w\n" % n for n in range(0, 7_000, 2)))
    return folder


class Writing:
    """A command that writes one large file, and what it should write.

    Args:
        verb: "score" or "filter".
    """

    def __init__(self, verb: str, model: Path, commands: Commands, folder: Path) -> None:
        self.model, self.folder = model, folder
        folder.mkdir()
        self.out = folder / "table.gz"
        table, ini, text = (model / name for name in ("table.gz", "moses.ini", "input"))
        self.arguments: list[object] = {
            "score": ["rescorer", *SCORE, table, "--out", self.out],
            "filter": ["moses-bridge", "filter", "--ini", ini, "--source", text, "--out", folder],
        }[verb]
        self.verb = verb
        self.inputs = {path: path.read_bytes() for path in model.iterdir()}
        self.seconds = min(self._seconds(commands) for _ in range(2))
        self.complete = self.out.read_bytes()
        self.names = set(os.listdir(folder))

    def _seconds(self, commands: Commands) -> float:
        start = time.monotonic()
        assert commands.run(*self.arguments) == 0, commands.stderr.read_text()
        return time.monotonic() - start

    def restore(self) -> None:
        """An older file stands where the new one goes."""
        for path in self.folder.iterdir():
            path.unlink()
        self.out.write_bytes(OLD)

    def assert_complete_or_old(self) -> None:
        """Neither a part of the file under its name, nor a changed input."""
        assert self.out.read_bytes() in (OLD, self.complete)
        assert {path: path.read_bytes() for path in self.model.iterdir()} == self.inputs

    def assert_no_rest(self) -> None:
        """Nothing but what belongs there, and what --resume continues."""
        resumable = (
            {".table.gz.partial", ".table.gz.partial.json"} if self.verb == "score" else set()
        )
        assert set(os.listdir(self.folder)) <= self.names | resumable


@pytest.fixture(params=["score", "filter"])
def writing(
    request: pytest.FixtureRequest, model: Path, commands: Commands, tmp_path: Path
) -> Writing:
    return Writing(request.param, model, commands, tmp_path / "out")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signals(writing: Writing, commands: Commands, number: signal.Signals) -> None:
    rng = random.Random(number)
    statuses = []
    for point in range(N_POINTS):
        writing.restore()
        process = commands.start(*writing.arguments)
        time.sleep(writing.seconds * (point + rng.random()) / N_POINTS)
        statuses.append(commands.kill(process, number))
        KILLS[" ".join(map(str, writing.arguments[:2]))] += statuses[-1] == -signal.SIGKILL
        writing.assert_complete_or_old()
        if number != signal.SIGKILL:
            writing.assert_no_rest()
        if writing.verb == "score":
            assert commands.run(*writing.arguments, "--resume") == 0
            assert writing.out.read_bytes() == writing.complete
            rest = set(os.listdir(writing.folder)) - writing.names
            assert not rest or (number == signal.SIGKILL and all(name[0] == "." for name in rest))
    assert set(statuses) <= {0, -number}
    assert -number in statuses or N_POINTS < 10


def assert_told_of(commands: Commands, status: int, error: str) -> None:
    assert status == 1
    (line,) = commands.stderr.read_text().splitlines()
    assert ": error: [Errno" in line and error in line
    assert "table.gz" in line and "or name another place" in line


def test_a_limit_of_file_size(writing: Writing, commands: Commands) -> None:
    rng = random.Random(1)
    for _ in range(N_POINTS):
        writing.restore()
        n_bytes = rng.randrange(200, len(writing.complete) - 1)
        status = commands.run(*writing.arguments, max_bytes=n_bytes)
        assert_told_of(commands, status, "File too large")
        assert writing.out.read_bytes() == OLD
        writing.assert_complete_or_old()
        writing.assert_no_rest()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    disk = tmp_path / "out"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here; a limit of file size stands for it")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("verb", ["score", "filter"])
def test_a_full_disk(verb: str, small_disk: Path, model: Path, commands: Commands) -> None:
    rng = random.Random(2)
    writing = Writing(verb, model, commands, small_disk / "out")
    filler = small_disk / "filler"
    for _ in range(N_POINTS):
        filler.unlink(missing_ok=True)
        writing.restore()
        state = os.statvfs(small_disk)
        n_left = rng.randrange(state.f_frsize, len(writing.complete) - state.f_frsize)
        filler.write_bytes(bytes(state.f_bavail * state.f_frsize - n_left))
        assert_told_of(commands, commands.run(*writing.arguments), "No space left")
        assert writing.out.read_bytes() == OLD
        writing.assert_complete_or_old()
        writing.assert_no_rest()


def test_closed_pipes(model: Path, commands: Commands, tmp_path: Path) -> None:
    rng = random.Random(3)
    score = ["rescorer", *SCORE, model / "table.gz", "--out"]
    table = (model / "table.gz").read_bytes()
    assert commands.run(*score, "-") == 0
    complete = commands.stdout.read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for _ in range(N_POINTS):
        n_bytes = rng.randrange(len(complete) // 2)  # so that no buffer holds the rest
        commands.start(*score, "-", stdout=pipe)
        with pipe.open("rb") as reader:
            assert reader.read(n_bytes) == complete[:n_bytes]
        status, printed = commands.wait(), commands.stderr.read_text()
        assert (status, printed) == (1, ""), (n_bytes, len(complete))
        assert (model / "table.gz").read_bytes() == table


def is_running(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_two_writers(model: Path, commands: Commands, tmp_path: Path) -> None:
    """The second is refused whenever it comes, resumed or not, and the first one's table is its own."""
    writing = Writing("score", model, commands, tmp_path / "out")
    rng = random.Random(4)
    lock = writing.folder / ".table.gz.lock"
    n_refused = 0
    while n_refused < N_POINTS:
        writing.restore()
        process = commands.start(*writing.arguments)
        while not lock.exists() and is_running(process):
            time.sleep(0.001)
        time.sleep(writing.seconds * rng.uniform(0, 0.5))
        other = ["score", "--control", "length", str(model / "table.gz"), "--out", str(writing.out)]
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            os.kill(process, signal.SIGSTOP)
        second = CliRunner().invoke(rescorer_command, [*other, *rng.choice([[], ["--resume"]])])
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
        assert commands.wait() == 0, commands.stderr.read_text()
        if second.exit_code:
            assert (
                f"{writing.out}: another command writes there (process {process} on"
                in second.stderr
            )
            assert writing.out.read_bytes() == writing.complete
            n_refused += 1
        assert set(os.listdir(writing.folder)) == writing.names


def test_damaged_parts(model: Path, commands: Commands, tmp_path: Path) -> None:
    """One that was cut anywhere, or in which a byte is another one, is refused before anything is written."""
    rng = random.Random(5)
    parts = [tmp_path / f"part{number}.gz" for number in (1, 2, 3)]
    for number, part in enumerate(parts, start=1):
        score = ["rescorer", *SCORE, model / "table.gz", "--shard", f"{number}/3"]
        assert commands.run(*score, "--out", part) == 0
    merge = ["rescorer", "merge", *parts, "--out", tmp_path / "merged.gz"]
    for _ in range(N_POINTS):
        damaged = rng.choice(parts)
        whole = damaged.read_bytes()
        place = rng.randrange(len(whole))
        other = bytes([whole[place] ^ 1 << rng.randrange(8)])
        damaged.write_bytes(rng.choice([whole[:place], whole[:place] + other + whole[place + 1 :]]))
        assert commands.run(*merge) == 1
        (line,) = commands.stderr.read_text().splitlines()
        assert line.startswith(f"rescorer: error: {damaged}: found ")
        assert not (tmp_path / "merged.gz").exists()
        damaged.write_bytes(whole)
    assert commands.run(*merge) == 0
    assert len(gzip.decompress((tmp_path / "merged.gz").read_bytes()).splitlines()) == 20_000


def saved_network(folder: Path) -> Path:
    """An encoder-decoder with random weights for the words of `model`."""
    torch.manual_seed(1)
    words = Vocabulary([b"w", *(b"%d" % number for number in range(500))])
    network = EncoderDecoder(EncDecConfig(32, 16, 16), len(words), len(words))
    network.initialise(None)
    save_model(folder, "encdec", network, network.config, Shortlists(words, words), {})
    return folder


def test_scoring_with_a_network_killed_again_and_again(
    model: Path, commands: Commands, tmp_path: Path
) -> None:
    """The compressed table and what is said of it are the same byte for byte."""
    table = tmp_path / "table.gz"
    table.write_bytes((model / "table.gz").read_bytes() * 2)
    arguments = ["rescorer", "score", table, "--model", saved_network(tmp_path / "network")]
    out = tmp_path / "runs" / "out" / "new.gz"
    arguments += ["--jobs", "2", "--device", "cpu", "--out", out, "--resume"]
    job = Interrupted(commands, arguments, tmp_path / "runs")
    first, *others = job.outputs(N_POINTS)
    assert len(gzip.decompress((first / "new.gz").read_bytes()).splitlines()) == 40_000
    for other in others:
        for name in ("new.gz", "new.gz.json"):
            job.assert_same((other / name).read_bytes(), (first / name).read_bytes())


def training_data(arch: str, folder: Path) -> Path:
    rng = random.Random(8)
    data = folder / "data"
    phrases = [b" ".join(b"w%d" % rng.randrange(99) for _ in range(4)) for _ in range(1500)]
    score = b" ||| 0.5 0.5 0.5 0.5"
    pairs = (b"s%d ||| " % (number // 3) + phrase for number, phrase in enumerate(phrases))
    lines = phrases if arch == "cslm" else [pair + score for pair in pairs]
    data.write_bytes(b"".join(line + b"\n" for line in lines))
    return data


def numbers_of(log: Path) -> list[dict[str, float]]:
    """The lines of a training's log without the time, which no two trainings share."""
    return [json.loads(line) | {"minutes": 0} for line in log.read_text().splitlines()]


@pytest.mark.parametrize("arch", ["encdec", "cslm"])
def test_training_killed_again_and_again(arch: str, commands: Commands, tmp_path: Path) -> None:
    """With limits by epochs the weights are the same bit for bit."""
    config = tmp_path / "config.toml"
    config.write_text(TRAINING[arch] + LOOP)
    arguments = ["rescorer", "train", training_data(arch, tmp_path), "--arch", arch]
    network = tmp_path / "runs" / "out" / "network"
    arguments += ["--device", "cpu", "--config", config, "--out", network, "--resume"]
    job = Interrupted(commands, arguments, tmp_path / "runs")
    first, *others = (folder / "network" for folder in job.outputs(N_POINTS))
    for other in others:
        weights = (other / "model.safetensors").read_bytes()
        job.assert_same(weights, (first / "model.safetensors").read_bytes())
        log = numbers_of(other / "training.jsonl")
        job.assert_same(log, numbers_of(first / "training.jsonl"))
