"""The decoder starting the program `moses`, with the program itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from moses_bridge.base.textio import read_lines
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig

pytestmark = [
    pytest.mark.moses,
    pytest.mark.skipif(shutil.which("moses") is None, reason="no program `moses` on the PATH"),
]


def test_outputs_and_lists_are_the_stored_ones(
    small_golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moses looks for the tables of an ini from its working directory."""
    folder = small_golden / "decode"
    monkeypatch.chdir(folder)
    config = DecoderConfig(kind="moses", segmentation=True, alignment=True)
    out, nbest = tmp_path / "out", tmp_path / "nbest"
    with open_decoder(Path("moses.ini"), config, 1) as decoder:
        decoder.decode(Path("input.en"), out, None, nbest, 100)
    stored = [line.rstrip(b" ") for line in read_lines("output.cube400.fr")]
    assert list(read_lines(out)) == stored
    assert list(read_lines(nbest)) == list(read_lines("nbest100.cube400.gz"))
