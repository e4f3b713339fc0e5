from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.builtin.decoder.forced import ForcedTranslator, target_numbers
from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model


def translator(model: Model, targets: list[bytes], limit: int = 3) -> ForcedTranslator:
    lm_scores = np.full(len(model.table.rows.nodes), np.nan, np.float32)
    weighted = make_weighted_model(model, lm_scores, model.weight_vector(None))
    return ForcedTranslator(model, weighted, Limits(1, 1, limit), targets)


@pytest.mark.parametrize(
    ("source", "target", "segments"),
    [
        (b"u v", b"a b", b"0-1=0-1"),  # one phrase pair costs less than two
        (b"u v", b"b a b", b"0=0-1 1=2"),
        (b"u w", b"c b a", b"1=0-1 0=2"),
        (b"u v w", b"a b c b", b"0-1=0-1 2=2-3"),  # the last phrase is that of the worse one too
    ],
)
def test_the_segmentation_of_the_best_derivation(
    toy: Model, source: bytes, target: bytes, segments: bytes
) -> None:
    text, lines = translator(toy, [target]).translate(0, source, NBestFormat(1, 1, True, False))
    assert text == target
    assert sorted(lines[0].split(b" ||| ")[4].split()) == sorted(segments.split())


@pytest.mark.parametrize(
    ("source", "target", "limit"),
    [
        (b"u v", b"b", 3),  # nothing would be left of u
        (b"u v", b"a b a", 3),
        (b"u v", b"never", 3),
        (b"u w", b"c b a", 0),  # a jump is needed
        (b"u w", b"c b a", 1),
        (b"u v w", b"c b b a", 2),  # no jump is longer than 2, but w ends 3 words behind the gap
    ],
)
def test_what_cannot_be_reached_gives_nothing(
    toy: Model, source: bytes, target: bytes, limit: int
) -> None:
    found = translator(toy, [target], limit).translate(0, source, NBestFormat(1, 1, True, False))
    assert found == (b"", [])


@pytest.mark.parametrize(
    ("source", "target", "limit"), [(b"u w", b"c b a", 2), (b"u v w", b"c b b a", 3)]
)
def test_jumps_as_long_as_the_limit_are_allowed(
    toy: Model, source: bytes, target: bytes, limit: int
) -> None:
    found = translator(toy, [target], limit).translate(0, source, NBestFormat(1, 1, True, False))
    assert found[0] == target


def test_a_word_that_no_option_can_have_has_no_number(toy: Model) -> None:
    sentence = translator(toy, []).sentence(b"u new")
    assert sentence is not None
    known = toy.target_ids[b"a"]
    assert target_numbers(toy, sentence, [b"a", b"new"]) == (known, len(toy.target_words) + 1)
    assert target_numbers(toy, sentence, [b"a", b"other"]) is None


def test_a_better_derivation_may_be_found_behind_a_worse_one(toy_ini: Path) -> None:
    """One phrase for "u v" is better until it is known that the next phrase follows it at once."""
    reordering = toy_ini.parent / "reordering"
    before = "u v ||| a b ||| 0.2 0.1 0.4 0.1"
    assert before in reordering.read_text()
    reordering.write_text(reordering.read_text().replace(before, f"{before[:-3]}1e-30"))
    forced = translator(load_model(toy_ini, None, None), [b"a b c b"])
    _, lines = forced.translate(0, b"u v w", NBestFormat(1, 1, True, False))
    assert lines[0].split(b" ||| ")[4].split() == [b"0=0", b"1=1", b"2=2-3"]
