"""Trainings from data to model directory: interrupted, continued, repeated, refused."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from pytest import MonkeyPatch

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.architectures import ARCHITECTURES, load
from rescorer.contract.trained_model import LOG_NAME, TRAINING_STATE
from rescorer.contract.training import Data
from rescorer.models.model_directory import load_model
from rescorer.runs import train as run
from rescorer.runs.train import train
from rescorer.scorers.cslm import CslmConfig, CslmTrainingConfig
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig, EncoderDecoder
from rescorer.training.loop import Trainer, TrainingReport
from rescorer.training.loop_config import LoopConfig
from rescorer.tries.task import TrieTask
from rescorer.windows.task import WindowTask
from tests.rescorer.plain_networks import log_probs

MODEL = EncDecConfig(hidden_width=7, embedding_width=5, maxout_width=3)


def write_table(folder: Path, n_sources: int = 30) -> Path:
    """Each source has two targets; s is translated as t or t t."""
    rows = [
        f"{'s' if number else 'q'}{number} ||| {target} ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 2 2 1"
        for number in range(n_sources)
        for target in (f"t{number % 7}", f"t{number % 7} t{number % 7}")
    ]
    path = folder / "table"
    path.write_text("\n".join(rows) + "\n")
    return path


SMALL = EncDecTrainingConfig(
    n_held_out=5,
    batch_pairs=8,
    loop=LoopConfig(n_epochs=3, learning_rate=0.01, warmup_updates=4),
    model=MODEL,
)


def train_encdec(
    table: Path, out: Path, config: EncDecTrainingConfig, resume: bool = False, seed: int = 1
) -> TrainingReport:
    return train("encdec", Data(table), out, config, resume, seed=seed)


def train_cslm(
    text: Path, out: Path, config: CslmTrainingConfig, resume: bool = False
) -> TrainingReport:
    return train("cslm", Data(text), out, config, resume)


def with_loop(config: EncDecTrainingConfig, **changes: Any) -> EncDecTrainingConfig:
    return dataclasses.replace(config, loop=dataclasses.replace(config.loop, **changes))


def weights_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_model(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    for name, seed in (("one", 5), ("same", 5), ("other", 6)):
        train_encdec(table, tmp_path / name, SMALL, seed=seed)
    assert weights_of(tmp_path / "one") == weights_of(tmp_path / "same")
    assert weights_of(tmp_path / "one") != weights_of(tmp_path / "other")


class Stop(Exception):
    """Somebody pulls the plug."""


def stop_after(n_updates: int, task: type[TrieTask] | type[WindowTask], patch: MonkeyPatch) -> None:
    """Let the loss of a later update fail."""
    calls = iter(range(n_updates))
    original = task.loss

    def loss(self: Any, batch: Any) -> Any:
        if next(calls, None) is None:
            raise Stop
        return original(self, batch)

    patch.setattr(task, "loss", loss)


def save_every(n_updates: int, patch: MonkeyPatch) -> None:
    """Let the state be saved behind some updates only, so that the others come again."""
    original = Trainer._save

    def save(self: Trainer[Any]) -> None:
        if self.report.n_updates % n_updates == 0:
            original(self)

    patch.setattr(Trainer, "_save", save)


def assert_same_training(one: Path, other: Path) -> None:
    """Equal weights; equal logs but for the minutes."""
    assert weights_of(one) == weights_of(other)
    logs = [[{**line, "minutes": 0} for line in read_log(folder)] for folder in (one, other)]
    assert logs[0] == logs[1]


Whole = tuple[Path, TrainingReport]


@pytest.fixture(scope="module")
def whole_training(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    """An uninterrupted training by each recipe, once: a directory that no test may change, and its report."""
    folder = tmp_path_factory.mktemp("whole")
    table = write_table(folder)

    @cache
    def make(recipe: str) -> Whole:
        config = with_loop(SMALL, checkpoint_minutes=0.0, recipe=recipe)
        return folder / recipe, train_encdec(table, folder / recipe, config)

    return make


@pytest.mark.parametrize(
    ("n_updates", "saved"), [(1, 1), (6, 1), (14, 1), (17, 1), (2, 5), (9, 4), (17, 6)]
)
@pytest.mark.parametrize("recipe", ["adam", "paper"])
def test_an_interrupted_training_continues_exactly(
    tmp_path: Path,
    monkeypatch: MonkeyPatch,
    whole_training: Callable[[str], Whole],
    n_updates: int,
    saved: int,
    recipe: str,
) -> None:
    config = with_loop(SMALL, checkpoint_minutes=0.0, recipe=recipe)
    table = write_table(tmp_path)
    directory, whole = whole_training(recipe)
    stop_after(n_updates, TrieTask, monkeypatch)
    save_every(saved, monkeypatch)
    with pytest.raises(Stop):
        train_encdec(table, tmp_path / "part", config)
    assert not (tmp_path / "part" / "model.safetensors").exists()
    monkeypatch.undo()
    continued = train_encdec(table, tmp_path / "part", config, resume=True)
    assert_same_training(tmp_path / "part", directory)
    assert continued.n_updates == whole.n_updates == 18
    assert continued.held_out_loss == whole.held_out_loss


def write_text(folder: Path) -> Path:
    text, rng = folder / "text", np.random.default_rng(1)
    words = [b"w%d" % number for number in rng.integers(0, 20, 300)]
    text.write_bytes(b"".join(b" ".join(words[i : i + 5]) + b"\n" for i in range(0, 300, 5)))
    return text


def cslm_config(n_sampled: int, dropout: float) -> CslmTrainingConfig:
    return CslmTrainingConfig(
        n_held_out=10,
        batch_words=50,
        n_sampled=n_sampled,
        dropout=dropout,
        loop=dataclasses.replace(SMALL.loop, checkpoint_minutes=0.0),
        model=CslmConfig(2, 4, 6, 5),
    )


@pytest.fixture(scope="module")
def whole_cslm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, float], Path]:
    """An uninterrupted training with such samples and dropout, once: a directory that no test may change."""
    folder = tmp_path_factory.mktemp("whole_cslm")
    text = write_text(folder)

    @cache
    def make(n_sampled: int, dropout: float) -> Path:
        out = folder / f"{n_sampled}-{dropout}"
        train_cslm(text, out, cslm_config(n_sampled, dropout))
        return out

    return make


@pytest.mark.parametrize(("n_sampled", "dropout"), [(0, 0.0), (4, 0.0), (4, 0.3)])
@pytest.mark.parametrize(("n_updates", "saved"), [(3, 1), (11, 4), (17, 6)])
def test_an_interrupted_language_model_continues_exactly(
    tmp_path: Path,
    monkeypatch: MonkeyPatch,
    whole_cslm: Callable[[int, float], Path],
    n_updates: int,
    saved: int,
    n_sampled: int,
    dropout: float,
) -> None:
    text, config = write_text(tmp_path), cslm_config(n_sampled, dropout)
    whole = whole_cslm(n_sampled, dropout)
    stop_after(n_updates, WindowTask, monkeypatch)
    save_every(saved, monkeypatch)
    with pytest.raises(Stop):
        train_cslm(text, tmp_path / "part", config)
    monkeypatch.undo()
    report = train_cslm(text, tmp_path / "part", config, resume=True)
    assert_same_training(tmp_path / "part", whole)
    assert report.n_updates == 18


def read_log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LOG_NAME).read_text().splitlines()]


def test_a_finished_training_is_not_repeated_but_may_go_on(tmp_path: Path) -> None:
    table, out = write_table(tmp_path), tmp_path / "m"
    first = train_encdec(table, out, SMALL)
    assert train_encdec(table, out, SMALL, resume=True) == first
    more = train_encdec(table, out, with_loop(SMALL, n_epochs=5), resume=True)
    assert more.n_epochs == 5
    assert more.n_updates == first.n_updates * 5 // 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("n_updates", [2, 12, 15])
def test_an_interrupted_training_leaves_a_model_and_continues_exactly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole_training: Callable[[str], Whole],
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    n_updates: int,
) -> None:
    table, out = write_table(tmp_path), tmp_path / "part"
    before = signal.signal(number, signal.default_int_handler)
    calls = itertools.count(1)
    original = TrieTask.loss

    def loss(self: Any, batch: Any) -> Any:
        if next(calls) == n_updates:
            os.kill(os.getpid(), number)
        return original(self, batch)

    monkeypatch.setattr(TrieTask, "loss", loss)
    try:
        with pytest.raises(KeyboardInterrupt):
            train_encdec(table, out, SMALL)
    finally:
        signal.signal(number, before)
    told = (
        f"{out}: interrupted after {n_updates} updates. The best weights so far are a whole model"
    )
    assert told in capsys.readouterr().err
    model = load_model(out)
    report = model.description["training"]["report"]
    assert (report["ended"], report["n_updates"]) == ("interrupted", n_updates)
    losses = [line["held_out_loss"] for line in read_log(out)]
    assert report["held_out_loss"] == min(losses) and len(losses) == -(-n_updates // 3)
    train_encdec(table, out, SMALL, resume=True)
    assert_same_training(out, whole_training("adam")[0])


def test_a_training_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    table, out = write_table(tmp_path), tmp_path / "m"
    train_encdec(table, out, SMALL)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(ConfigError, match=r"m: there is a training already. Continue it with --r"):
        train_encdec(tmp_path / "not read", out, SMALL)
    (out / "config.json").unlink()  # as an interrupted one leaves it
    with pytest.raises(ConfigError, match="with --resume, or replace it with --overwrite"):
        train_encdec(table, out, SMALL)
    (out / "config.json").write_bytes(before["config.json"])
    with pytest.raises(
        ConfigError, match=r"--resume continues .* --overwrite replaces it: give one"
    ):
        train("encdec", Data(table), out, SMALL, resume=True, overwrite=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    other = dataclasses.replace(SMALL, model=EncDecConfig(8, 5, 3))
    train("encdec", Data(table), out, other, overwrite=True)
    assert load_model(out).description["model"]["hidden_width"] == 8
    assert len(read_log(out)) == 6


@pytest.mark.parametrize("resume", [False, True])
def test_a_model_without_its_state_is_not_replaced_unless_asked(
    tmp_path: Path, resume: bool
) -> None:
    table, out = write_table(tmp_path), tmp_path / "m"
    train_encdec(table, out, SMALL)
    (out / TRAINING_STATE).unlink()
    weights = weights_of(out)
    with pytest.raises(ConfigError, match="a model without the state of its training"):
        train_encdec(table, out, SMALL, resume=resume)
    assert weights_of(out) == weights
    (tmp_path / "new").mkdir()
    train_encdec(table, tmp_path / "new", SMALL, resume=True)  # nothing there: it begins


def test_what_replaces_a_training_is_itself_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the earlier one is left, which would be taken for the new one."""
    table, out = write_table(tmp_path), tmp_path / "m"
    train_encdec(table, out, SMALL)
    stop_after(1, TrieTask, monkeypatch)
    with pytest.raises(Stop):
        train("encdec", Data(table), out, SMALL, overwrite=True)
    assert not {"model.safetensors", "config.json", TRAINING_STATE} & {
        path.name for path in out.iterdir()
    }


