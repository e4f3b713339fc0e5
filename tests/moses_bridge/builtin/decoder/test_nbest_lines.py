from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from tests.moses_bridge.builtin.decoder.conftest import ARPA, ini_text, make_translator


def test_a_line_of_the_nbest_list(tmp_path: Path, kenlm: Any) -> None:
    (tmp_path / "table").write_bytes(b"u ||| b a ||| 0.5 1 ||| 0-1 0-0\nv ||| a ||| 1 0.25\n")
    (tmp_path / "reordering").write_bytes(b"v ||| a ||| .5 .5 .5 .25 .25 .25\n")
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "moses.ini").write_text(ini_text(0, 0.3, 0.1))
    translator = make_translator(load_model(tmp_path / "moses.ini", None, None), 9, 9)
    text, lines = translator.translate(3, b" v  u\t||| ", NBestFormat(5, 20, True, True))
    assert text == b"a b a |||"
    lm = kenlm.Model(str(tmp_path / "lm.arpa")).score("a b a |||") * math.log(10)
    reordering = f"{math.log(0.5):g} 0 0 {math.log(0.25):g} 0 0"
    tables = f"{math.log(0.5):g} {math.log(0.25):g}"
    total = 0.1 * math.log(0.5) + 0.05 * math.log(0.25) + 0.4 * lm + 0.2 * 4 + 0.1 * 3
    total += 0.3 * math.log(0.5) + 0.1 * math.log(0.25) - 100
    assert lines == [
        f"3 ||| a b a &#124;&#124;&#124;  ||| LexicalReordering0= {reordering} Distortion0= 0 "
        f"LM0= {lm:g} WordPenalty0= -4 PhrasePenalty0= 3 TranslationModel0= {tables} ||| {total:g} "
        "||| 0=0 1=1-2 2=3 ||| 1-1 1-2 2-3 ".encode()
    ]
