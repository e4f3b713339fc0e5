from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.weights import read_weights


@pytest.mark.parametrize(
    "text",
    [
        '{"LM0": [0.5], "TM": [1, -2.5]}',
        '{"LM0": 0.5, "TM": [1, -2.5]}',
        '{"seed": 1, "weights": {"LM0": [0.5], "TM": [1, -2.5]}}',
    ],
)
def test_tables_of_weights(tmp_path: Path, text: str) -> None:
    path = tmp_path / "weights.json"
    path.write_text(text)
    assert read_weights(path) == {"LM0": (0.5,), "TM": (1, -2.5)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "a JSON file"),
        ("[1]", "weights by name"),
        ('{"weights": 3}', "weights by name"),
        ('{"LM0": [NaN]}', "nan as a weight of LM0"),
        ('{"LM0": ["1"]}', "'1' as a weight of LM0"),
        ('{"LM0": true}', "True as a weight of LM0"),
        ('{"LM0": null}', "None as a weight of LM0"),
    ],
)
def test_faulty_weights(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "weights.json"
    path.write_text(text)
    with pytest.raises(InputError, match=found):
        read_weights(path)