def test_compilation_is_told_as_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = load("encdec")

    def prepare(*given: Any) -> Any:
        numba.njit(lambda number: number + 1)(1)
        return entry.prepare(*given)

    monkeypatch.setattr(run, "load", lambda _: dataclasses.replace(entry, prepare=prepare))
    train_encdec(write_table(tmp_path), tmp_path / "m", SMALL)
    assert "compiling the reading of training data and the loops" in capsys.readouterr().err


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_architecture_plans_an_end(name: str) -> None:
    loop = load(name).settings().loop
    assert 1 <= loop.n_epochs <= 6 and loop.has_planned_end


@pytest.mark.parametrize(
    "config",
    [
        with_loop(SMALL, learning_rate=0.02),
        dataclasses.replace(SMALL, weighting="count"),
        dataclasses.replace(SMALL, model=EncDecConfig(8, 5, 3)),
    ],
)
def test_other_settings_do_not_continue(tmp_path: Path, config: EncDecTrainingConfig) -> None:
    table, out = write_table(tmp_path), tmp_path / "m"
    train_encdec(table, out, SMALL)
    with pytest.raises((ConfigError, InputError)):
        train_encdec(table, out, config, resume=True)


def test_other_data_of_the_same_size_do_not_continue(tmp_path: Path) -> None:
    table, out = write_table(tmp_path), tmp_path / "m"
    train_encdec(table, out, SMALL)
    rows = table.read_bytes().splitlines(keepends=True)
    table.write_bytes(b"".join(rows[1:] + rows[:1]))
    with pytest.raises(ConfigError, match="other settings or data"):
        train_encdec(table, out, SMALL, resume=True)


