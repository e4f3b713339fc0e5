"""Damaged records of models, runs and tables, and settings: one line of error, no traceback, no hang."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from moses_bridge.base.config import from_mapping, load_toml
from moses_bridge.base.config_text import commented_toml
from moses_bridge.base.errors import UserError
from moses_bridge.base.steps import read_steps
from moses_bridge.formats.moses_ini import read_ini
from rescorer.contract.trained_model import TrainingRecord
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import load_model, save_model
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig, EncoderDecoder
from rescorer.tables.column import ColumnConfig
from rescorer.tables.partial_file import PartialFile
from rescorer.tables.record import Counts, RunRecord
from rescorer.training.log import LogRecord, TrainingLog
from rescorer.training.pairs.pair_cache import stored_pairs
from rescorer.training.pairs.phrase_pairs import PairChoice
from tests.fuzz.conftest import in_time
from tuning.compare.comparison import Comparison, Contrast, ResultRow, RunSummary, read_comparison
from tuning.loop.fingerprints import check_unchanged, fingerprint_ini
from tuning.loop.list_features import NBestFeature
from tuning.loop.run_directory import (
    Iteration,
    TuningRun,
    claim,
    load_run,
    read_optimised,
    save_run,
)
from tuning.loop.settings import TuningConfig
from tuning.report.page.learning_curve import read_learning_curve

WEIGHTS = {"Distortion0": [0.5], "LM0": [0.25]}
INI = "[feature]\nDistortion\nKENLM name=LM0 path=lm order=3\n[weight]\nDistortion0= 1\nLM0= 1\n"
DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
# What is put in the place of a value or beside it.
VALUES: tuple[Any, ...] = (
    *(
        [1],
        [],
        {},
        [[]],
        {"a": 1},
        None,
        True,
        False,
        "x",
        "",
        "a\0b",
        "a\nb",
        "../..",
        "/dev/zero",
    ),
    *(0, -1, 5, 2**31, 2**63, 2**64, 10**30, 10**400, 0.5, -0.0, float("inf"), float("nan"), DEEP),
)


def changed(value: Any, rng: Any) -> Any:
    """A JSON value with another one at a random place, or with a key or member more or less."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.2:
        return rng.choice(VALUES)
    copy: Any = value.copy()
    key = rng.choice(list(copy)) if isinstance(copy, dict) else rng.randrange(len(copy))
    kind = rng.random()
    if kind < 0.1:
        del copy[key]
    elif kind < 0.2 and isinstance(copy, dict):
        copy[rng.choice(("new", "a\nb", "", *copy))] = rng.choice(VALUES)
    else:
        copy[key] = changed(copy[key], rng)
    return copy


def damaged(text: bytes, mutator: Any) -> bytes:
    """A record with damaged values, or a text with damaged bytes."""
    rng = mutator.rng
    if rng.random() < 0.05:
        return bytes(rng.choice((b"[", b'{"a":', b"a = [", b"[a.", b"a.", b"9"))) * 100_000
    if rng.random() < 0.4 or not text.startswith((b"{", b"[\n")):
        return bytes(mutator.mutated(text.split(b"\n")))
    try:
        value = json.loads(text)
    except ValueError:  # lines of JSON
        lines = text.split(b"\n")
        lines[0] = json.dumps(changed(json.loads(lines[0]), rng)).encode()
        return b"\n".join(lines)
    return json.dumps(changed(value, rng)).encode()


def make_model(folder: Path) -> tuple[Path, Callable[[], object]]:
    source, target = Vocabulary([b"a", b"b"]), Vocabulary([b"x"])
    network = EncoderDecoder(EncDecConfig(7, 3, 2), len(source), len(target))
    training = {
        "config": {"reading": "as-is", "self_normalisation": 0.1, "loop": {"n_epochs": 1}},
        "report": {"log_z_mean": 0.5, "log_z_sd": 0.25, "ended": "x"},
    }
    shortlists = Shortlists(source, target)
    save_model(folder, "encdec", network, network.config, shortlists, training)

    def read() -> None:
        model = load_model(folder)
        assert isinstance(model.training, TrainingRecord)
        assert isinstance(model.network, torch.nn.Module)

    return folder / "config.json", read


def make_run(folder: Path) -> tuple[Path, Callable[[], object]]:
    (folder / "moses.ini").write_text(INI)
    (folder / "lm").write_bytes(b"")
    hashes = fingerprint_ini(read_ini(folder / "moses.ini"))
    iterations = [Iteration(WEIGHTS, 20.0, 1.0, 30.0, 21.0, [20.5], ["LM0_0"], [])] * 2
    run = TuningRun(str(folder / "moses.ini"), WEIGHTS, 20.0, 1, 100, {"stack_size": 5})
    run.decoder["neural_lm"] = ["A0=serve a"]
    run.nbest_features = [NBestFeature("RNN0", "score m")]
    run.iterations, run.hashes = iterations, hashes
    save_run(run, folder)

    def read() -> None:
        found = load_run(folder)
        assert found.commands() is not None and found.kept >= 0 and found.network is not None
        check_unchanged({folder: found})

    return folder / "weights.json", read


def make_claim(folder: Path) -> tuple[Path, Callable[[], object]]:
    made = {"files": {"ini": "0"}, "seed": 1, "start": WEIGHTS}
    claim(folder, made, resume=False)
    return folder / "run.json", lambda: claim(folder, made, resume=True)


