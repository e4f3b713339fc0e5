"""Tables scored on a Ray cluster of this machine, against those that one process writes."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.models.scorer_choice import ScorerChoice
from rescorer.scorers.cslm import Cslm, CslmConfig
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.scorers.zoo.cstm import Cstm, CstmConfig
from rescorer.tables.cluster_scoring import packed

# Each starts processes of Ray, or a cluster of them.
pytestmark = pytest.mark.slow

MODELS = ("--model", "DIR/rnn", "--ini", "DIR/moses.ini", "--jobs", "1")
N_SOURCES, N_TARGETS = 3_200, 15
N_ROWS = N_SOURCES * N_TARGETS
WORDS = [b"w%d" % number for number in range(40)]
INI = b"""\
[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=table.gz
[weight]
TranslationModel0= 0.2 0.2 0.2 0.2
"""


def rows() -> Iterator[bytes]:
    """48,000 rows, so six blocks; a source never stands in two of them."""
    rng = np.random.default_rng(1)
    for number in range(N_SOURCES):
        source = b" ".join([b"w%d" % (number % 40), b"w%d" % (number // 40)])
        for target in rng.integers(1, 40, (N_TARGETS, 3)):
            words = b" ".join(WORDS[word] for word in target)
            yield b"%b ||| %b ||| 0.5 0.1 0.25 0.2 ||| 0-0 ||| 1 1 1" % (source, words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, its ini, two models with random weights, and what one process makes of them."""
    folder = tmp_path_factory.mktemp("scoring")
    (folder / "table.gz").write_bytes(gzip.compress(b"\n".join(rows()) + b"\n", 1))
    (folder / "moses.ini").write_bytes(INI)
    torch.manual_seed(0)
    known = Vocabulary(WORDS[:30])
    encdec = EncoderDecoder(EncDecConfig(8, 4, 4), len(known), len(known))
    save_model(folder / "rnn", "encdec", encdec, encdec.config, Shortlists(known, known), {})
    cslm = Cslm(CslmConfig(2, 4, 4, 4), len(known))
    save_model(folder / "cslm", "cslm", cslm, cslm.config, Shortlists(None, known), {})
    assert score(folder, "table", "one", *MODELS).exit_code == 0
    return folder


def arguments(folder: Path, table: str, out: str, *options: str) -> list[str]:
    given = ["score", f"DIR/{table}.gz", "--out", f"DIR/{out}.gz", *options]
    if "--ini" in options:
        given += ["--ini-out", f"DIR/{out}.ini"]
    return [argument.replace("DIR", str(folder)) for argument in given]


def score(folder: Path, table: str, out: str, *options: str) -> Result:
    given = arguments(folder, table, out, *options)
    return CliRunner().invoke(main, given, prog_name="rescorer")


def assert_equal(folder: Path, out: str, one: str = "one") -> None:
    """Table, report and ini, but for their own names and the command line."""
    assert (folder / f"{out}.gz").read_bytes() == (folder / f"{one}.gz").read_bytes()
    reports = [json.loads((folder / f"{name}.gz.json").read_bytes()) for name in (one, out)]
    commands = [report.pop("command") for report in reports]
    assert commands[0] and reports[0] == reports[1]
    ini = (folder / f"{out}.ini").read_bytes().replace(f"{out}.gz".encode(), f"{one}.gz".encode())
    assert ini == (folder / f"{one}.ini").read_bytes()
    assert not list(folder.glob(f".{out}*"))


def test_the_table_is_that_of_one_process(folder: Path, ray: Any) -> None:
    """On a cluster that is started for it, and ended; with a form that goes by all targets of a source."""
    (folder / "few.gz").write_bytes(gzip.compress(b"\n".join(itertools.islice(rows(), 3_000))))
    options = ("--columns", "sum,over-targets,unknown-words", "--model", "DIR/cslm")
    result = score(folder, "few", "here", *MODELS, *options)
    assert result.exit_code == 0, result.output
    result = score(folder, "few", "local", *MODELS, *options, "--ray", "local", "--workers", "2")
    assert result.exit_code == 0, result.output
    assert "3,000/3,000 (100%) rows" in result.stderr
    assert_equal(folder, "local", "here")
    assert not ray.is_initialized()


def test_what_a_killed_worker_had_is_scored_again(folder: Path, ray_address: str) -> None:
    driver = started_and_at_its_next_block(folder, "worker", ray_address, 2)
    os.kill(stopped_at_work(driver), signal.SIGKILL)
    _, said = driver.communicate(timeout=300)
    assert driver.returncode == 0, said
    assert "a worker was lost: what it had is done again" in said
    assert_equal(folder, "worker")


def test_a_run_continues_whose_driver_was_killed_and_whose_cluster_was_lost(
    folder: Path, start_ray_cluster: Callable[[int], Any]
) -> None:
    """Of a lost cluster nothing is left, the processes of its head neither."""
    cluster = start_ray_cluster(1)
    driver = started_and_at_its_next_block(folder, "lost", cluster.address, 1)
    worker = stopped_at_work(driver)
    driver.kill()
    driver.communicate(timeout=300)
    end(worker)
    n_first = rows_done(folder, "lost")
    driver = started_and_at_its_next_block(folder, "lost", cluster.address, 1)
    worker = stopped_at_work(driver)
    cluster.shutdown()
    end(worker)
    _, said = driver.communicate(timeout=300)
    assert driver.returncode == 1, said
    assert 0 < n_first < rows_done(folder, "lost") < N_ROWS
    assert score(folder, "table", "lost", *MODELS, "--resume").exit_code == 0
    assert_equal(folder, "lost")


def started_and_at_its_next_block(
    folder: Path, out: str, address: str, n_workers: int
) -> subprocess.Popen[str]:
    n_earlier = rows_done(folder, out)
    options = (*MODELS, "--ray", address, "--workers", str(n_workers), "--resume")
    command = arguments(folder, "table", out, *options)
    driver = subprocess.Popen(
        [sys.executable, "-m", "rescorer", *command], stderr=subprocess.PIPE, text=True
    )
    while rows_done(folder, out) == n_earlier:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.001)
    return driver


