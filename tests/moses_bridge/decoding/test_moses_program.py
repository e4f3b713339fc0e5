"""The decoder that starts the program `moses`, with the program itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from moses_bridge.base.textio import read_lines
from moses_bridge.decoding.decoder import DecoderConfig, open_decoder

pytestmark = [
    pytest.mark.moses,
    pytest.mark.skipif(shutil.which("moses") is None, reason="no program `moses` on the PATH"),
]
MODEL_FEATURES = [
    ("LexicalReordering0", 6),
    ("Distortion0", 1),
    ("LM0", 1),
    ("WordPenalty0", 1),
    ("PhrasePenalty0", 1),
    ("TranslationModel0", 4),
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
        assert decoder.feature_names() == MODEL_FEATURES
        decoder.decode(Path("input.en"), out, None, nbest, 100)
    stored = [line.rstrip(b" ") for line in read_lines("output.cube400.fr")]
    assert list(read_lines(out)) == stored
    assert list(read_lines(nbest)) == list(read_lines("nbest100.cube400.gz"))
