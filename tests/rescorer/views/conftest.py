"""A table, and models with random weights that know its words."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.cslm import Cslm, CslmConfig
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.scorers.nnjm.network import Nnjm, NnjmConfig

SOURCE = Vocabulary([b"the", b"a", b"red", b"blue", b"house", b"car", b"of", b"in"])
TARGET = Vocabulary([b"le", b"un", b"rouge", b"bleu", b"maison", b"voiture", b"de", b"dans"])
FRENCH = dict(zip(SOURCE.words[2:], TARGET.words[2:], strict=True))
SHORTLISTS = Shortlists(SOURCE, TARGET)


def rows() -> list[bytes]:
    """Each phrase of two or three words with two targets; the second is likelier for those with "red"."""
    result = []
    for first in (b"the", b"a", b"of"):
        for second in (b"red", b"blue", b"house", b"in"):
            for third in (b"", b" house", b" car"):
                words = (first + b" " + second + third).split()
                target = b" ".join(FRENCH[word] for word in words)
                links = b" ".join(b"%d-%d" % (n, n) for n in range(len(words)))
                count = len(result) // 2 + 1
                prob = 0.25 if second == b"red" else 0.75
                result += [
                    b"%s ||| %s ||| 0.5 0.5 %.2f 0.5 ||| %s ||| 5 %d 2"
                    % (b" ".join(words), t, p, links, count)
                    for t, p in ((target, prob), (target + b" foo", 1 - prob))
                ]
    return sorted(result)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(b"".join(row + b"\n" for row in rows())))
    return path


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