def make_optimised(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "iter01.optimised.json"
    found = {"weights": WEIGHTS, "bleu": 20.0, "restarts": [20.0], "frozen": [], "trace": []}
    path.write_text(json.dumps(found))
    return path, lambda: read_optimised(path, WEIGHTS)


def make_ini(folder: Path) -> tuple[Path, Callable[[], object]]:
    _, read = make_run(folder)
    return folder / "moses.ini", read


def make_sidecar(folder: Path) -> tuple[Path, Callable[[], object]]:
    table = {"path": "t", "bytes": 5}
    scorers = (("m", "0"), ("n", "1"))
    run = RunRecord(
        "t", table, str(folder / "o"), scorers, ColumnConfig(), 4, True, Counts(9, (0, 1), 0)
    )
    run.write("rescorer score")
    return folder / "o.json", lambda: RunRecord.read(str(folder / "o"))


def make_partial(folder: Path) -> tuple[Path, Callable[[], object]]:
    with PartialFile(folder / "out", {"a": [1]}, resume=False) as file:
        file.append(b"abc", {"rows": 1})
    data = folder / ".out.partial"

    def read() -> None:
        data.write_bytes(b"abc")
        with PartialFile(folder / "out", {"a": [1]}, resume=True) as file:
            assert file.n_bytes in (0, 1, 2, 3) and file.progress["rows"] >= 0

    return folder / ".out.partial.json", read


def make_cache(folder: Path) -> tuple[Path, Callable[[], object]]:
    table = folder / "table"
    table.write_bytes(b"a b ||| x ||| 1\nb ||| y x ||| 1\n")
    stored_pairs(table, PairChoice(), folder / "cache")
    return folder / "cache" / "pairs.json", lambda: stored_pairs(
        table, PairChoice(), folder / "cache"
    )


def make_log(folder: Path) -> tuple[Path, Callable[[], object]]:
    log = TrainingLog(folder, -1, 0.0)
    for update in (1, 2):
        log.append(LogRecord(update, 0.5, 0.1, None, 3.5, 0.01))
    log.close()
    path = folder / "training.jsonl"
    text = path.read_bytes()

    def read() -> None:
        damage = path.read_bytes()
        try:
            read_learning_curve(folder)
        finally:
            TrainingLog(folder, 2, 0.0).close()
            path.write_bytes(damage if damage else text)

    return path, read


def make_steps(folder: Path) -> tuple[Path, Callable[[], object]]:
    step = {"name": "a", "command": "b", "version": "1", "started": "2020", "seconds": 1.5}
    step |= {"processor_seconds": 1.5, "peak_memory": 5, "status": 0, "machine": "m"}
    (folder / "steps").write_text(f"{json.dumps(step)}\n" * 2)
    return folder / "steps", lambda: read_steps(folder / "steps")


def make_table(folder: Path) -> tuple[Path, Callable[[], object]]:
    contrast = Contrast(0.5, (0.1, 0.9), 0.01, 0.02, 0.3, True)
    runs = [RunSummary("r", 2, 1, "end", True, 20.0, 19.0, [], [])]
    numbers = (20.0, None, 19.0, 0.5, contrast, None, 1, 1, None, 1.0, [50.0] * 4)
    row = ResultRow("s", *numbers, 0.5, 18.0, 40.0, 60.0, WEIGHTS, runs)
    (folder / "table.json").write_text(json.dumps(asdict(Comparison([row], "b", ["c"], 5))))
    return folder / "table.json", lambda: read_comparison(folder / "table.json")


def make_settings(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "tune.toml"
    path.write_text(commented_toml(TuningConfig()))
    return path, lambda: from_mapping(TuningConfig, load_toml(path), "file")


def make_training_settings(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "train.toml"
    path.write_text(commented_toml(EncDecTrainingConfig()))
    return path, lambda: from_mapping(EncDecTrainingConfig, load_toml(path), "file")


RECORDS = (
    *(make_model, make_run, make_claim, make_optimised, make_ini, make_sidecar, make_partial),
    *(make_cache, make_log, make_steps, make_table, make_settings, make_training_settings),
)


@pytest.mark.parametrize("make", RECORDS, ids=lambda make: make.__name__.removeprefix("make_"))
def test_damaged_records(
    make: Callable[[Path], tuple[Path, Callable[[], object]]],
    mutator: Any,
    n_cases: int,
    tell: Callable[[str, int], None],
    tmp_path: Path,
) -> None:
    path, read = make(tmp_path)
    text = path.read_bytes()
    kept = shutil.copytree(path.parent, tmp_path.with_name(f"{tmp_path.name}-whole"))
    read()
    outcomes: Counter[str] = Counter()
    for _ in range(max(20, -(-n_cases // len(RECORDS)))):
        damage = damaged(text, mutator)
        path.write_bytes(damage)
        with in_time(damage):
            try:
                read()
                outcomes["read"] += 1
            except UserError as error:
                assert "\n" not in str(error) and len(str(error)) < 3000
                outcomes["refused"] += 1
    tell({".toml": "TOML", ".ini": "moses.ini"}.get(path.suffix, "JSON"), outcomes.total())
    assert outcomes["refused"] > 0 or make is make_partial, outcomes
    path.write_bytes((kept / path.name).read_bytes())
    read()
