"""Trainings of two processes on this machine, against those of one."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from moses_bridge.base.errors import ConfigError, UserError
from rescorer.contract.training import Data
from rescorer.models.model_directory import load_model
from rescorer.runs.train import train
from rescorer.scorers.cslm import CslmConfig, CslmTrainingConfig
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig
from rescorer.scorers.rnn_lm import RnnLmConfig, RnnLmTrainingConfig
from rescorer.scorers.rnnsearch import RnnSearchConfig, RnnSearchTrainingConfig
from rescorer.scorers.zoo.bae import BaeConfig, BaeTrainingConfig
from rescorer.scorers.zoo.cptm import CptmConfig, CptmTrainingConfig
from rescorer.scorers.zoo.cstm import CstmConfig, CstmTrainingConfig
from rescorer.training.loop_config import LoopConfig
from rescorer.training.peers import ALONE

N_UPDATES = 200
ROWS = 240


def loop(n_epochs: int, **others: Any) -> LoopConfig:
    return LoopConfig(
        n_epochs=n_epochs, evaluations_per_epoch=1000, patience=1000, learning_rate=0.01, **others
    )


SMALL = RnnSearchConfig(hidden_width=6, embedding_width=4, attention_width=5, maxout_width=3)
# 20 updates an epoch each, or some more; pairs in two pools; softmaxes over samples where there are any.
PAIRS = EncDecTrainingConfig(
    n_held_out=5,
    batch_pairs=11,
    pool_pairs=120,
    n_sampled=5,
    loop=loop(10),
    model=EncDecConfig(8, 6, 5),
)
WINDOWS = CslmTrainingConfig(
    n_held_out=4, batch_words=40, n_sampled=5, loop=loop(4), model=CslmConfig(2, 4, 6, 5)
)
TEXT = RnnLmTrainingConfig(
    n_held_out=4,
    batch_words=40,
    n_sampled=5,
    loop=loop(1),
    model=RnnLmConfig(hidden_width=6, embedding_width=4, factor_width=5),
)
SENTENCES = RnnSearchTrainingConfig(
    n_held_out=4, batch_size=40, n_sampled=5, dropout=0.0, loop=loop(1), model=SMALL
)
SIDES = CstmTrainingConfig(
    n_held_out=5,
    batch_pairs=11,
    reading="reversed-sides",
    loop=loop(1),
    model=CstmConfig(embedding_width=4, first_width=6, second_width=5),
)
BAGS = BaeTrainingConfig(n_held_out=5, batch_pairs=11, loop=loop(1), model=BaeConfig(6))
CONTRAST = CptmTrainingConfig(n_held_out=5, batch_pairs=11, loop=loop(1), model=CptmConfig(6, 6))
PAPER = EncDecTrainingConfig(
    n_held_out=5, loop=loop(2, recipe="paper", checkpoint_minutes=0.0), model=EncDecConfig(8, 6, 5)
)


def write_data(folder: Path) -> None:
    rng = np.random.default_rng(3)

    def phrase() -> str:
        return " ".join(f"w{n}" for n in rng.zipf(1.5, rng.integers(1, 6)) % 30)

    pairs = [(phrase(), phrase()) for _ in range(ROWS)]
    lines = {
        "table": [f"{s} ||| {t} ||| 1 1 1 1 ||| 0-0 ||| 1 1 {len(s) % 3 + 1}" for s, t in pairs],
        "other": [f"{t} ||| {s} ||| 1 1 1 1" for s, t in pairs],
        "source": [source for source, _ in pairs],
        "target": [target for _, target in pairs],
        "toml": ["n_held_out = 5", "[model]", "hidden_width = 8", "embedding_width = 4"],
    }
    for name, texts in lines.items():
        (folder / name).write_text("\n".join(texts) + "\n")


def case(name: str, folder: Path, out: Path, rank: int = 0) -> tuple[Any, ...]:
    """Architecture, data, settings."""
    texts = Data(folder / "target", folder / "source")
    only_first = Data(folder / ("table" if rank == 0 else "no such file"))
    cases: dict[str, tuple[Any, ...]] = {
        "pairs": ("encdec", Data(folder / "table", cache=out.parent / "cache"), PAIRS),
        "windows": ("cslm", Data(folder / "target"), WINDOWS),
        "text": ("rnn_lm", Data(folder / "target"), TEXT),
        "sentences": ("rnnsearch", texts, SENTENCES),
        "sides": ("cstm", Data(folder / "table"), SIDES),
        "bags": ("bae", Data(folder / "table"), BAGS),
        "contrast": ("cptm", Data(folder / "table"), CONTRAST),
        "half": ("encdec", Data(folder / "table"), PAPER),
        "disagree": ("encdec", Data(folder / ("table", "other")[rank]), PAPER),
        "missing": ("encdec", only_first, PAPER),
        "small": ("encdec", Data(folder / "table"), EncDecTrainingConfig(batch_pairs=1)),
    }
    return cases[name]


def losses_of(model: Path) -> list[float]:
    lines = map(json.loads, (model / "training.jsonl").read_text().splitlines())
    return [line["training_loss"] for line in lines]


WORK = """
import importlib.util, json, os, sys
from pathlib import Path
import torch
from moses_bridge.base.errors import UserError
from rescorer.cli import main
from rescorer.training.peers import peers_on
from rescorer.runs.train import train