def test_a_language_model_may_go_on_with_its_own_text(tmp_path: Path) -> None:
    text, out = tmp_path / "text", tmp_path / "m"
    text.write_bytes(b"a b c\nb c a\n" * 10)
    config = CslmTrainingConfig(n_held_out=2, loop=SMALL.loop, model=CslmConfig(2, 4, 6, 5))
    train_cslm(text, out, config)
    longer = dataclasses.replace(config, loop=dataclasses.replace(SMALL.loop, n_epochs=5))
    assert train_cslm(text, out, longer, resume=True).n_epochs == 5
    text.write_bytes(b"b a c\nb c a\n" * 10)
    with pytest.raises(ConfigError, match="other settings or data"):
        train_cslm(text, out, longer, resume=True)


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    table, out = write_table(tmp_path), tmp_path / "m"
    train_encdec(table, out, SMALL)
    (out / TRAINING_STATE).write_bytes((out / TRAINING_STATE).read_bytes()[:99])
    with pytest.raises(InputError, match=TRAINING_STATE):
        train_encdec(table, out, SMALL, resume=True)


def test_learns_what_can_be_learned(tmp_path: Path) -> None:
    """Two targets for each source, equally frequent: no model is better than log 2 a pair."""
    config = dataclasses.replace(
        with_loop(SMALL, n_epochs=40, learning_rate=0.03),
        n_held_out=0,
        model=EncDecConfig(32, 16, 16),
    )
    table = write_table(tmp_path)
    report = train_encdec(table, tmp_path / "m", config)
    loaded = load_model(tmp_path / "m")
    assert report.held_out_loss is None
    assert isinstance(loaded.network, EncoderDecoder)
    assert loaded.shortlists.source is not None
    rows = [line.split(b" ||| ")[:2] for line in table.read_bytes().splitlines()]
    source = loaded.shortlists.source.encode_phrases([row[0] for row in rows])
    target = loaded.shortlists.target.encode_phrases([row[1] for row in rows])
    tensors = [torch.from_numpy(array.astype(np.int64)) for array in (*source, *target)]
    with torch.no_grad():
        loss = -log_probs(loaded.network, *tensors).mean().item()
    assert math.log(2) <= loss < math.log(2) + 0.05


