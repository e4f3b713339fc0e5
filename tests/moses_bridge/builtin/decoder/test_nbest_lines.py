from __future__ import annotations

import math
from pathlib import Path

import kenlm
import numpy as np

from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import (
    Translator,
    effective_distortion_limit,
)
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model

ARPA = b"""\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-1.0\t</s>\t0
-0.7\ta\t-0.2
-0.9\tb\t-0.4

\\2-grams:
-0.2\t<s> a\t-0.1
-0.6\ta b\t-0.3
-0.1\tb </s>\t0
-0.8\tb a\t-0.25

\\3-grams:
-0.1\t<s> a b
-0.3\tb a b

\\end\\
"""


INI = """[distortion-limit]
{limit}
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=table
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=3
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.2
PhrasePenalty0= 0.1
TranslationModel0= 0.3 0.1
LexicalReordering0= 0.1 0.2 0.15 0.05 0.1 0.3
Distortion0= 0.2
LM0= 0.4
"""


def make_translator(model: Model, stack: int, pops: int) -> Translator:
    limit = effective_distortion_limit(model.distortion_limit)
    lm_scores = np.full(len(model.table.rows.nodes), np.nan, np.float32)
    weighted = make_weighted_model(model, lm_scores, model.weight_vector(None))
    return Translator(model, weighted, Limits(stack, pops, limit))


def test_a_line_of_the_nbest_list(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"u ||| b a ||| 0.5 1 ||| 0-1 0-0\nv ||| a ||| 1 0.25\n")
    (tmp_path / "reordering").write_bytes(b"v ||| a ||| .5 .5 .5 .25 .25 .25\n")
    (tmp_path / "lm.arpa").write_bytes(ARPA)
    (tmp_path / "moses.ini").write_text(INI.format(limit=0))
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
