from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rescorer.cli import main
from rescorer.views import map_layout, maps
from rescorer.views.map_layout import map_purity


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_layout, "ITERATIONS", {"early_exaggeration_iter": 50, "n_iter": 50})


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["map", *map(str, arguments)], prog_name="rescorer")


def test_the_command(encdec: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "maps"
    result = run(encdec, table, "--out", out, "--kind", "phrases", "--zooms", 2)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["phrases.json"]
        + [f"phrases{part}.{suffix}" for part in ("", "-zoom1") for suffix in ("png", "svg")]
    )
    found = json.loads((out / "phrases.json").read_bytes())
    assert len(found["points"]) == 36 and found["kind"] == "phrases"
    point = next(point for point in found["points"] if point["text"] == "the red car")
    assert point["length"] == 3 and point["counterpart"] == "le rouge voiture foo"
    assert set(found["zooms"][0]) == {"left", "right", "bottom", "top"}
    own = [point["text"].encode().split() for point in found["points"]]
    linked = [
        point["counterpart"].encode().replace(b" foo", b"").split() for point in found["points"]
    ]
    places = np.array([(point["x"], point["y"]) for point in found["points"]])
    expected = [row.as_json for row in map_purity(places, "map", own, linked)]
    assert found["purity"][: len(expected)] == expected
    assert len(result.stdout.splitlines()) == 8


def test_words_by_frequency(encdec: Path, tmp_path: Path) -> None:
    words = [b"the", b"a", b"red", b"blue", b"house", b"car", b"of", b"in"]
    (tmp_path / "t").write_bytes(b"".join(b"%s ||| x ||| 1\n" % word for word in words))
    result = run(encdec, tmp_path / "t", "--out", tmp_path / "m", "--kind", "words")
    assert result.exit_code == 1
    assert "found 8 words that the model knows, expected 10" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--words", "5"], "n_words"),
        (["--kind", "words", "--side", "target"], "0 words that the model knows"),
        (["--kind", "phrases", "--color", "frequency"], "no counts in column 5"),
    ],
)
def test_faults_of_the_command(
    encdec: Path, table: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    lines = [line.split(b" ||| ")[:3] for line in gzip.decompress(table.read_bytes()).splitlines()]
    swapped = [[source, b"x", scores] for source, _, scores in lines]
    (tmp_path / "t").write_bytes(b"".join(b" ||| ".join(line) + b"\n" for line in swapped))
    result = run(encdec, tmp_path / "t", "--out", tmp_path / "m", *arguments)
    assert result.exit_code == 1 and message in result.stderr, result.output
    assert "Traceback" not in result.stderr


def test_a_model_without_phrases(cslm: Path, table: Path, tmp_path: Path) -> None:
    result = run(cslm, table, "--out", tmp_path / "m", "--kind", "phrases")
    assert result.exit_code == 1 and "makes no vector of a phrase" in result.stderr
    assert not (tmp_path / "m").exists()


def test_without_a_kind_it_is_what_the_model_has(
    cslm: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "FEWEST_POINTS", 5)
    result = run(cslm, table, "--out", tmp_path / "m", "--side", "target", "--zooms", 0)
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "m").iterdir()} == {
        "words.json",
        "words.png",
        "words.svg",
    }
    found = json.loads((tmp_path / "m" / "words.json").read_bytes())
    assert found["side"] == "target" and found["purity"] == []


def test_nothing_is_drawn_where_a_later_map_cannot_be(
    cslm: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "FEWEST_POINTS", 5)
    kinds = ("--kind", "words", "--kind", "phrases")
    result = run(cslm, table, "--out", tmp_path / "m", "--side", "target", *kinds)
    assert result.exit_code == 1 and "makes no vector of a phrase" in result.stderr
    assert not (tmp_path / "m").exists()
