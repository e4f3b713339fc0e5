"""Logs of trainings, and the networks of a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moses_bridge.base.errors import InputError
from rescorer.training.log import LogRecord, TrainingLog
from tuning.loop.list_features import NBestFeature
from tuning.loop.run_directory import TuningRun
from tuning.report.page.learning_curve import (
    LearningCurve,
    LogPoint,
    learning_charts,
    networks_of_runs,
    read_learning_curve,
)

if TYPE_CHECKING:
    from tests.tuning.report.page.conftest import Maker


def test_it_reads_what_a_training_writes(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path, -1, 0.0)
    log.append(LogRecord(0, 0.0, 0.0, None, 6.5, 0.01))
    log.append(LogRecord(10, 0.5, 1.25, 5.0, None, 0.01))
    log.close()
    curve = read_learning_curve(tmp_path)
    assert [(each.update, each.training_loss) for each in curve.points] == [(0, None), (10, 5.0)]
    assert (curve.points[1].epoch, curve.points[1].minutes, curve.last_loss) == (0.5, 1.25, 6.5)
    assert curve.architecture == ""


def test_a_last_line_that_is_being_written_is_left_out(maker: type[Maker], tmp_path: Path) -> None:
    network = maker.network(tmp_path, "cslm")
    with (network / "training.jsonl").open("a") as stream:
        stream.write('{"update": 5')
    curve = read_learning_curve(network)
    assert (len(curve.points), curve.architecture) == (5, "cslm")


NO_TIME = '{"update": 1, "epoch": 1, "minutes": NaN, "training_loss": 1, "held_out_loss": 1}'


@pytest.mark.parametrize("line", ["{}", "[]", "nothing", '{"update": "x"}', NO_TIME])
def test_another_line_is_refused_with_its_number(
    maker: type[Maker], tmp_path: Path, line: str
) -> None:
    network = maker.network(tmp_path, "cslm")
    with (network / "training.jsonl").open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(InputError, match=r"training.jsonl:6: .*expected what rescorer train logs"):
        read_learning_curve(network)


def test_losses_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "training.jsonl").write_text(
        '{"update": 1, "epoch": 1, "minutes": 1, "training_loss": NaN, "held_out_loss": Infinity}\n'
    )
    (point,) = read_learning_curve(tmp_path).points
    assert (point.training_loss, point.held_out_loss) == (None, None)


def test_networks_are_found_in_commands_and_beside_tables(
    maker: type[Maker], tmp_path: Path
) -> None:
    cslm, nnjm, encdec = (maker.network(tmp_path, name) for name in ("cs=lm", "nn jm", "encdec"))
    table = tmp_path / "phrase-table.gz"
    ini = tmp_path / "moses.ini"
    ini.write_text(
        f"[feature]\nPhraseDictionaryMemory name=T0 num-features=5 path={table}\n"
        "[weight]\nT0= 1 1 1 1 1\n"
    )
    command = f"rescorer score x --model {encdec} --out {table}"
    Path(f"{table}.json").write_text(json.dumps({"command": command}))
    feature = NBestFeature("CSLM0", f"rescorer nbest {{nbest}} --model={cslm} --out {{out}}")
    decoder = {"neural_lm": [f"NNJM0=rescorer serve '{nnjm}' --unnormalized"]}
    run = TuningRun(str(ini), {}, 0.0, 1, 100, decoder, [feature])
    (tmp_path / "link").symlink_to(cslm)
    linked = NBestFeature("CSLM0", f"rescorer nbest {{nbest}} --model={tmp_path}/link {{out}}")
    again = TuningRun(f"{tmp_path}/none.ini", {}, 0.0, 2, 100, {}, [linked])
    found = networks_of_runs([run, again])
    assert [os.path.basename(path) for path in found] == ["cs=lm", "nn jm", "encdec"]


def test_a_curve_says_the_last_loss_and_the_architecture_where_the_name_does_not() -> None:
    points = [LogPoint(0, 0.0, 0.0, None, 6.5), LogPoint(10, 1.5, 2.0, 5.0, 4.3216)]
    curves = {name: LearningCurve(Path(name), "cslm", points) for name in ("net", "cslm")}
    first, second = learning_charts(curves | {"none": LearningCurve(Path("none"), "", [])})[:2]
    assert (first.title, second.title) == ("net (cslm)", "cslm")
    assert first.note == "Held out at the end: 4.322 nats per word."
    rows = first.spec["data"]["values"]
    assert [(row["loss"], row["nats"], row["epoch"]) for row in rows] == [
        ("held out", 6.5, 0.0),
        ("training", 5.0, 1.5),
        ("held out", 4.3216, 1.5),
    ]