def test_what_a_training_was_stands_in_its_directory(tmp_path: Path) -> None:
    report = train_encdec(write_table(tmp_path), tmp_path / "m", SMALL, seed=5)
    record = load_model(tmp_path / "m").description["training"]
    assert record["report"] == dataclasses.asdict(report)
    assert (record["seed"], record["loop"]["n_epochs"], record["config"]["batch_pairs"]) == (
        5,
        3,
        8,
    )
    assert record["held_out_words_per_pair"] in (2.0, 2.2, 2.4, 2.6, 2.8, 3.0)
    assert report.ended == "the planned passes or minutes are over"


def test_without_a_limit_it_trains_until_the_loss_stops_falling(tmp_path: Path) -> None:
    config = with_loop(SMALL, n_epochs=0, patience=4, learning_rate=0.03)
    report = train_encdec(write_table(tmp_path), tmp_path / "m", config)
    assert report.ended == "the held-out loss did not fall in 4 evaluations"
    losses = [line["held_out_loss"] for line in read_log(tmp_path / "m")]
    assert report.held_out_loss == min(losses) == losses[-5]
    assert report.n_epochs > 3


def test_a_training_without_an_end_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = dataclasses.replace(with_loop(SMALL, n_epochs=0), n_held_out=0)
    with pytest.raises(ConfigError, match=r"set loop\.n_epochs or loop\.max_minutes"):
        train_encdec(write_table(tmp_path), tmp_path / "m", config)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("arch", ["encdec", "cslm"])
