"""Networks that are trained further: what they keep, what they learn, what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.errors import ConfigError
from rescorer.contract.training import Data, Prepared
from rescorer.models.model_directory import load_model
from rescorer.runs.train import Start, train
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig
from rescorer.training.loop_config import LoopConfig

CONFIG = EncDecTrainingConfig(
    n_held_out=5, batch_pairs=8, loop=LoopConfig(n_epochs=3, learning_rate=0.01, warmup_updates=4)
)
SMALL = replace(CONFIG, model=EncDecConfig(hidden_width=7, embedding_width=5, maxout_width=3))


def write_table(path: Path, targets: str) -> Path:
    """Each of 30 sources has one of the targets; path is returned."""
    rows = [
        f"s{number} ||| {targets[number % len(targets)]} ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 2 2 1\n"
        for number in range(30)
    ]
    path.write_text("".join(rows))
    return path


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A network that knows the targets t, u and v."""
    table = write_table(tmp_path / "table", "tuv")
    train("encdec", Data(table), tmp_path / "first", SMALL)
    return tmp_path / "first"


def train_further(folder: Path, first: Path, config: Any = CONFIG, **options: Any) -> Path:
    """Of the new table one word is known and one not."""
    table = write_table(folder / "new table", "vw")
    train("encdec", Data(table), folder / "further", config, start=first, **options)
    return folder / "further"


def test_words_and_sizes_stay_and_the_new_pairs_are_learned(
    tmp_path: Path, first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    further = load_model(train_further(tmp_path, first))
    assert set(further.shortlists.target.words[2:]) == {b"t", b"u", b"v"}
    assert further.network.config == SMALL.model
    before = float(capsys.readouterr().err.split("held-out loss of ")[1].split(": ")[1].split()[0])
    training = further.description["training"]
    assert training["report"]["held_out_loss"] < before
    digest = Start.load(first, "encdec").digest
    assert training["start"] == digest
    assert digest in (tmp_path / "further" / "model_card.md").read_text()


def test_an_interrupted_one_continues_from_the_same_network_alone(
    tmp_path: Path, first: Path
) -> None:
    out = train_further(tmp_path, first)
    weights = (out / "model.safetensors").read_bytes()
    train_further(tmp_path, first, resume=True)
    assert (out / "model.safetensors").read_bytes() == weights
    with pytest.raises(ConfigError, match="start"):
        train_further(tmp_path, shutil.copytree(out, tmp_path / "other"), resume=True)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (replace(CONFIG, model=EncDecConfig(hidden_width=8)), "model is .*hidden_width=8"),
        (replace(CONFIG, reading="reversed-sides"), "reading is reversed-sides"),
    ],
)
def test_other_sizes_or_another_reading_are_refused(
    tmp_path: Path, first: Path, config: Any, found: str
) -> None:
    with pytest.raises(ConfigError, match=rf"{found}.*, expected that of .*leave the key out"):
        train_further(tmp_path, first, config)


def test_another_architecture_is_refused(tmp_path: Path, first: Path) -> None:
    with pytest.raises(ConfigError, match=r"'encdec', not 'word_pairs': add --arch encdec"):
        train("word_pairs", Data("any"), tmp_path / "further", CONFIG, start=first)


def test_other_texts_for_the_shortlists_are_refused(tmp_path: Path, first: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a b\n")
    data = Data(tmp_path / "table", texts=(text, text))
    with pytest.raises(ConfigError, match=r"shortlists are those of .*leave --texts out"):
        train("encdec", data, tmp_path / "further", CONFIG, start=first)


def test_the_first_network_is_not_overwritten(tmp_path: Path, first: Path) -> None:
    files = {path: path.read_bytes() for path in first.iterdir()}
    with pytest.raises(ConfigError, match="first"):
        train("encdec", Data(tmp_path / "table"), first, CONFIG, start=first)
    assert {path: path.read_bytes() for path in first.iterdir()} == files


def test_an_architecture_must_take_the_shortlists(tmp_path: Path, first: Path) -> None:
    start, other = Start.load(first, "encdec"), load_model(first)
    prepared = Prepared(other.network, None, other.shortlists, "")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'encdec' takes no shortlists from the data"):
        start.give_weights(prepared)
