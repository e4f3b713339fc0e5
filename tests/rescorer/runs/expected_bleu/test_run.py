"""Expected BLEU and its gradient against NumPy float64 and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from safetensors.torch import load_file

from moses_bridge.base.errors import ConfigError
from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Device
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TRAINING_STATE, TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import load_model, save_model, scorer_of_model
from rescorer.runs.expected_bleu.nbest_lists import NBestLists
from rescorer.runs.expected_bleu.run import (
    ExpectedBleuConfig,
    ExpectedBleuTask,
    ListText,
    expected_bleu,
    train_for_expected_bleu,
)
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.scorers.zoo.bae import Bae, BaeConfig
from rescorer.scorers.zoo.cptm import Cptm, CptmConfig, phrase_values
from rescorer.training import loop as loop_module
from rescorer.training.loop import TrainingReport
from rescorer.training.loop_config import LoopConfig

WEIGHT, SHARPNESS = 0.3, 2.0
# Joint ids of the phrases below: a b c are 2 3 4, x y are 5 6, and "b" is a word of both languages.
PAIRS = Batch([b"a", b"b c", b"c", b"a b"], [b"x", b"y b", b"x x", b""])
IDS = [([2], [5]), ([3, 4], [6, 3]), ([4], [5, 5]), ([2, 3], [])]
LISTS = NBestLists(
    PAIRS,
    uses=np.array([0, 1, 3, 2, 1, 2, 2, 0, 3, 0]),
    n_uses=np.array([2, 1, 2, 3, 2]),
    totals=np.array([-2.0, -1.5, -2.25, -40.0, -39.5]),
    bleu=np.array([0.5, 0.25, 0.75, 0.1, 0.9]),
    starts=np.array([0, 3, 5]),
)
Weights = list[NDArray[np.float64]]


def numpy_values(weights: Weights) -> NDArray[np.float64]:
    """Of the pairs; the equations of Gao et al. (2014)."""
    first, second = weights

    def code(ids: list[int]) -> NDArray[np.float64]:
        return np.tanh(second @ np.tanh(first.T @ np.bincount(np.array(ids, int), minlength=7)))

    return np.array([code(source) @ code(target) for source, target in IDS])


def numpy_expected_bleu(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each list, hypothesis by hypothesis."""
    ends = np.cumsum(LISTS.n_uses)
    uses = [LISTS.uses[end - n : end] for end, n in zip(ends, LISTS.n_uses, strict=True)]
    result = []
    for first, last in zip(LISTS.starts, LISTS.starts[1:], strict=False):
        scores = [LISTS.totals[h] + WEIGHT * values[uses[h]].sum() for h in range(first, last)]
        probs = np.exp(SHARPNESS * (np.array(scores) - max(scores)))
        result.append(probs @ LISTS.bleu[first:last] / probs.sum())
    return np.array(result)


