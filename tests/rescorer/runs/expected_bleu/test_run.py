from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from moses_bridge.base.errors import ConfigError
from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Device
from rescorer.contract.compute import Compute
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import load_model, save_model, scorer_of_model
from rescorer.runs.expected_bleu.run import ListText, train_for_expected_bleu
from rescorer.runs.expected_bleu.task import ExpectedBleuConfig
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.training import loop as loop_module
from rescorer.training.loop import LoopConfig, TrainingReport
from rescorer.zoo.bae.network import Bae, BaeConfig
from rescorer.zoo.cptm.network import Cptm, CptmConfig

N = 40
CONFIG = ExpectedBleuConfig(
    column_weight=0.5,
    sharpness=3.0,
    lists_per_update=8,
    n_held_out=4,
    loop=LoopConfig(n_epochs=15, learning_rate=0.02, evaluations_per_epoch=1, checkpoint_minutes=0),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Lists in which the other features prefer the wrong translation of a word, and a contrastive model."""
    torch.manual_seed(1)
    shortlists = Shortlists(Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"]))
    network = Cptm(CptmConfig(hidden_width=5, code_width=5), 6)
    save_model(tmp_path / "m", "cptm", network, network.config, shortlists, {"seed": 7})
    rng = np.random.default_rng(1)
    texts = [list(rng.choice(["a", "b"], 4)) for _ in range(N)]
    lines = []
    for number, words in enumerate(texts):
        right = " ".join({"a": "x", "b": "y"}[word] for word in words)
        wrong = right.translate(str.maketrans("xy", "yx"))
        for total, target in ((-1.0, wrong), (-1.2, right)):
            spans = "0=0 1=1 2=2 3=3"
            lines.append(f"{number} ||| {target}  ||| LM0= {total} ||| {total} ||| {spans}\n")
    (tmp_path / "nbest").write_text("".join(lines))
    (tmp_path / "source").write_text("".join(" ".join(words) + "\n" for words in texts))
    answers = ["".join(words).translate(str.maketrans("ab", "xy")) for words in texts]
    (tmp_path / "reference").write_text("".join(" ".join(answer) + "\n" for answer in answers))
    return tmp_path


def text_of(folder: Path) -> ListText:
    return ListText(folder / "nbest", folder / "source", [folder / "reference"])


def test_right_phrases_rise_above_wrong_ones(device: Device, folder: Path) -> None:
    given = folder / "m", text_of(folder), folder / "n", CONFIG
    before, report = train_for_expected_bleu(*given, device=device)
    assert before is not None and report.held_out_loss is not None
    assert before > -70 and report.held_out_loss < -90
    values = scorer_of_model(folder / "n", Compute()).scorer.values(
        Batch([b"a", b"a", b"b", b"b"], [b"x", b"y", b"y", b"x"])
    )
    assert values[0] > values[1] + 0.1 and values[2] > values[3] + 0.1


@pytest.mark.parametrize("reverse", [False, True])
def test_an_encoder_decoder_learns_the_same(reverse: bool, device: Device, folder: Path) -> None:
    """One that predicts the source is asked for the pairs with their sides swapped."""
    words = [Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"])]
    shortlists = Shortlists(*(words[::-1] if reverse else words))
    network = EncoderDecoder(EncDecConfig(6, 5, 4), 4, 4)
    network.initialise(None)
    training = {"config": {"reverse_sides": reverse}}
    save_model(folder / "e", "encdec", network, network.config, shortlists, training)
    given = folder / "e", text_of(folder), folder / "n", CONFIG
    _, report = train_for_expected_bleu(*given, device=device)
    assert report.held_out_loss is not None and report.held_out_loss < -90
    values = scorer_of_model(folder / "n", Compute()).scorer.values(
        Batch([b"a", b"a", b"b", b"b"], [b"x", b"y", b"y", b"x"])
    )
    assert values[0] > values[1] + 0.1 and values[2] > values[3] + 0.1


def test_products_have_the_type_of_the_settings_but_not_in_held_out_losses(folder: Path) -> None:
    torch.manual_seed(1)
    shortlists = Shortlists(Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"]))
    network = EncoderDecoder(EncDecConfig(6, 5, 4), 4, 4)
    save_model(folder / "e", "encdec", network, network.config, shortlists, {})
    before, weights = set(), []
    for name in ("float32", "bfloat16"):
        loop = replace(CONFIG.loop, n_epochs=1, product_type=name)
        config = replace(CONFIG, loop=loop)
        first, _ = train_for_expected_bleu(folder / "e", text_of(folder), folder / name, config)
        before.add(first)
        weights.append(load_file(folder / name / "model.safetensors")["output.weight"])
    assert len(before) == 1
    assert not torch.equal(*weights)
    torch.testing.assert_close(*weights, rtol=0, atol=0.03)


def test_the_record_has_both_trainings(folder: Path) -> None:
    first = (folder / "m/model.safetensors").read_bytes()
    before, report = train_for_expected_bleu(folder / "m", text_of(folder), folder / "n", CONFIG)
    assert (folder / "m/model.safetensors").read_bytes() == first
    training = load_model(folder / "n").description["training"]
    assert training["seed"] == 7
    record = training["expected_bleu"]
    assert record["config"]["column_weight"] == 0.5 and record["loop"]["n_epochs"] == 15
    assert record["held_out_loss_before"] == before
    assert record["report"]["held_out_loss"] == report.held_out_loss


class Stopped(Exception):
    pass


def test_an_interrupted_training_ends_as_an_uninterrupted_one(
    device: Device, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(name: str, resume: bool = False) -> tuple[float | None, TrainingReport]:
        given = folder / "m", text_of(folder), folder / name, CONFIG, resume
        return train_for_expected_bleu(*given, device=device)

    whole = trained("whole")
    update, done = loop_module.Trainer._update, []

    def stopping(self: Any, asked: Any) -> float:
        if len(done) == 7:
            raise Stopped
        done.append(asked)
        return update(self, asked)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module.Trainer, "_update", stopping)
        with pytest.raises(Stopped):
            trained("part")
    assert not (folder / "part/model.safetensors").exists()
    again = trained("part", resume=True)
    assert again[0] == whole[0] and replace(again[1], minutes=0) == replace(whole[1], minutes=0)
    one, other = (load_file(folder / part / "model.safetensors") for part in ("whole", "part"))
    for key, tensor in one.items():
        torch.testing.assert_close(other[key], tensor, rtol=0, atol=0)
    with pytest.raises(ConfigError, match="other settings or data"):
        train_for_expected_bleu(
            folder / "m", text_of(folder), folder / "part", replace(CONFIG, sharpness=4.0), True
        )


def test_what_cannot_be_trained_so_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="the model is read from there"):
        train_for_expected_bleu(folder / "m", text_of(folder), folder / "m", CONFIG)
    shortlists = load_model(folder / "m").shortlists
    bae = Bae(BaeConfig(3), 4, 4)
    save_model(folder / "bae", "bae", bae, bae.config, shortlists, {})
    with pytest.raises(ConfigError, match=r"a bae, which has no values .*: take a model of .*cptm"):
        train_for_expected_bleu(folder / "bae", text_of(folder), folder / "n", CONFIG)
    assert not (folder / "n").exists()


def command(folder: Path, *options: str) -> Any:
    paths = [str(folder / name) for name in ("m", "nbest")]
    texts = ["--source", str(folder / "source"), "--reference", str(folder / "reference")]
    return CliRunner().invoke(
        main, ["expected-bleu", *paths, *texts, "--out", str(folder / "n"), *options]
    )


def test_the_command(folder: Path) -> None:
    run = command(folder, "--epochs", "1")
    assert run.exit_code == 0, run.output
    assert "held-out loss before -" in run.output and "1 passes" in run.output
    assert load_model(folder / "n").architecture == "cptm"


def test_a_list_without_segmentation_ends_the_command_with_one_line(folder: Path) -> None:
    (folder / "nbest").write_bytes(b"0 ||| x  ||| LM0= -1 ||| -1\n")
    run = command(folder)
    assert run.exit_code == 1
    assert run.output.splitlines()[-1].endswith(
        "expected a segmentation as 0-1=0 2=1-2 that covers the words"
    )
    assert "Traceback" not in run.output and not (folder / "n").exists()
