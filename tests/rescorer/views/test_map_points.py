from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.compute import Compute
from rescorer.models.learned import Learned
from rescorer.views.map_points import MapPoints, phrase_points, word_points


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
