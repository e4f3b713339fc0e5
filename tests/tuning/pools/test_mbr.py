"""How much hypotheses are like each other, against the metrics' own counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF as SacreChrf

from moses_bridge.base.errors import InputError
from tuning.pools.bleu_stats import BLEU, References
from tuning.pools.mbr import add_mbr, mbr_values

TEXTS = [b"a b c d e", b"a b c x e f", b"q", "é b c d".encode(), b"a b c d e", b""]


def test_values_by_chrf_are_means_of_sacrebleus_numbers() -> None:
    texts = [text.decode() for text in TEXTS]
    expected = [
        np.mean(
            [
                SacreChrf().sentence_score(text, [other]).score / 100
                for place, other in enumerate(texts)
                if place != own
            ]
        )
        for own, text in enumerate(texts)
    ]
    assert mbr_values(TEXTS, "chrf").tolist() == pytest.approx(expected)


def test_values_by_bleu_are_means_of_the_qualities_of_pairs() -> None:
    expected = []
    for own, text in enumerate(TEXTS):
        others = [[other] for place, other in enumerate(TEXTS) if place != own]
        pairs = [(place, text) for place in range(len(others))]
        expected.append(BLEU.quality(References(others).statistics(pairs)).mean())
    assert mbr_values(TEXTS, "bleu").tolist() == pytest.approx(expected)


def test_a_list_gets_the_feature_and_a_single_hypothesis_has_0(tmp_path: Path) -> None:
    nbest, out = tmp_path / "list", tmp_path / "out"
    nbest.write_text(
        "0 ||| a b ||| LM0= -1 ||| -1\n1 ||| c ||| LM0= -2 ||| -2\n0 ||| a b ||| LM0= -3 ||| 0\n"
    )
    add_mbr(nbest, "chrf", out)
    assert out.read_text().splitlines() == [
        "0 ||| a b ||| LM0= -1 MBR0= 1.000000 ||| -1",
        "1 ||| c ||| LM0= -2 MBR0= 0.000000 ||| -2",
        "0 ||| a b ||| LM0= -3 MBR0= 1.000000 ||| 0",
    ]
    nbest.write_text("0 ||| a b\n")
    with pytest.raises(InputError, match="list:1: found 2 fields, expected at least 4"):
        add_mbr(nbest, "bleu", out)
