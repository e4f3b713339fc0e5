"""On what networks compute in tests, and models with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rescorer.contract.choices import Device
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.cslm import Cslm, CslmConfig
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.scorers.nnjm import Nnjm, NnjmConfig

# Where a GPU is, what asks for the device is tested on it as well.
DEVICES: tuple[Device, ...] = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)

SOURCE = Vocabulary([b"the", b"a", b"red", b"blue", b"house", b"car", b"of", b"in"])
TARGET = Vocabulary([b"le", b"un", b"rouge", b"bleu", b"maison", b"voiture", b"de", b"dans"])
SHORTLISTS = Shortlists(SOURCE, TARGET)


@pytest.fixture(scope="session", params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    """Each device that is there."""
    chosen: Device = request.param
    return chosen


@pytest.fixture
def encdec(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network = EncoderDecoder(EncDecConfig(8, 4, 4), len(SOURCE), len(TARGET))
    network.initialise(None)
    save_model(tmp_path / "rnn", "encdec", network, network.config, SHORTLISTS, {})
    return tmp_path / "rnn"


@pytest.fixture
def cslm(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network = Cslm(CslmConfig(2, 4, 4, 4), len(TARGET))
    shortlists = Shortlists(None, TARGET)
    save_model(tmp_path / "cslm", "cslm", network, network.config, shortlists, {})
    return tmp_path / "cslm"


@pytest.fixture
def nnjm(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    config = NnjmConfig(2, 3, 4, 4, 0)
    network = Nnjm(config, len(TARGET) + 1 + len(SOURCE) + 1, len(TARGET))
    save_model(tmp_path / "nnjm", "nnjm", network, config, SHORTLISTS, {})
    return tmp_path / "nnjm"
