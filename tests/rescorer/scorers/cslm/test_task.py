from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.data import Data
from rescorer.models.model_directory import load_model
from rescorer.runs.train import train
from rescorer.scorers.cslm.inference import cslm_scorer
from rescorer.scorers.cslm.network import CslmConfig
from rescorer.scorers.cslm.task import CslmTrainingConfig, prepare
from rescorer.training.loop import LoopConfig
from rescorer.windows.task import WindowTask

SIZES = CslmConfig(context_words=3, embedding_width=5, first_width=11, second_width=7)


def test_training_learns_a_fixed_sentence(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"a b c d\n" * 200)
    config = CslmTrainingConfig(
        n_held_out=20,
        batch_words=64,
        n_sampled=0,
        loop=LoopConfig(n_epochs=12, learning_rate=0.02, warmup_updates=5),
        model=SIZES,
    )
    report = train("cslm", Data(text), tmp_path / "model", config)
    loaded = load_model(tmp_path / "model")
    scorer = cslm_scorer(loaded, Compute(device="cpu"))
    known, other = scorer.values(Batch([b"", b""], [b"a b c d", b"d c b a"]))
    assert report.held_out_loss is not None
    assert report.held_out_loss < 0.1
    assert known > -0.5
    assert other < known - 5


def test_the_data_are_the_ngrams_of_whole_sentences(tmp_path: Path) -> None:
    """By falling frequency a, b, c: 2, 3, 4; x is rare; <s> is 5."""
    text = tmp_path / "text"
    text.write_bytes(b"a b c\n\na a b x\nc b a\n")
    config = CslmTrainingConfig(shortlist=3, n_held_out=0, model=CslmConfig(2, 3, 3, 3))
    prepared = prepare(Data(text), config, 1)
    assert prepared.shortlists.source is None
    assert prepared.shortlists.target.words[2:] == (b"a", b"b", b"c")
    assert isinstance(prepared.task, WindowTask)
    rows = [[5, 5, 2], [5, 2, 3], [2, 3, 4], [3, 4, 0], [5, 5, 2], [5, 2, 2], [2, 2, 3]]
    rows += [[2, 3, 1], [3, 1, 0], [5, 5, 4], [5, 4, 3], [4, 3, 2], [3, 2, 0]]
    assert prepared.task.train_rows.tolist() == rows


def test_sentences_are_held_out_whole(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"".join(b"w%d w%d\n" % (n, n) for n in range(40)))
    prepared = prepare(Data(text), CslmTrainingConfig(n_held_out=4, model=SIZES), 3)
    assert isinstance(prepared.task, WindowTask)
    known = set(prepared.task.train_rows[:, -1].tolist()) - {0}
    held_out = set(prepared.task.held_out_rows[:, -1].tolist()) - {0}
    assert (len(held_out), prepared.task.n_held_out) == (4, 12) and not known & held_out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_words": 0}, "batch_words is 0"),
        ({"n_held_out": -1}, "n_held_out is -1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"model": {"context_words": 0}}, "context_words is 0"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_mapping(CslmTrainingConfig, settings, "here")


def test_empty_text_is_an_error(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"\n \n")
    with pytest.raises(InputError, match="no sentence"):
        prepare(Data(text), CslmTrainingConfig(), 1)
