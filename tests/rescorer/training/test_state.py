from __future__ import annotations

from pathlib import Path

import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.trained_model import TRAINING_STATE
from rescorer.layers.tensor_files import load_tensors, save_tensors
from rescorer.training.state import load_training_state, save_training_state


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


NO_PROGRESS = torch.tensor([123, 125], dtype=torch.uint8)
NAN = torch.tensor([float("nan")])


@pytest.mark.parametrize(
    ("tensors", "fault"),
    [
        ({"w/weight": torch.zeros(1)}, "no progress"),
        (
            {"w/weight": torch.zeros(2, 2), "w/bias": torch.zeros(1), "progress": NO_PROGRESS},
            "weight: 2x2 float32, expected 1x3 float32.* other data or sizes",
        ),
        ({"w/weight": torch.zeros(1, 3), "progress": NO_PROGRESS}, "found bias: not there"),
        (
            {"w/weight": torch.zeros(1, 3), "w/bias": NAN, "progress": NO_PROGRESS},
            "bias: a value that is not finite",
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


def test_progress_is_what_json_holds(tmp_path: Path) -> None:
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1)
    progress = {"loss": None, "n": 3, "report": {"ended": "œ", "minutes": 0.1}, "list": [1, 2.5]}
    save_training_state(tmp_path, {"a": layer.state_dict()}, optimizer, progress)
    saved = load_training_state(tmp_path, ("a",), layer, optimizer)
    assert saved is not None and saved[1] == progress
    names = {"a/weight", "a/bias", "progress", "digest"}
    assert set(load_tensors(tmp_path / TRAINING_STATE)) == names


def test_a_state_with_another_number_is_refused(tmp_path: Path) -> None:
    """A whole file, which safetensors takes."""
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1)
    save_training_state(tmp_path, {"w": layer.state_dict()}, optimizer, {})
    path = tmp_path / TRAINING_STATE
    numbers = layer.weight.detach().numpy().tobytes()
    content = path.read_bytes()
    path.write_bytes(content.replace(numbers, bytes([numbers[0] ^ 1]) + numbers[1:]))
    assert path.read_bytes() != content
    with pytest.raises(InputError, match="found other numbers than were saved"):
        load_training_state(tmp_path, ("w",), layer, optimizer)
    tensors = load_tensors(path)
    del tensors["digest"]  # as of an earlier version
    save_tensors(path, tensors)
    assert load_training_state(tmp_path, ("w",), layer, optimizer) is not None


def test_a_state_that_was_cut_is_named(tmp_path: Path) -> None:
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1)
    save_training_state(tmp_path, {"w": layer.state_dict()}, optimizer, {})
    path = tmp_path / TRAINING_STATE
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=TRAINING_STATE):
        load_training_state(tmp_path, ("w",), layer, optimizer)
