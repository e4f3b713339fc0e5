from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from moses_bridge.base.errors import InputError
from rescorer.cli import main
from rescorer.contract.compute import Compute
from rescorer.models.learned import Learned
from rescorer.views import map_layout, maps
from rescorer.views.map_layout import map_purity
from rescorer.views.maps import MapPoints, phrase_points, word_points


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
    expected = [asdict(row) for row in map_purity(places, "map", own, linked)]
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


def phrases_of(model: Path, table: Path, n_phrases: int, seed: int = 1) -> MapPoints:
    return phrase_points(Learned.load(model), table, "source", n_phrases, seed, Compute())


def test_words_in_most_phrases_come_first(encdec: Path, table: Path) -> None:
    points = word_points(Learned.load(encdec), table, "source", 3)
    # 36 phrases: 12 begin with "the", "a", "of" each; "house" ends 12 and is in the middle of 9,
    # 3 of which end in it too; 9 have "red", "blue" and "in" each.
    assert points.texts[0] == b"house" and points.frequencies is not None
    assert points.frequencies[0] == 12 + 9 - 3
    assert points.texts[1:] == [b"the", b"a"] and points.frequencies[1:] == [12, 12]
    words, vectors = Learned.load(encdec).word_vectors("source")
    np.testing.assert_array_equal(points.vectors[0], vectors[words.index(b"house")])


def test_phrases_have_their_best_translation(encdec: Path, table: Path) -> None:
    points = phrases_of(encdec, table, 1000)
    assert len(points) == 36 and points.lengths[points.texts.index(b"a in")] == 2
    row = points.texts.index(b"the red car")
    # The second target of a phrase with "red" is likelier, and its last word has no link.
    assert points.counterparts[row] == b"le rouge voiture foo"
    assert points.linked[row] == [b"le", b"rouge", b"voiture"]
    assert points.counterparts[points.texts.index(b"a blue")] == b"un bleu"
    assert points.frequencies is not None and sorted(points.frequencies) == list(range(1, 37))


def test_the_seed_draws(encdec: Path, table: Path) -> None:
    draws = {tuple(phrases_of(encdec, table, 5, seed).texts) for seed in (1, 1, 2)}
    assert len(draws) == 2 and all(len(draw) == 5 for draw in draws)


def test_the_other_column(encdec: Path, tmp_path: Path) -> None:
    """A network of the other direction: source and target have changed places, and so have the scores."""
    (tmp_path / "t").write_bytes(
        b"x ||| the car ||| 0.2 1 0.9 1 ||| 0-0 ||| 7 1 1\nx y ||| the car ||| 0.6 1 0.3 1 ||| 1-0 ||| 7 2 1\n"
    )
    learned = Learned.load(encdec)
    points = phrase_points(learned, tmp_path / "t", "target", 5, 1, Compute())
    assert (points.texts, points.counterparts) == ([b"the car"], [b"x y"])
    assert (points.linked, points.frequencies) == ([[b"y"]], [7.0])


def test_a_table_without_counts_or_links(encdec: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"the car ||| x ||| 0.2 1 0.9 1\n")
    points = phrases_of(encdec, tmp_path / "t", 5)
    assert points.frequencies is None and points.linked == [[]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"car ||| x ||| 1 1 1 1 ||| 0-1 ||| 1 1 1", "a link to word 1 of 1"),
        (b"car ||| x ||| 1 1 1 1 ||| 0:0 ||| 1 1 1", "the link '0:0'"),
        (b"car ||| x ||| 1 1 ||| 0-0 ||| 1 1 1", "as the third score"),
        (b"car ||| x ||| 1 1 1 1 ||| 0-0 ||| 1", "in column 5"),
    ],
)
def test_malformed_rows(encdec: Path, tmp_path: Path, row: bytes, message: str) -> None:
    (tmp_path / "t").write_bytes(row + b"\n")
    with pytest.raises(InputError, match=message) as error:
        phrases_of(encdec, tmp_path / "t", 5)
    assert error.value.line == 1
