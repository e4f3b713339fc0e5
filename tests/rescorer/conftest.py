"""On what networks compute in tests."""

from __future__ import annotations

import pytest
import torch

from rescorer.contract.choices import Device

# Where a GPU is, what asks for the device is tested on it as well.
DEVICES: tuple[Device, ...] = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


@pytest.fixture(scope="session", params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    """Each device that is there."""
    chosen: Device = request.param
    return chosen
