from __future__ import annotations

import gzip
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.cli import main
from rescorer.contract.architectures import load
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import Batch, Data
from rescorer.models.model_directory import load_model, scorer_of_model
from rescorer.pair_folds import Fold, folds_of
from rescorer.runs.train import train
from rescorer.training.folds import train_folds

PAIRS = [(f"s{n % 9} u{n % 4}".encode(), f"t{n % 11} v{n % 3}".encode()) for n in range(90)]
ASKED = Batch([s for s, _ in PAIRS], [t for _, t in PAIRS])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    path.write_bytes(b"".join(b"%s ||| %s ||| 0.5 0.25\n" % pair for pair in PAIRS))
    return path


def settings_of(name: str, **values: Any) -> Any:
    mapping = {"n_held_out": 4, "max_phrase_words": 2, "loop": {"n_epochs": 2}, **values}
    return from_mapping(load(name).settings, mapping, "the test")


@pytest.mark.parametrize("settings", [{}, {"max_pairs": 50}, {"reverse_sides": True}])
def test_no_pair_of_a_fold_is_learned_from(settings: dict[str, Any], table: Path) -> None:
    """And every other one is; all networks know the same words."""
    config, words = settings_of("encdec", **settings), set()
    folds = folds_of(*zip(*dict.fromkeys(PAIRS), strict=True), 3)
    sizes = []
    for number in range(3):
        prepared = load("encdec").prepare(Data(table, left_out=Fold(number, 3)), config, 1)
        task: Any = prepared.task
        data = task.pool(0).data
        sides = [prepared.shortlists.source, prepared.shortlists.target]
        found = [
            [b" ".join(side.words[i] for i in ids[:n]) for ids, n in zip(texts, lens, strict=True)]
            for side, texts, lens in (
                (sides[0], data.sources[data.groups], data.source_lens[data.groups]),
                (sides[1], data.targets, data.target_lens),
            )
        ]
        assert number not in folds_of(*found, 3)
        sizes.append(len(data))
        words.add(tuple(side.words for side in sides))
    assert len(words) == 1
    n_pairs = 50 if "max_pairs" in settings else len(folds)
    assert sum(sizes) == 2 * n_pairs
    if not settings:
        assert sizes == [int((folds != number).sum()) for number in range(3)]


def test_rows_have_the_values_of_the_network_that_has_not_seen_them(
    table: Path, tmp_path: Path
) -> None:
    reports = train_folds("encdec", Data(table), tmp_path / "m", settings_of("encdec"), 3)
    assert len(reports) == 3
    records = [load_model(tmp_path / f"m/fold{n}").description["training"] for n in range(3)]
    assert [tuple(record["left_out"].values()) for record in records] == [(0, 3), (1, 3), (2, 3)]
    assert len({record["data"] for record in records}) == 3
    folds = folds_of(ASKED.sources, ASKED.targets, 3)
    members = [scorer_of_model(tmp_path / f"m/fold{n}", Compute()).scorer for n in range(3)]
    by_network = np.array([member.values(ASKED) for member in members])
    named = scorer_of_model(tmp_path / "m", Compute())
    found = named.scorer.values(ASKED)
    np.testing.assert_allclose(found, by_network[folds, np.arange(len(PAIRS))], atol=1e-5)
    assert np.abs(np.diff(by_network, axis=0)).max() > 1e-3
    assert named.name == f"{tmp_path / 'm'}, each pair by the network of 3 that has not seen it"
    long = Batch([b"s1 u1 s1"], [b"t1"])
    expected = np.mean([member.values(long) for member in members])
    assert named.scorer.values(long)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["cstm", "bae", "cptm"])
def test_every_model_of_phrases_has_folds(name: str, table: Path, tmp_path: Path) -> None:
    train_folds(name, Data(table), tmp_path / "m", settings_of(name), 2)
    named = scorer_of_model(tmp_path / "m", Compute())
    assert np.isfinite(named.scorer.values(ASKED)).all()
    assert load(name).column_note in named.name


def test_a_finished_run_is_resumed_without_training(table: Path, tmp_path: Path) -> None:
    for resume in (False, True):
        reports = train_folds(
            "encdec", Data(table), tmp_path / "m", settings_of("encdec"), 2, resume
        )
        weights = [(tmp_path / f"m/fold{n}/model.safetensors").read_bytes() for n in (0, 1)]
        if not resume:
            first = reports, weights
    assert (reports, weights) == first


def test_the_command_trains_and_scores(table: Path, tmp_path: Path) -> None:
    out, scored = tmp_path / "m", tmp_path / "scored.gz"
    commands = [
        ["train", table, "--out", out, "--folds", "2", "--epochs", "1", "--hidden-width", "8"],
        ["score", table, "--model", out, "--out", scored],
    ]
    for command in commands:
        run = CliRunner().invoke(main, [str(word) for word in command])
        assert run.exit_code == 0, run.output
    lines = gzip.decompress(scored.read_bytes()).splitlines()
    rows = [line.split(b" ||| ")[2].split() for line in lines]
    expected = scorer_of_model(out, Compute()).scorer.values(ASKED)
    np.testing.assert_allclose([math.log(float(row[2])) for row in rows], expected, atol=1e-5)
    report = json.loads((tmp_path / "scored.gz.json").read_text())
    assert "that has not seen it" in json.dumps(report)


def test_what_has_no_folds_is_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cslm is trained on no phrase table: leave --folds out"):
        train_folds("cslm", Data(table), tmp_path / "m", None, 2)
    with pytest.raises(ConfigError, match=r"1 fold: .* so 2 are needed"):
        train_folds("encdec", Data(table), tmp_path / "m", settings_of("encdec"), 1)
    table.write_bytes(b"a ||| x ||| 0.5 0.25\n")
    fold = Fold(int(folds_of([b"a"], [b"x"], 2)[0]), 2)
    with pytest.raises(ConfigError, match=f"no pair is left without fold {fold.number}"):
        train("encdec", Data(table, left_out=fold), tmp_path / "m", settings_of("encdec"))


def test_a_directory_of_folds_is_no_model(table: Path, tmp_path: Path) -> None:
    train_folds("encdec", Data(table), tmp_path / "m", settings_of("encdec"), 2)
    with pytest.raises(
        InputError, match=r"found networks trained with folds.*name one, as .*fold0"
    ):
        load_model(tmp_path / "m")
    shutil.rmtree(tmp_path / "m/fold1")
    shutil.copytree(tmp_path / "m/fold0", tmp_path / "m/fold1")
    with pytest.raises(InputError, match="fold1: found another network than"):
        scorer_of_model(tmp_path / "m", Compute())
    (tmp_path / "m/folds.json").write_text("[]")
    with pytest.raises(InputError, match=r"folds\.json: found no networks"):
        scorer_of_model(tmp_path / "m", Compute())
