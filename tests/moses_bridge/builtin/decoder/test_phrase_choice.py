from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.options import choose_for_sentence
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model


def test_table_limit_cuts_by_weighted_score_with_the_language_model(
    tmp_path: Path, write_model: Callable[[bytes, str], Path], small_ini: str, kenlm: Any
) -> None:
    phrases = [b"a", b"b", b"a b", b"b a", b"c a b", b"b b b"]
    scores = [(0.3, 0.2), (0.3, 0.9), (0.9, 0.01), (0.5, 0.5), (0.9, 0.9), (0.99, 0.99)]
    rows = [b"x ||| %b ||| %g %g" % (t, *s) for t, s in zip(phrases, scores, strict=True)]
    ini = write_model(b"\n".join(rows), small_ini)
    model = load_model(ini, 4, None)
    weights = model.weight_vector({"WordPenalty0": [-0.3], "LM0": [0.7], "PhrasePenalty0": [2]})
    weighted = make_weighted_model(model, weights)
    node = int(model.table.rows.nodes[0])
    choose_for_sentence(np.zeros(1, np.int32), model.max_phrase_words, weighted)
    kenlm_model = kenlm.Model(str(tmp_path / "lm.arpa"))

    def estimate(row: int) -> float:
        words = phrases[row].decode()
        lm = kenlm_model.score(words, bos=False, eos=False) * math.log(10)
        own = 0.5 * math.log(scores[row][0]) + 0.25 * math.log(scores[row][1])
        return own + 0.7 * lm + 0.3 * len(words.split())

    expected = sorted(range(len(phrases)), key=estimate, reverse=True)[:4]
    begin, end = weighted.choices.starts[node : node + 2]
    assert weighted.choices.rows[begin:end].tolist() == expected
