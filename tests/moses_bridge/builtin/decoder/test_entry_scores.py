from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.decoder.forced import rescored_lines
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model


def translator(model: Model) -> Translator:
    lm_scores = np.full(len(model.table.rows.nodes), np.nan, np.float32)
    weighted = make_weighted_model(model, lm_scores, model.weight_vector(None))
    return Translator(model, weighted, Limits(200, 200, 3))


def test_entries_of_the_search_come_back(toy: Model, tmp_path: Path) -> None:
    search, source = translator(toy), b"w u v ||| u"
    _, lines = search.translate(0, source, NBestFormat(40, 50, True, True))
    assert len(lines) > 10
    write_lines(tmp_path / "nbest", lines)
    assert list(rescored_lines(search, [source], tmp_path / "nbest")) == lines


@pytest.mark.parametrize(
    ("segments", "told"),
    [
        (b"", "no segmentation"),
        (b"0=0 1", "a segmentation as 0-1=0"),
        (b"0=1 1=2", "a segmentation as 0-1=0"),
        (b"0=0 1=0", "'' for the source words 0 to 0"),
        (b"0-1-2=0", "'a b' for the source words 0 to 2"),
        (b"5=0", "'a b' for the source words 5 to 5"),
    ],
)
def test_a_faulty_segmentation_is_told_by_line(
    toy: Model, tmp_path: Path, segments: bytes, told: str
) -> None:
    field = b" ||| " + segments if segments else b""
    write_lines(tmp_path / "nbest", [b"0 ||| a b ||| LM0= 1 ||| 0" + field])
    with pytest.raises(InputError, match=f"nbest:1: .*{told}"):
        list(rescored_lines(translator(toy), [b"u v"], tmp_path / "nbest"))
