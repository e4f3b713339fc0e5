"""The decoder as plain Python and NumPy, which compute with the types of their arguments."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

ARPA = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-1.5\t<unk>
0\t<s>\t-0.3125
-1.0\t</s>
-0.703125\ta\t-0.203125
-0.90625\tb\t-0.40625

\\2-grams:
-0.2\t<s> a
-0.6\ta b

\\end\\
"""
INI = """[distortion-limit]
2
[feature]
WordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=table
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=moves
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
WordPenalty0= -0.2
TranslationModel0= 0.3 0.1
LexicalReordering0= 0.1 0.2 0.15 0.05 0.1 0.3
Distortion0= 0.2
LM0= 0.4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "table").write_text("u ||| a ||| 0.306 1e-2\nv ||| b ||| 0.12345678901 2.718\n")
    moves = "0.306 0.25 0.444 0.5 0.1 0.4"
    (tmp_path / "moves").write_text(f"u ||| a ||| {moves}\nv ||| b ||| {moves}\n")
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "moses.ini").write_text(INI)
    (tmp_path / "in").write_text("u v\nv u x v\n")
    return tmp_path


SCORER = """import sys
import numpy as np
from moses_bridge.formats.ngram_scorer import NO_ID, serve_ngrams, n_places

class Scorer:
    order, start_id, end_id, open_id, reads_source = 2, 0, 1, NO_ID, False

    def read(self, sources):
        return n_places(sources)

    def encode(self, words):
        return np.array([len(word) + 1 for word in words], np.int32)

    def log_probs(self, ngrams):
        return (-0.5 - ngrams[:, 0] - 2 * ngrams[:, 1]).astype(np.float32)

    estimates = log_probs

serve_ngrams(Scorer(), sys.stdin.buffer, sys.stdout.buffer)
"""


def decoded(folder: Path, *more: str, compiled: bool = False) -> tuple[bytes, bytes]:
    arguments = ["--ini", "moses.ini", "--source", "in", "--out", "out", "--nbest", "list", *more]
    command = [sys.executable, "-c", "from moses_bridge.cli import main; main()", "decode"]
    done = subprocess.run(
        [*command, *arguments, "--jobs", "1"],
        cwd=folder,
        env=os.environ if compiled else {**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return (folder / "out").read_bytes(), (folder / "list").read_bytes()


def test_translations_and_scores_are_the_same(folder: Path) -> None:
    text, entries = decoded(folder)
    assert text.startswith(b"a b\n")
    fields = entries.split(b"\n")[0].split(b" ||| ")[2].split()
    found = [float(field) for field in fields if not field.endswith(b"=")]
    towards_previous, towards_next = 2 * math.log(0.306), math.log(0.5)
    assert found[:6] == pytest.approx([towards_previous, 0, 0, towards_next, 0, 0], abs=1e-5)
    lm = math.log(10) * (-0.2 - 0.6 - 0.40625 - 1.0)
    assert found[6:9] == pytest.approx([0, lm, -2], abs=1e-5)
    table = [math.log(0.306) + math.log(0.12345678901), math.log(0.01) + math.log(2.718)]
    assert found[9:] == pytest.approx(table, abs=1e-5)
    assert (text, entries) == decoded(folder, compiled=True)


def test_a_neural_model_has_the_same_values(folder: Path) -> None:
    (folder / "scorer.py").write_text(SCORER)
    (folder / "weights").write_text('{"NN0": [0.1]}')
    model = ["--neural-lm", f"NN0={sys.executable} scorer.py", "--weights", "weights"]
    text, entries = decoded(folder, *model)
    # <s> a b </s>: numbers 0, 2, 2, 1.
    of_best = -0.5 * 3 - (0 + 2 + 2) - 2 * (2 + 2 + 1)
    assert f"NN0= {of_best:g} ".encode() in entries.split(b"\n")[0]
    assert (text, entries) == decoded(folder, *model, compiled=True)


@pytest.mark.parametrize("score", ["1e400", "0.5x", "-0.5"])
def test_what_is_no_score_is_refused_in_the_same_words(folder: Path, score: str) -> None:
    (folder / "table").write_text(f"u ||| a ||| 0.306 {score}\n")
    with pytest.raises(AssertionError, match=r"table:1: found .*expected finite scores"):
        decoded(folder)
