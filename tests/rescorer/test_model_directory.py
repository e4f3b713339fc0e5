from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from moses_bridge.errors import ConfigError, InputError
from rescorer.model_directory import (
    TRAINING_STATE,
    load_model,
    load_training_state,
    save_model,
    save_tensors,
    save_training_state,
)
from rescorer.scorers.cslm.network import Cslm, CslmConfig
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.vocabulary import Vocabulary

SOURCE, TARGET = Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y"])


def save_encdec(folder: Path) -> EncoderDecoder:
    torch.manual_seed(5)
    network = EncoderDecoder(EncDecConfig(7, 3, 2), len(SOURCE), len(TARGET))
    save_model(folder, network, SOURCE, TARGET, {"note": 1})
    return network


def test_an_encoder_decoder_comes_back(tmp_path: Path) -> None:
    network = save_encdec(tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.architecture == "encdec"
    assert loaded.source_vocabulary is not None
    assert loaded.source_vocabulary.words == SOURCE.words
    assert loaded.target_vocabulary.words == TARGET.words
    assert loaded.description["training"] == {"note": 1}
    assert not loaded.network.training
    pair = torch.tensor([[2, 3, 0]]), torch.tensor([2]), torch.tensor([[3, 0]]), torch.tensor([1])
    assert isinstance(loaded.network, EncoderDecoder)
    assert torch.equal(loaded.network.log_probs(*pair), network.log_probs(*pair))


def test_a_language_model_comes_back(tmp_path: Path) -> None:
    network = Cslm(CslmConfig(2, 3, 5, 7), len(TARGET))
    save_model(tmp_path, network, None, TARGET, {})
    loaded = load_model(tmp_path)
    assert loaded.architecture == "cslm"
    assert loaded.source_vocabulary is None
    assert torch.equal(loaded.network.state_dict()["first.weight"], network.first.weight)


def test_weights_are_plain_safetensors_that_others_may_read(tmp_path: Path) -> None:
    """Eight bytes of length, then JSON; readable by the group as the umask says."""
    save_encdec(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["output.weight"]["shape"] == [4, 3]
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def change(**changes: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return apply


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (truncate, "model.safetensors: found .*expected a whole safetensors file"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x80\x04."), "safetensors"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors: found"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: found"),
        (lambda folder: (folder / "config.json").write_text("[1]"), "no known architecture"),
        (lambda folder: (folder / "config.json").write_text('{"a": '), "config.json: found"),
        (change(architecture="rnnsearch"), "no known architecture"),
        (change(format_version=99), "format version 99, expected 1"),
        (change(model=3), "no sizes"),
        (
            change(model={"hidden_width": 8, "embedding_width": 3, "maxout_width": 2}),
            "size mismatch",
        ),
        (lambda folder: (folder / "target.vocab").unlink(), "target.vocab: found"),
        (lambda folder: TARGET.save(folder / "source.vocab"), "size mismatch"),
    ],
)
def test_damaged_and_foreign_models_are_refused(
    tmp_path: Path, damage: Callable[[Path], None], fault: str
) -> None:
    save_encdec(tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=fault) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_impossible_size_is_named(tmp_path: Path) -> None:
    save_encdec(tmp_path)
    change(model={"hidden_width": -1})(tmp_path)
    with pytest.raises(ConfigError, match="hidden_width is -1; the smallest value is 1"):
        load_model(tmp_path)


def test_an_unknown_size_is_named(tmp_path: Path) -> None:
    save_encdec(tmp_path)
    change(model={"hidden_widht": 7})(tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'hidden_width'"):
        load_model(tmp_path)


def test_an_optimizer_comes_back(tmp_path: Path) -> None:
    """Adam with its saved moments takes the step that it would have taken."""
    network, twin = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    optimizer, other = (torch.optim.Adam(n.parameters(), lr=0.1) for n in (network, twin))
    x = torch.randn(5, 3)

    def step(layer: torch.nn.Linear, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()

    for _ in range(3):
        step(network, optimizer)
    save_training_state(tmp_path, {"w": network.state_dict()}, optimizer, {"epoch": 3})
    saved = load_training_state(tmp_path, ("w",), twin, other)
    assert saved is not None
    weights, progress = saved
    twin.load_state_dict(weights["w"])
    step(network, optimizer)
    step(twin, other)
    assert progress == {"epoch": 3}
    assert torch.equal(network.weight, twin.weight)


def test_no_state_is_no_error(tmp_path: Path) -> None:
    layer = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1)
    assert load_training_state(tmp_path, ("w",), layer, optimizer) is None


@pytest.mark.parametrize(
    ("tensors", "fault"),
    [
        ({"w/weight": torch.zeros(1)}, "no progress"),
        (
            {
                "w/weight": torch.zeros(2, 2),
                "progress": torch.tensor([123, 125], dtype=torch.uint8),
            },
            "size mismatch .* other data or sizes",
        ),
    ],
)
def test_a_foreign_state_is_refused(
    tmp_path: Path, tensors: dict[str, torch.Tensor], fault: str
) -> None:
    save_tensors(tmp_path / TRAINING_STATE, tensors)
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1)
    with pytest.raises(InputError, match=fault) as caught:
        load_training_state(tmp_path, ("w",), layer, optimizer)
    assert "\n" not in str(caught.value)
