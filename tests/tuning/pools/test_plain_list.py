"""Lists read by compiled code, against the reader of any list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuning.pools import nbest_pool
from tuning.pools.bleu_stats import References
from tuning.pools.nbest_pool import read_pool
from tuning.pools.plain_list import read_plain_list

TOKENS = [b"D0=", b"-1", b"LM0=", b"-2.5", b"-3"]
GOOD = b"7 |||  a | b  ||| D0= -1 LM0= -2.5 1.25e-05 ||| -1.5\n"


def test_a_line_as_a_decoder_writes_it() -> None:
    found = read_plain_list(GOOD + b"0|||||| D0=\t0 LM0= -0 +.5 |||\n", TOKENS, 8)
    assert found is not None
    assert found.sentence_ids.tolist() == [7, 0]
    text, end = found.text_starts[0], found.text_ends[0]
    assert GOOD[text:end] == b"a | b"
    assert found.text_starts[1] == found.text_ends[1]
    assert found.values.tolist() == [[-1, -2.5, 1.25e-05], [0, 0, 0.5]]
    assert np.signbit(found.values[1]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "line",
    [
        GOOD.replace(b"7 |||", b"8 |||"),
        GOOD.replace(b"7 |||", b"-7 |||"),
        GOOD.replace(b"7 |||", b"7 7 |||"),
        GOOD.replace(b"7 |||", b"00000000007 |||"),
        GOOD.replace(b"LM0=", b"LM1="),
        GOOD.replace(b"LM0=", b"LM0"),
        GOOD.replace(b" -2.5", b""),
        GOOD.replace(b"-2.5", b"-2.5 -2.5"),
        GOOD.replace(b"-2.5", b"nan"),
        GOOD.replace(b"-2.5", b"1_0"),
        GOOD.replace(b"-2.5", b"0.12345678901234567"),
        GOOD.replace(b" ||| -1.5", b""),
        b"\n",
    ],
)
def test_any_other_line_is_left_to_the_other_reader(line: bytes) -> None:
    assert read_plain_list(GOOD + line, TOKENS, 8) is None


def test_both_readers_make_the_same_pool(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = golden / "mert"
    lists, references = sorted(folder.glob("run1.best*.out.gz")), [folder / "reference.fr"]
    n_sentences = len(references[0].read_bytes().splitlines())
    plain = [nbest_pool._read_plain(path, n_sentences) for path in lists]
    assert all(found is not None and len(found.texts) > 1000 for found in plain)
    compiled = read_pool(lists, References.read(references))
    monkeypatch.setattr(nbest_pool, "_read_plain", lambda *_: None)
    expected = read_pool(lists, References.read(references))
    assert (compiled.features == expected.features).all()
    assert (compiled.statistics == expected.statistics).all()
    assert (compiled.offsets == expected.offsets).all()
    assert compiled.names == expected.names
