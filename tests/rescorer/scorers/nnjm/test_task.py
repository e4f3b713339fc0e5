from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.training import Data
from rescorer.models.model_directory import load_model, scorer_of_model
from rescorer.runs.agreement import agreement
from rescorer.runs.train import train
from rescorer.scorers.nnjm import Nnjm, NnjmConfig, NnjmTrainingConfig, prepare

SIZES = {"history_words": 1, "source_words": 3, "embedding_width": 7, "first_width": 11}


def write_text(folder: Path, n_pairs: int = 300) -> Data:
    """The target repeats the source in other words and the other order: only the links tell which is which."""
    rng = np.random.default_rng(1)
    paths = [folder / name for name in ("target", "source", "links")]
    rows = []
    for _ in range(n_pairs):
        words = rng.integers(0, 6, rng.integers(2, 6)).tolist()
        links = " ".join(f"{i}-{len(words) - 1 - i}" for i in range(len(words)))
        rows.append(
            (" ".join(f"t{w}" for w in words[::-1]), " ".join(f"s{w}" for w in words), links)
        )
    for path, column in zip(paths, zip(*rows, strict=True), strict=True):
        path.write_text("\n".join(column) + "\n")
    return Data(*paths)


def settings(**changes: object) -> NnjmTrainingConfig:
    loop = {"n_epochs": 30, "learning_rate": 0.02, "warmup_updates": 5}
    mapping = {"n_held_out": 20, "batch_words": 128, "n_sampled": 0, "model": SIZES, "loop": loop}
    return from_mapping(NnjmTrainingConfig, {**mapping, **changes}, "the test")


def test_the_linked_source_word_tells_the_target_word(tmp_path: Path) -> None:
    """Six equally likely words are log 6 = 1.79 nats; who sees the linked word needs hardly any."""
    report = train("nnjm", write_text(tmp_path), tmp_path / "m", settings())
    assert report.held_out_loss is not None and report.held_out_loss < 0.2
    scorer = scorer_of_model(tmp_path / "m", Compute()).scorer
    right, wrong = scorer.values(Batch([b"s1 s2"] * 2, [b"t2 t1", b"t1 t2"], [b"0-1 1-0"] * 2))
    assert right > wrong + 3


def test_raw_scores_are_near_the_exact_ones(tmp_path: Path) -> None:
    train("nnjm", write_text(tmp_path), tmp_path / "m", settings(self_normalisation=0.1))
    links = b"0-2 1-1 2-0"
    batch = Batch([b"s1 s2 s5", b"s3 s3 s0"], [b"t5 t2 t1", b"t0 t3 t3"], [links, links])
    found = agreement(load_model(tmp_path / "m"), batch, Compute())
    assert found.mean_abs_log_total < 0.15
    assert found.mean_difference < 0.5


def test_log_z_of_held_out_words_stands_with_the_model(tmp_path: Path) -> None:
    report = train("nnjm", write_text(tmp_path), tmp_path / "m", settings(self_normalisation=0.1))
    model = load_model(tmp_path / "m")
    assert model.training.log_z == (report.log_z_mean, report.log_z_sd)
    assert abs(model.training.log_z.mean) < 0.1 and 0 < model.training.log_z.sd < 0.3
    other = train("nnjm", write_text(tmp_path), tmp_path / "n", settings())
    assert other.log_z_mean is None and load_model(tmp_path / "n").training.log_z is None


def test_a_new_network_is_even_where_it_shall_be_normalised(tmp_path: Path) -> None:
    """The output bias is -log V, so the denominator of nearly equal logits is nearly 1."""
    network = prepare(write_text(tmp_path), settings(self_normalisation=0.1), 1).network
    assert isinstance(network, Nnjm)
    bias = network.output.bias.detach().numpy()
    np.testing.assert_allclose(log_softmax(np.zeros(len(bias))), bias, atol=1e-6)


def test_an_even_number_of_source_words_is_refused() -> None:
    with pytest.raises(ConfigError, match="source_words is 4, expected an odd number"):
        NnjmConfig(source_words=4)


def test_links_of_another_text_are_told(tmp_path: Path) -> None:
    data = write_text(tmp_path, 3)
    (tmp_path / "links").write_text("0-0\n9-0\n0-0\n")
    with pytest.raises(
        InputError, match=r"links:2: found the link 9-0 of the pair .*Are these the links"
    ):
        prepare(data, settings(), 1)


def test_fewer_links_than_sentences_are_told(tmp_path: Path) -> None:
    data = write_text(tmp_path, 3)
    (tmp_path / "links").write_text("0-0\n")
    with pytest.raises(InputError, match=r"links:2: found the end of the file"):
        prepare(data, settings(), 1)
