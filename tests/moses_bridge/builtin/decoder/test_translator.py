from __future__ import annotations

import pytest

from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translator, effective_distortion_limit
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model


def make_translator(model: Model, stack: int, pops: int) -> Translator:
    weighted = make_weighted_model(model, model.weight_vector(None))
    return Translator(model, weighted, Limits(stack, pops, 3))


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (6, 6), (60, 60), (61, 60), (-1, 60)])
def test_no_limit_and_a_large_one_become_the_largest_of_the_search(limit: int, kept: int) -> None:
    assert effective_distortion_limit(limit) == kept


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" \t ",
        b"\xff\xfe \x80",
        b"[x] ||| <seg id='1'> u </seg>",
        b"never seen at all",
        b"u v w x " * 40,
        b"unknown " * 130,
        b"<s> </s> <unk>",
        "u\u00a0v \u2028 \u0085".encode(),
    ],
)
def test_any_line_gives_a_line(toy: Model, line: bytes) -> None:
    translator = make_translator(toy, 20, 20)
    text, entries = translator.translate(0, line, NBestFormat(3, 20, True, True))
    words = [word for word in line.replace(b"\t", b" ").split(b" ") if word]
    assert b"\n" not in text and bool(entries) == bool(words)
    for word in set(words) - {b"u", b"v", b"w", b"x"}:
        assert text.split(b" ").count(word) == words.count(word)


def test_other_weights_need_no_new_tables(toy: Model) -> None:
    lengths = {}
    for penalty in (-5.0, 5.0):
        weights = toy.weight_vector({"WordPenalty0": [penalty]})
        weighted = make_weighted_model(toy, weights)
        text, _ = Translator(toy, weighted, Limits(50, 50, 3)).translate(0, b"u v w x", None)
        lengths[penalty] = len(text.split())
    assert lengths[-5.0] > lengths[5.0]
