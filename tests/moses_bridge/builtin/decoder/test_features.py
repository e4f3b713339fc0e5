from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_bridge.builtin.decoder import feature_slots as slots
from moses_bridge.builtin.decoder.lattice import score_path
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.given_translations import score_entries
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.nbest import parse_features, read_nbest

Pairs = dict[tuple[str, str], tuple[float, ...]]


def features(model: Model, rows: list[int], spans: list[tuple[int, int]], words: str) -> np.ndarray:
    weighted = make_weighted_model(model, model.weight_vector(None))
    ids = [model.target_ids.get(word.encode(), len(model.target_words)) for word in words.split()]
    starts, ends = np.array(spans, np.int32).T
    return score_path(np.array(rows), starts, ends, np.array(ids, np.int32), weighted)


def test_values_by_hand(toy: Model, toy_ini: Path, pairs: Pairs, kenlm: Any) -> None:
    """w is translated first, then "u v" (a jump back over the sentence), then the unknown x."""
    table = sorted(pairs)
    rows = [table.index(("w", "c b")), table.index(("u v", "a b")), -1]
    found = features(toy, rows, [(2, 3), (0, 2), (3, 4)], "c b a b x")
    w, uv = pairs["w", "c b"], pairs["u v", "a b"]
    # w: a jump of 2 to the right, discontinuous; "u v": just before w, a swap; x: discontinuous.
    towards_previous = [0.0, math.log(uv[2]), math.log(w[3])]
    towards_next = [0.0, math.log(w[5]), math.log(uv[6])]
    assert found[:6] == pytest.approx(towards_previous + towards_next, abs=1e-6)
    assert found[slots.DISTORTION] == -(2 + 3 + 1)
    lm = kenlm.Model(str(toy_ini.parent / "lm.arpa")).score("c b a b x") * math.log(10)
    assert found[slots.LANGUAGE_MODEL] == pytest.approx(lm, rel=1e-6)
    assert (found[slots.WORD_PENALTY], found[slots.PHRASE_PENALTY]) == (-5, 3)
    assert found[slots.UNKNOWN_WORD] == -100
    assert found[slots.PHRASE_TABLE :] == pytest.approx([math.log(w[0]) + math.log(uv[0])])


def test_a_monotone_path_has_no_distortion(toy: Model, pairs: Pairs) -> None:
    table = sorted(pairs)
    rows = [table.index(("u", "a")), table.index(("v", "b"))]
    found = features(toy, rows, [(0, 1), (1, 2)], "a b")
    assert found[slots.DISTORTION] == 0
    u, v = pairs["u", "a"], pairs["v", "b"]
    monotone = [math.log(u[1]) + math.log(v[1]), 0, 0, math.log(u[4]), 0, 0]
    assert found[:6] == pytest.approx(monotone, abs=1e-6)


def test_an_unknown_word_has_no_reordering_scores_for_the_next_phrase(
    toy: Model, pairs: Pairs
) -> None:
    table = sorted(pairs)
    found = features(toy, [-1, table.index(("u", "a"))], [(0, 1), (1, 2)], "x a")
    assert found[:6] == pytest.approx([math.log(pairs["u", "a"][1]), 0, 0, 0, 0, 0], abs=1e-6)


@pytest.mark.parametrize("text", ["u v w\n", "x u b\n", "w x\n"])
def test_the_second_score_of_a_language_model_counts_its_unknown_words(
    toy_ini: Path, text: str
) -> None:
    """LanguageModel::oov-feature of Moses: of the table's words, "c"; of copied words, all but "a" and "b"."""
    ini = toy_ini.read_text().replace("LM0= 0.4", "LM0= 0.4 -0.7")
    toy_ini.write_text(ini.replace("KENLM ", "KENLM num-features=2 oov-feature=1 "))
    source, out, nbest = (toy_ini.with_name(name) for name in ("source", "out", "nbest"))
    source.write_text(text)
    config = DecoderConfig(kind="builtin", nbest_factor=0, segmentation=True)
    with open_decoder(toy_ini, config, 1) as decoder:
        decoder.decode(source, out, None, nbest, 50)
    entries = list(read_nbest(nbest))
    assert len(entries) >= 2
    for entry in entries:
        values = parse_features(entry, nbest)
        n_unknown = sum(word not in (b"a", b"b") for word in entry.words.split())
        assert values["LM0"][1] == n_unknown
        weights = read_ini(toy_ini).weights
        n_copied = text.split().count("x") + text.split().count("b")
        total = -100 * n_copied + sum(
            weight * value
            for name, row in values.items()
            for weight, value in zip(weights[name], row, strict=True)
        )
        assert entry.total == pytest.approx(total, abs=2e-3)
    again = toy_ini.with_name("again")
    score_entries(toy_ini, source, nbest, again, None)
    assert again.read_bytes() == nbest.read_bytes()