command = ["train", f"{sys.argv[2]}/table", "--out", f"{sys.argv[2]}/model", "--epochs", "2"]
main([*command, "--config", f"{sys.argv[2]}/toml"], standalone_mode=False)
os.environ["MASTER_PORT"] = os.environ["OTHER_PORT"]
spec = importlib.util.spec_from_file_location("test_peers", sys.argv[1])
tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tests)
folder, ended = Path(sys.argv[2]), {}
with peers_on(torch.device("cpu")) as (peers, device):
    names = "pairs windows text sentences sides bags contrast half disagree missing small"
    for name in names.split():
        out = folder / "two" / name
        try:
            train(*tests.case(name, folder, out, peers.rank)[:2], out,
                  tests.case(name, folder, out, peers.rank)[2], peers=peers)
            ended[name] = "trained"
        except UserError as error:
            ended[name] = str(error)
        except SystemExit as end:
            ended[name] = f"exit {end.code}"
(folder / f"ended{peers.rank}").write_text(json.dumps(ended))
"""


def start(rank: int, ports: list[str], *command: str) -> subprocess.Popen[str]:
    """One of two processes, as torchrun starts it."""
    place = {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": "2"}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[0], "OTHER_PORT": ports[1]}
    return subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **place, **meeting, "OMP_NUM_THREADS": "1"},
        stderr=-1,
        text=True,
    )


def free_ports(n_ports: int) -> list[str]:
    """Of those that the system gives to nobody who asks for any: they are still free seconds later."""
    free = list[str]()
    for port in random.SystemRandom().sample(range(20_000, 32_000), 1000):
        if len(free) == n_ports:
            break
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            free.append(str(port))
    return free


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which two processes have trained."""
    folder = tmp_path_factory.mktemp("peers")
    write_data(folder)
    ports = free_ports(2)
    both = [start(rank, ports, "-c", WORK, __file__, str(folder)) for rank in range(2)]
    try:
        errors = [process.communicate(timeout=500)[1] for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert [process.returncode for process in both] == [0, 0], errors
    for rank, said in enumerate(errors):
        (folder / f"said{rank}").write_text(said)
    return folder


def ended(folder: Path, rank: int, name: str) -> str:
    return str(json.loads((folder / f"ended{rank}").read_text())[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pairs", "windows", "text", "sentences", "sides", "bags", "contrast"]
)
def test_two_processes_make_the_updates_of_one(worked: Path, name: str) -> None:
    architecture, data, settings = case(name, worked, worked / "one" / name)
    train(architecture, data, worked / "one" / name, settings)
    one, two = (losses_of(worked / folder / name) for folder in ("one", "two"))
    assert len(one) == len(two) >= (N_UPDATES if name == "pairs" else 20)
    np.testing.assert_allclose(two, one, atol=1e-4, rtol=0)
    assert np.mean(one[-5:]) < np.mean(one[:5])
    assert sorted(
        path.name for path in (worked / "two" / name).iterdir() if "tfevents" not in path.name
    ) == [
        *sorted(
            path.name for path in (worked / "one" / name).iterdir() if "tfevents" not in path.name
        )
    ]


@pytest.mark.slow
def test_one_process_continues_what_two_have_begun(worked: Path) -> None:
    architecture, data, settings = case("half", worked, worked)
    longer = EncDecTrainingConfig(
        n_held_out=5, loop=loop(4, recipe="paper", accumulation=3), model=settings.model
    )
    whole, continued = worked / "whole", worked / "two" / "half"
    report = train(architecture, data, whole, longer)
    again = train(architecture, data, continued, longer, resume=True)
    assert again.n_updates == report.n_updates
    np.testing.assert_allclose(losses_of(continued), losses_of(whole), atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("disagree", "process 1 of 2 has data or settings unlike those of process 0"),
        ("missing", "process 1 of 2: "),
        ("small", "a batch of 1 cannot be cut into 2 parts"),
    ],
)
def test_one_process_tells_what_is_wrong(worked: Path, name: str, message: str) -> None:
    assert message in ended(worked, 0, name)
    assert ended(worked, 1, name) == "exit 1"
    assert not (worked / "two" / name / "model.safetensors").exists()


@pytest.mark.slow
def test_the_command_speaks_and_writes_once(worked: Path) -> None:
    assert "train: " in (worked / "said0").read_text() and (worked / "said1").read_text() == ""
    assert load_model(worked / "model").description["training"]["report"]["n_epochs"] == 2


@pytest.mark.parametrize(
    ("name", "n_parts"), [("pairs", 3), ("windows", 3), ("text", 3), ("sentences", 4)]
)
def test_parts_one_after_another_are_the_same_update(
    tmp_path: Path, name: str, n_parts: int
) -> None:
    write_data(tmp_path)
    architecture, data, settings = case(name, tmp_path, tmp_path / "m")
    losses = []
    for accumulation in (1, n_parts):
        changed = loop(1, accumulation=accumulation)
        out = tmp_path / f"{accumulation}"
        train(architecture, data, out, type(settings)(**{**vars(settings), "loop": changed}))
        losses.append(losses_of(out))
    assert len(losses[0]) >= 20
    np.testing.assert_allclose(losses[1], losses[0], atol=1e-4, rtol=0)


def test_one_alone_talks_to_nobody() -> None:
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    ALONE.sum_gradients(layer.parameters())
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[1.0, 1.0]]
    assert (ALONE.sum(2.5), ALONE.first(3.5), ALONE.is_first) == (2.5, 3.5, True)
    assert ALONE.together(lambda: 7, first_alone=True) == 7
    ALONE.agree("anything", "a value")
    with pytest.raises(ConfigError, match="broken"), ALONE.only_first_reports_errors():
        raise ConfigError("broken")


def test_more_parts_than_a_batch_has_items_are_refused(tmp_path: Path) -> None:
    write_data(tmp_path)
    config = EncDecTrainingConfig(batch_pairs=4, loop=loop(1, accumulation=5))
    with pytest.raises(UserError, match="a batch of 4 cannot be cut into 5 parts"):
        train("encdec", Data(tmp_path / "table"), tmp_path / "m", config)