def rows_done(folder: Path, out: str) -> int:
    done = 0
    with contextlib.suppress(FileNotFoundError):
        state = json.loads((folder / f".{out}.gz.partial.json").read_bytes())
        done = state["progress"]["rows"]
    return done


def stopped_at_work(driver: subprocess.Popen[str]) -> int:
    """A worker that has not finished its block, as its name shows, and that will not."""
    while driver.poll() is None:
        for worker in workers_at_work():
            with contextlib.suppress(OSError):  # it has ended
                os.kill(worker, signal.SIGSTOP)
                while state(worker) not in "TZ":
                    time.sleep(0.001)
                if worker in workers_at_work():
                    return worker
                os.kill(worker, signal.SIGCONT)
    raise AssertionError(driver.communicate())


def end(worker: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)


def workers_at_work() -> list[int]:
    """Those of clusters that this process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if path.read_bytes().startswith(b"ray::_Worker.work"):
                number = int(path.parent.name)
                found += [number] if parent(parent(number)) == os.getpid() else []
    return found


def state(process: int) -> str:
    """As the kernel names it: "T" of a process that a signal has stopped."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", "2"), "--workers are those of a cluster: name one with --ray"),
        (("--ray", "127.0.0.1:1"), "no Ray cluster at 127.0.0.1:1"),
        (("--ray", "HERE", "--device", "cuda"), "the Ray cluster has no GPU to work with"),
    ],
)
def test_faults_of_the_command_line(
    folder: Path, ray_address: str, options: tuple[str, ...], message: str
) -> None:
    given = [ray_address if option == "HERE" else option for option in options]
    result = score(folder, "table", "fault", *MODELS, *given)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"error: {message}" in result.stderr
    assert not list(folder.glob("*fault*"))


def test_without_ray_it_is_said_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = score(folder, "table", "fault", *MODELS, "--ray", "local")
    expected = "rescorer: error: ray is not installed: pip install 'rescorer[cluster]'\n"
    assert (result.exit_code, result.stderr) == (1, expected)


@pytest.mark.parametrize(
    ("column", "fault", "found"),
    [
        (b"0.25", b"nothing", "the score 'nothing', expected a probability"),
        (b"w13 ", b"w13 " * 7, "8 words on the source side"),
    ],
    ids=["the driver finds it", "a worker finds it"],
)
def test_a_bad_row_has_its_line(
    folder: Path, ray_address: str, column: bytes, fault: bytes, found: str
) -> None:
    """How many words a phrase may have is known to the network alone."""
    words = Vocabulary(WORDS)
    shortlists = Shortlists(words, words)
    cstm = Cstm(CstmConfig(7, 4, 4, 4), len(words), len(words))
    save_model(folder / "cstm", "cstm", cstm, cstm.config, shortlists, {})
    table = gzip.decompress((folder / "table.gz").read_bytes()).split(b"\n")
    table[20_000] = table[20_000].replace(column, fault)
    (folder / "bad.gz").write_bytes(gzip.compress(b"\n".join(table)))
    options = ("--model", "DIR/cstm", "--ray", ray_address, "--workers", "1")
    result = score(folder, "bad", "out", *options)
    assert result.exit_code == 1
    assert f"bad.gz:20001: found {found}" in result.stderr
    assert not (folder / "out.gz").exists()


def test_a_model_travels_whole(tmp_path: Path) -> None:
    known = Vocabulary(WORDS[:30])
    network = EncoderDecoder(EncDecConfig(8, 4, 4), len(known), len(known))
    shortlists = Shortlists(known, known)
    save_model(tmp_path / "model", "encdec", network, network.config, shortlists, {})
    choice = ScorerChoice((tmp_path / "model",), None, None, 1, Compute(device="cpu"))
    (here,) = choice.named()
    files = packed(choice, [here])
    shutil.rmtree(tmp_path / "model")
    (there,) = files.named("cpu")
    pairs = Batch([b"w1 w2", b"w3", b"w4 w5"], [b"w6", b"w7 w8", b"w9"])
    assert there.name == here.name
    assert there.scorer.values(pairs).tolist() == here.scorer.values(pairs).tolist()
