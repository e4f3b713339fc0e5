from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.training import Data
from rescorer.models.model_directory import load_model, scorer_of_model
from rescorer.runs.train import train
from rescorer.scorers.rnnsearch import ARCHITECTURE, RnnSearch, RnnSearchTrainingConfig

SIZES = {"hidden_width": 24, "embedding_width": 12, "attention_width": 12, "maxout_width": 16}


def write_text(folder: Path, n_pairs: int = 300) -> Data:
    """The target repeats the source in other words and the other order."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(n_pairs):
        words = rng.integers(0, 6, rng.integers(2, 6)).tolist()
        rows.append((" ".join(f"t{w}" for w in words[::-1]), " ".join(f"s{w}" for w in words)))
    for name, column in zip(("target", "source"), zip(*rows, strict=True), strict=True):
        (folder / name).write_text("\n".join(column) + "\n")
    return Data(folder / "target", folder / "source")


def settings(**changes: Any) -> RnnSearchTrainingConfig:
    loop = {"n_epochs": 30, "learning_rate": 0.02, "warmup_updates": 5}
    mapping = {"n_held_out": 20, "batch_size": 128, "n_sampled": 0, "dropout": 0.0}
    return from_mapping(
        RnnSearchTrainingConfig, {**mapping, "model": SIZES, "loop": loop, **changes}, "the test"
    )


def test_attention_learns_to_read_backwards(tmp_path: Path) -> None:
    """Six equally likely words are log 6 = 1.79 nats; who sees the right source word needs hardly any."""
    report = train("rnnsearch", write_text(tmp_path), tmp_path / "m", settings())
    assert report.held_out_loss is not None and report.held_out_loss < 0.5
    scorer = scorer_of_model(tmp_path / "m", Compute()).scorer
    right, wrong = scorer.values(Batch([b"s1 s2"] * 2, [b"t2 t1", b"t1 t2"]))
    assert right > wrong + 2


@pytest.mark.parametrize("context", ["attention", "last-state"])
def test_the_papers_recipe(context: str, tmp_path: Path) -> None:
    changes = {"model": {**SIZES, "context": context}, "loop": {"recipe": "paper", "n_epochs": 2}}
    config = settings(batch_size=0, n_sampled=1000, **changes)
    prepared = ARCHITECTURE.prepare(write_text(tmp_path), config, 1)
    assert [len(batch.rows) for batch in prepared.task.batches(0)].count(80) == 3
    report = train("rnnsearch", write_text(tmp_path), tmp_path / "m", config)
    assert report.held_out_loss is not None and report.held_out_loss < np.log(8)
    assert load_model(tmp_path / "m").network.config.context == context


def test_dropout_is_off_in_held_out_losses_and_the_same_for_the_same_batch(tmp_path: Path) -> None:
    prepared = ARCHITECTURE.prepare(write_text(tmp_path), settings(dropout=0.5), 1)
    task, network = prepared.task, prepared.network
    assert isinstance(network, RnnSearch)
    first, second = task.batches(0)[:2]
    losses = [float(task.loss(batch)[0].detach()) for batch in (first, second, first)]
    assert losses[0] == losses[2] != losses[1]
    network.eval()
    with torch.no_grad():
        assert task.held_out_loss() == task.held_out_loss()
        assert float(task.loss(first)[0]) != losses[0]


@pytest.mark.parametrize(("lines", "message"), [
    (b"t1\n", r"source.*(lines|ends)|lines"),
    (b"", "no sentence pair|lines"),
])  # fmt: skip
def test_other_numbers_of_lines_are_refused(lines: bytes, message: str, tmp_path: Path) -> None:
    data = write_text(tmp_path, 10)
    (tmp_path / "target").write_bytes(lines)
    with pytest.raises(InputError, match=message):
        ARCHITECTURE.prepare(data, settings(), 1)


def test_only_longer_sentences_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="only longer sentences, expected pairs of at most 1 words"
    ):
        ARCHITECTURE.prepare(write_text(tmp_path), settings(max_sentence_words=1), 1)


def test_an_unknown_context_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="context"):
        settings(model={**SIZES, "context": "attentoin"})