@pytest.mark.parametrize("name", ["source", "links"])
def test_data_of_another_kind_are_refused(tmp_path: Path, arch: str, name: str) -> None:
    data = dataclasses.replace(Data(tmp_path / "d"), **{name: tmp_path / "other"})
    settings = SMALL if arch == "encdec" else CslmTrainingConfig()
    with pytest.raises(ConfigError, match=f"leave --{name} out"):
        train(arch, data, tmp_path / "m", settings)


@pytest.mark.parametrize(
    ("kind", "given", "option"),
    [
        ("parallel text", {}, "--source"),
        ("linked text", {}, "--source"),
        ("linked text", {"source": "s"}, "--links"),
    ],
)
def test_data_that_are_needed_are_asked_for(
    tmp_path: Path, monkeypatch: MonkeyPatch, kind: Any, given: dict[str, str], option: str
) -> None:
    entry = dataclasses.replace(run.load("encdec"), data=kind)
    monkeypatch.setattr(run, "load", lambda _: entry)
    with pytest.raises(ConfigError, match=f"trained on {kind}: name {option} too"):
        train("encdec", Data("d", **given), tmp_path / "m", SMALL)


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'encdec'"):
        train("encdek", Data("d"), tmp_path / "m", SMALL)


def test_shortlists_from_texts_are_kept_with_the_model(tmp_path: Path) -> None:
    texts = tmp_path / "text.s", tmp_path / "text.t"
    texts[0].write_text("s1 s1 s1 s2 s2 s3\n")
    texts[1].write_text("t1 t2 t1 t2 t3\n")
    table, out = write_table(tmp_path), tmp_path / "model"
    config = dataclasses.replace(SMALL, shortlist_coverage=0.8)
    data = Data(table, texts=texts)
    train("encdec", data, out, config)
    source, target = load_model(out).shortlists
    assert source is not None
    assert (source.words[2:], target.words[2:]) == ((b"s1", b"s2"), (b"t1", b"t2"))
    record = json.loads((out / "config.json").read_text())["training"]["shortlists"]
    assert record["source"] == {"words": 2, "covered": pytest.approx(5 / 6, abs=1e-6)}
    assert record["target"] == {"words": 2, "covered": 0.8}


def test_an_interrupted_training_does_not_continue_with_other_texts(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    texts = tmp_path / "text.s", tmp_path / "text.t"
    for text in texts:
        text.write_text("s1 t1\n")
    data = Data(write_table(tmp_path), texts=texts)
    config = with_loop(SMALL, checkpoint_minutes=0.0)
    with monkeypatch.context() as patch:
        stop_after(7, TrieTask, patch)
        with pytest.raises(Stop):
            train("encdec", data, tmp_path / "model", config)
    texts[1].write_text("t2 t1\n")
    with pytest.raises(ConfigError, match="data"):
        train("encdec", data, tmp_path / "model", config, resume=True)


def test_a_model_of_text_takes_no_other_texts(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a b\n")
    with pytest.raises(ConfigError, match="cslm is trained on text: leave --texts out"):
        train("cslm", Data(text, texts=(text, text)), tmp_path / "m", CslmTrainingConfig())
