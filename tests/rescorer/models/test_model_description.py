"""The model card that a training leaves: what it says is what the training had."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError
from rescorer.cli import main
from rescorer.contract.training import Data
from rescorer.models.model_description import CARD, write_model_card
from rescorer.models.model_directory import fingerprint, load_model
from rescorer.runs.train import train
from rescorer.scorers.cslm import CslmConfig, CslmTrainingConfig
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig
from rescorer.training.loop_config import LoopConfig

ROWS = [f"s{n} ||| t{n % 3} ||| 0.5 ||| 0-0 ||| 1 1 1\n" for n in range(30)]
SETTINGS = {"n_held_out": 5, "loop": {"n_epochs": 1}, "model": {"hidden_width": 4}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Thirty distinct pairs, one of them twice."""
    path = tmp_path / "a table"
    path.write_text("".join([*ROWS, ROWS[-1]]))
    return path


def train_encdec(table: Path, out: Path) -> None:
    loop = LoopConfig(n_epochs=1, learning_rate=EncDecTrainingConfig().loop.learning_rate)
    settings = EncDecTrainingConfig(n_held_out=5, loop=loop, model=EncDecConfig(hidden_width=4))
    train("encdec", Data(table), out, settings)


def block(card: str, number: int) -> str:
    """The text of a block of code, its first line left out."""
    return card.split("```")[2 * number + 1].partition("\n")[2]


def test_it_has_data_numbers_settings_and_a_command_that_works(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train_encdec(table, tmp_path / "rnn")
    card = (tmp_path / "rnn" / CARD).read_text()
    assert card.startswith("# Model card: rnn\n\nA model of the architecture `encdec`, trained on ")
    digest = hashlib.sha256(table.read_bytes()).hexdigest()
    assert f"- Data: `a table`, SHA-256 {digest}\n" in card
    assert "- Number of distinct phrase pairs: 30\n" in card
    record = json.loads((tmp_path / "rnn" / "config.json").read_text())["training"]
    assert record["made"]["files"] == {"a table": digest} and record["n_pairs"] == 30
    assert f"- Held-out loss: {record['report']['held_out_loss']:.4f} nats per word" in card
    assert tomllib.loads(block(card, 0)) == SETTINGS

    command = block(card, 1).replace("phrase-table.gz", "'a table'")
    result = CliRunner().invoke(main, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "scored.gz").exists()


def test_a_table_whose_name_is_no_utf8_gives_a_model_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"t\xff")
    Path(name).write_text("".join(ROWS))
    settings = Path("config.toml")
    settings.write_text("n_held_out = 5\nloop.n_epochs = 1\nmodel.hidden_width = 4\n")
    command = ["train", name, "--out", "rnn", "--config", str(settings), "--device", "cpu"]
    result = CliRunner().invoke(main, command, prog_name="rescorer")
    assert result.exit_code == 0, result.output
    assert load_model(Path("rnn")).architecture == "encdec"
    assert b"- Data: `t\xff`, SHA-256 " in Path("rnn", CARD).read_bytes()


def test_a_language_model_is_a_feature_of_nbest_lists(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b\nb a\n" * 20)
    settings = CslmTrainingConfig(loop=LoopConfig(n_epochs=1), model=CslmConfig(2, 3, 4, 4))
    train("cslm", Data(tmp_path / "text"), tmp_path / "a model", settings)
    card = (tmp_path / "a model" / CARD).read_text()
    assert "- Number of sentences: 40\n" in card
    assert "rescorer nbest list.nbest --source source.txt --model 'a model' --feature" in card


def test_a_model_without_a_card_is_the_same_model(table: Path, tmp_path: Path) -> None:
    """As those of earlier versions, whose config.json does not say what made them either."""
    model = tmp_path / "rnn"
    train_encdec(table, model)
    before = fingerprint(model)
    (model / CARD).unlink()
    assert fingerprint(model) == before
    description = json.loads((model / "config.json").read_text())
    del description["training"]["made"], description["training"]["n_pairs"]
    (model / "config.json").write_text(json.dumps(description))
    assert load_model(model).architecture == "encdec"
    write_model_card(model, "encdec", description["training"])
    assert "- Version of rescorer: unknown\n" in (model / CARD).read_text()


@pytest.mark.parametrize(
    ("training", "line"),
    [
        ({}, "None.\n"),
        (
            {"expected_bleu": {"report": {"held_out_loss": -31.25, "n_updates": 1200}}},
            "- Fine-tuned for expected BLEU, 1,200 updates; held-out expected sentence BLEU 31.25 of 100\n",
        ),
        (
            {"expected_bleu": {"report": {"held_out_loss": None, "n_updates": 1}}},
            "- Fine-tuned for expected BLEU, 1 updates\n",
        ),
    ],
)
def test_what_a_record_may_have_or_lack(
    tmp_path: Path, training: dict[str, Any], line: str
) -> None:
    write_model_card(tmp_path, "encdec", training)
    assert line in (tmp_path / CARD).read_text()


def test_a_table_that_the_card_would_overwrite_is_refused(table: Path, tmp_path: Path) -> None:
    (tmp_path / "rnn").mkdir()
    inside = table.rename(tmp_path / "rnn" / CARD)
    with pytest.raises(ConfigError, match=r"model_card\.md"):
        train_encdec(inside, tmp_path / "rnn")
    assert inside.read_text().startswith(ROWS[0])
