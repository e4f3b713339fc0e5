from __future__ import annotations

import math
from pathlib import Path

import kenlm
import numpy as np

from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.phrase_choice import choose
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model

ARPA = b"""\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-1.0\t</s>\t0
-0.7\ta\t-0.2
-0.9\tb\t-0.4

\\2-grams:
-0.2\t<s> a
-0.6\ta b
-0.1\tb </s>

\\end\\
"""


INI = """[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=table
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
TranslationModel0= 0.5 0.25
LM0= 0.5
"""


def write_model(folder: Path, table: bytes, reordering: bytes = b"", ini: str = INI) -> Path:
    (folder / "table").write_bytes(table)
    (folder / "reordering").write_bytes(reordering)
    (folder / "lm.arpa").write_bytes(ARPA)
    (folder / "moses.ini").write_text(ini)
    return folder / "moses.ini"


def test_table_limit_cuts_by_weighted_score_with_the_language_model(tmp_path: Path) -> None:
    phrases = [b"a", b"b", b"a b", b"b a", b"c a b", b"b b b"]
    scores = [(0.3, 0.2), (0.3, 0.9), (0.9, 0.01), (0.5, 0.5), (0.9, 0.9), (0.99, 0.99)]
    rows = [b"x ||| %b ||| %g %g" % (t, *s) for t, s in zip(phrases, scores, strict=True)]
    ini = write_model(tmp_path, b"\n".join(rows))
    model = load_model(ini, 4, None)
    weights = model.weight_vector({"WordPenalty0": [-0.3], "LM0": [0.7], "PhrasePenalty0": [2]})
    weighted = make_weighted_model(model, np.full(len(rows), np.nan, np.float32), weights)
    node = int(model.table.rows.nodes[0])
    choose(node, weighted)
    kenlm_model = kenlm.Model(str(tmp_path / "lm.arpa"))

    def estimate(row: int) -> float:
        words = phrases[row].decode()
        lm = kenlm_model.score(words, bos=False, eos=False) * math.log(10)
        own = 0.5 * math.log(scores[row][0]) + 0.25 * math.log(scores[row][1])
        return own + 0.7 * lm + 0.3 * len(words.split())

    expected = sorted(range(len(phrases)), key=estimate, reverse=True)[:4]
    begin, end = weighted.choices.starts[node : node + 2]
    assert weighted.choices.rows[begin:end].tolist() == expected
