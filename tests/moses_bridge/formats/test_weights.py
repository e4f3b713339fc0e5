from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base import progress
from moses_bridge.base.errors import InputError
from moses_bridge.formats.weights import (
    read_weight_file,
    read_weights,
    weights_over_ini,
    write_weight_file,
)


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
        ("{", "expected JSON, .* or a moses.ini"),
        ("[weight]\nLM0 0.5\n", ":2: found 'LM0', expected Name= and its weights"),
        ("[1]", "weights by name"),
        ('{"weights": 3}', "weights by name"),
        ('{"LM0": [NaN]}', "nan as a weight of LM0"),
        ('{"LM0": ["1"]}', "'1' as a weight of LM0"),
        ('{"LM0": true}', "True as a weight of LM0"),
        ('{"LM0": 1' + "0" * 400 + "}", "as a weight of LM0"),
        ('{"LM0": 1' + "0" * 5000 + "}", "expected JSON"),
        ("[" * 100_000, "nested more than 100 deep"),
        ('{"LM0": ' + "[" * 500 + "]" * 500 + "}", "nested more than 100 deep"),
        ('{"LM0": null}', "None as a weight of LM0"),
    ],
)
def test_faulty_weights(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "weights.json"
    path.write_text(text)
    with pytest.raises(InputError, match=found):
        read_weights(path)


INI = "[feature]\nDistortion\nKENLM path=lm\n[weight]\nDistortion0= 0.5\nKENLM0= -2\n"


def test_weights_of_an_ini(tmp_path: Path) -> None:
    path = tmp_path / "moses.ini"
    path.write_text(f"{INI}Distortion0_y= 3\n[weight-file]\n{tmp_path}/sparse\n")
    lines = "# KENLM0_z 1\nDistortion0_x 9\n\nDistortion0_x 0.25 more\nDistortion0_y 4\nother 1\n"
    (tmp_path / "sparse").write_text(lines)
    sparse = {"Distortion0_x": (0.25,), "Distortion0_y": (3,)}
    assert read_weights(path) == {"Distortion0": (0.5,), "KENLM0": (-2,)} | sparse
    (tmp_path / "sparse").write_text("Distortion0_x 1\nDistortion0_y\n")
    with pytest.raises(InputError, match="sparse:2: found 'Distortion0_y', expected the name of a"):
        read_weights(path)


def test_weights_of_sparse_values_come_back_to_the_last_digit(tmp_path: Path) -> None:
    weights = {"WT_a~b": 0.1 + 0.2, "PP_\udcff": -1e-17}
    write_weight_file(tmp_path / "weights", weights)
    assert read_weight_file(tmp_path / "weights") == weights


def test_weights_of_an_ini_of_version_1(tmp_path: Path) -> None:
    path = tmp_path / "moses.ini"
    path.write_text("[lmodel-file]\n8 0 5 lm.gz\n\n[weight-l]\n0.5\n[weight-d]\n0.25\n")
    assert read_weights(path) == {"KENLM0": (0.5,), "Distortion0": (0.25,)}


def test_an_ini_without_a_weight_of_the_other_is_refused(tmp_path: Path) -> None:
    other, ini = tmp_path / "other.ini", tmp_path / "moses.ini"
    ini.write_text(INI)
    other.write_text(INI.replace("KENLM0= -2\n", ""))
    with pytest.raises(InputError, match=r"other\.ini: found no weight of KENLM0, expected one"):
        weights_over_ini(other, ini)
    other.write_text(INI.replace("-2", "-3"))
    assert weights_over_ini(other, ini)["KENLM0"] == (-3,)


def test_a_run_without_a_weight_of_the_ini_is_refused_and_a_table_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ini, path = tmp_path / "moses.ini", tmp_path / "weights.json"
    ini.write_text(
        "[feature]\nDistortion\nWordPenalty\n[weight]\nDistortion0= 1\nWordPenalty0= 1\n"
    )
    path.write_text('{"weights": {"Distortion0": [1]}}')
    with pytest.raises(
        InputError, match=r"weights\.json: found no weight of WordPenalty0, expected"
    ):
        weights_over_ini(path, ini)
    path.write_text('{"weights": {"Distortion0": [1], "WordPenalty0": [2]}}')
    assert weights_over_ini(path, ini) == {"Distortion0": (1,), "WordPenalty0": (2,)}
    assert capsys.readouterr().err == ""
    path.write_text('{"Distortion0": [1]}')
    monkeypatch.setitem(progress._VISIBLE, "progress", False)  # as by --quiet
    assert weights_over_ini(path, ini) == {"Distortion0": (1,)}
    assert "has no weight of WordPenalty0" in capsys.readouterr().err