def differences(
    function: Callable[[NDArray[np.float64]], float], at: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The gradient of a function by central differences."""
    gradient, step = np.zeros_like(at), 1e-5
    for place in np.ndindex(at.shape):
        moved = np.zeros_like(at)
        moved[place] = step
        gradient[place] = (function(at + moved) - function(at - moved)) / (2 * step)
    return gradient


def test_expected_bleu_and_its_gradient() -> None:
    values = np.array([0.5, -1.0, 2.0, 0.25])
    tensor = torch.tensor(values, requires_grad=True)
    found = expected_bleu(tensor[LISTS.uses], LISTS, WEIGHT, SHARPNESS)
    np.testing.assert_allclose(found.detach(), numpy_expected_bleu(values), atol=1e-12)
    found.sum().backward()
    expected = differences(lambda at: float(numpy_expected_bleu(at).sum()), values)
    np.testing.assert_allclose(tensor.grad, expected, atol=1e-9)


def test_large_totals_cost_no_digits_of_float32() -> None:
    """What all hypotheses of a list have in common changes nothing; at 1e7 float32 has steps of 1."""
    values = np.array([0.5, -1.0, 2.0, 0.25])
    lists = replace(LISTS, totals=LISTS.totals - 1e7)
    tensor = torch.tensor(values, dtype=torch.float32)
    found = expected_bleu(tensor[LISTS.uses], lists, WEIGHT, SHARPNESS)
    np.testing.assert_allclose(found, numpy_expected_bleu(values), atol=1e-6)


@pytest.fixture
def model() -> TrainedModel[Cptm]:
    torch.manual_seed(2)
    network = Cptm(CptmConfig(hidden_width=4, code_width=3), 7).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    shortlists = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y", b"b"]))
    return TrainedModel("cptm", network, shortlists, {})


def task_of(model: TrainedModel[Cptm], lists: NBestLists, n_held_out: int = 0) -> ExpectedBleuTask:
    config = ExpectedBleuConfig(WEIGHT, SHARPNESS, lists_per_update=2, n_held_out=n_held_out)
    return ExpectedBleuTask(
        phrase_values(model, torch.float32), ListsInMemory(lists), config, seed=1
    )


@dataclass(frozen=True)
class ListsInMemory:
    """Of which parts have all phrase pairs."""

    lists: NBestLists
    documents: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.lists)

    def part(self, lists: NDArray[np.int64]) -> NBestLists:
        whole = self.lists
        ends = np.append(0, np.cumsum(whole.n_uses))
        spans = [slice(*whole.starts[number : number + 2]) for number in lists]
        return NBestLists(
            whole.pairs,
            np.concatenate([whole.uses[ends[span.start] : ends[span.stop]] for span in spans]),
            *(
                np.concatenate([column[span] for span in spans])
                for column in (whole.n_uses, whole.totals, whole.bleu)
            ),
            np.cumsum([0, *(span.stop - span.start for span in spans)]),
        )


def test_the_loss_and_its_gradient_by_the_network(model: TrainedModel[Cptm]) -> None:
    network = model.network
    parameters = [network.word_vectors.weight, network.projection.weight]
    weights = [parameter.detach().numpy().copy() for parameter in parameters]

    def loss_at(number: int) -> Callable[[NDArray[np.float64]], float]:
        def loss(at: NDArray[np.float64]) -> float:
            moved = [at if place == number else each for place, each in enumerate(weights)]
            return float(-100 * numpy_expected_bleu(numpy_values(moved)).sum())

        return loss

    found, n_lists = task_of(model, LISTS).loss(np.array([0, 1]))
    assert found.item() == pytest.approx(loss_at(0)(weights[0])) and n_lists == 2
    found.backward()
    for number, parameter in enumerate(parameters):
        expected = differences(loss_at(number), weights[number])
        np.testing.assert_allclose(parameter.grad, expected, atol=1e-6)
        assert np.abs(expected).max() > 0.1


def test_a_loss_in_parts_is_the_same(model: TrainedModel[Cptm]) -> None:
    task = task_of(model, LISTS)
    batch = np.array([1, 0])
    with torch.no_grad():
        whole = float(task.loss(batch)[0])
        parts = [float(task.loss(part)[0]) for part in task.parts(batch, 2)]
    assert len(parts) == 2 and sum(parts) == pytest.approx(whole)


def many_lists(n: int) -> NBestLists:
    """The same two lists again and again."""
    uses, sizes = np.tile(LISTS.uses, n), np.tile(np.diff(LISTS.starts), n)
    return replace(
        LISTS,
        uses=uses,
        n_uses=np.tile(LISTS.n_uses, n),
        totals=np.tile(LISTS.totals, n),
        bleu=np.tile(LISTS.bleu, n),
        starts=np.append(0, np.cumsum(sizes)),
    )


def test_held_out_lists_are_not_learned_from(
    model: TrainedModel[Cptm], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(model, many_lists(20), n_held_out=3)
    learned = [set(np.concatenate(task.batches(epoch)).tolist()) for epoch in (0, 1)]
    assert learned[0] == learned[1] and len(learned[0]) == 37
    assert task.n_held_out == 3 and not learned[0] & set(task.held_out_lists.tolist())
    assert [len(batch) for batch in task.batches(0)] == [3] + [2] * 17
    with torch.no_grad():
        expected = float(task.loss(task.held_out_lists)[0]) / 3
        assert task.held_out_loss() == pytest.approx(expected)
        monkeypatch.setattr("rescorer.runs.expected_bleu.run.LISTS_AT_ONCE", 2)
        assert task.held_out_loss() == pytest.approx(expected)


def test_no_document_is_both_learned_from_and_held_out(model: TrainedModel[Cptm]) -> None:
    """Else what is learned is measured on sentences of the same document."""
    documents = np.repeat(np.arange(10), 4)
    values = phrase_values(model, torch.float32)
    config = ExpectedBleuConfig(n_held_out=3)
    for seed in range(5):
        task = ExpectedBleuTask(values, ListsInMemory(many_lists(20), documents), config, seed)
        held_out = set(documents[task.held_out_lists].tolist())
        assert len(held_out) == 1 and task.n_held_out == 4
        assert not held_out & set(documents[task.train_lists].tolist())


def test_without_held_out_lists_there_is_no_such_loss(model: TrainedModel[Cptm]) -> None:
    assert task_of(model, LISTS).held_out_loss() is None


@pytest.mark.parametrize("name", ["sharpness", "lists_per_update", "n_held_out"])
def test_settings_below_their_limits_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ExpectedBleuConfig(**{name: -1})


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


def test_an_earlier_training_is_not_replaced_unless_asked(folder: Path) -> None:
    (folder / "n").mkdir()
    (folder / "n" / TRAINING_STATE).write_bytes(b"of another one")
    with pytest.raises(ConfigError, match=r"n: there is a training already. Continue it with --re"):
        train_for_expected_bleu(folder / "m", text_of(folder), folder / "n", CONFIG)
    assert (folder / "n" / TRAINING_STATE).read_bytes() == b"of another one"
    quick = replace(CONFIG, loop=replace(CONFIG.loop, n_epochs=1))
    given = (folder / "m", text_of(folder), folder / "n", quick)
    _, report = train_for_expected_bleu(*given, overwrite=True)
    assert report.n_epochs == 1


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
