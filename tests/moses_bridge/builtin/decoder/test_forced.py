from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.decoder.forced import ForcedTranslator, rescored_lines, target_numbers
from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.builtin.decoder.weighted_model import WeightedModel, make_weighted_model


def weighted_model(model: Model) -> WeightedModel:
    return make_weighted_model(model, model.weight_vector(None))


def translator(model: Model, targets: list[bytes], limit: int = 3) -> ForcedTranslator:
    return ForcedTranslator(model, weighted_model(model), Limits(1, 1, limit), targets)


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
def test_an_impossible_target_gives_nothing(
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


def test_a_word_in_no_option_has_no_number(toy: Model) -> None:
    sentence = translator(toy, []).sentence(b"u new")
    assert sentence is not None
    known = toy.target_ids[b"a"]
    assert target_numbers(toy, sentence, [b"a", b"new"]) == (known, len(toy.target_words) + 1)
    assert target_numbers(toy, sentence, [b"a", b"other"]) is None


def test_a_worse_derivation_may_become_the_better_one(toy_ini: Path) -> None:
    """One phrase for "u v" is better until it is known that the next phrase follows it at once."""
    reordering = toy_ini.parent / "reordering"
    before = "u v ||| a b ||| 0.2 0.1 0.4 0.1"
    assert before in reordering.read_text()
    reordering.write_text(reordering.read_text().replace(before, f"{before[:-3]}1e-30"))
    forced = translator(load_model(toy_ini, None, None), [b"a b c b"])
    _, lines = forced.translate(0, b"u v w", NBestFormat(1, 1, True, False))
    assert lines[0].split(b" ||| ")[4].split() == [b"0=0", b"1=1", b"2=2-3"]


def scoring_translator(model: Model) -> Translator:
    return Translator(model, weighted_model(model), Limits(200, 200, 3))


def test_entries_of_the_search_come_back(toy: Model, tmp_path: Path) -> None:
    search, source = scoring_translator(toy), b"w u v ||| u"
    _, lines = search.translate(0, source, NBestFormat(40, 50, True, True))
    assert len(lines) > 10
    write_lines(tmp_path / "nbest", lines)
    assert list(rescored_lines(search, [source], tmp_path / "nbest")) == lines


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (b"", "no segmentation"),
        (b"0=0 1", "a segmentation as 0-1=0"),
        (b"0=1 1=2", "a segmentation as 0-1=0"),
        (b"0=0 1=0", "'' for the source words 0 to 0"),
        (b"0-1-2=0", "'a b' for the source words 0 to 2"),
        (b"5=0", "'a b' for the source words 5 to 5"),
    ],
)
def test_a_faulty_segmentation_is_reported_by_line(
    toy: Model, tmp_path: Path, segments: bytes, message: str
) -> None:
    field = b" ||| " + segments if segments else b""
    write_lines(tmp_path / "nbest", [b"0 ||| a b ||| LM0= 1 ||| 0" + field])
    with pytest.raises(InputError, match=f"nbest:1: .*{message}"):
        list(rescored_lines(scoring_translator(toy), [b"u v"], tmp_path / "nbest"))
