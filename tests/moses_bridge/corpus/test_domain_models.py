from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.language_model.arpa import write_arpa
from moses_bridge.builtin.language_model.kneser_ney import estimate, model_within
from moses_bridge.builtin.language_model.lm_index import LmIndex
from moses_bridge.builtin.language_model.ngram_counts import words_of_line
from moses_bridge.corpus.selection import (
    DomainModels,
    draw_rows,
    estimate_domain_models,
    frequent_words,
    read_domain_models,
    score_rows,
)

WORDS = [b"a", b"b", b"c", b"d", b"e", b"f"]


def text(seed: int, n_lines: int, words: list[bytes] = WORDS) -> list[bytes]:
    chance = random.Random(seed)
    weights = [chance.random() for _ in words]
    return [
        b" ".join(chance.choices(words, weights, k=chance.randint(1, 8))) for _ in range(n_lines)
    ]


def write(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def kenlm_difference(line: bytes, domain: Any, general: Any) -> float:
    n = len(line.split()) + 1
    sums = [model.score(line.decode(), bos=True, eos=True) for model in (domain, general)]
    return math.log(10) * (sums[1] - sums[0]) / n


def test_differences_are_those_of_kenlm(tmp_path: Path, kenlm: Any) -> None:
    paths = [tmp_path / "in.arpa", tmp_path / "out.arpa"]
    for seed, path in enumerate(paths):
        estimate(write(tmp_path / "text", text(seed, 300)), path, 3, ())
    models = [kenlm.Model(str(path)) for path in paths]
    lines = [*text(7, 50), b"a unheard of b", b"  d\te ", b"unheard"]
    found, lengths = read_domain_models(paths[:1], paths[1:])[0].differences(lines)
    assert found == pytest.approx([kenlm_difference(line, *models) for line in lines], abs=1e-5)
    assert lengths.tolist() == [len(line.split()) for line in lines]


def test_one_word_by_hand(tmp_path: Path) -> None:
    arpa = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n{}\t</s>\n{}\tx\n\n\\end\\\n"
    paths = [tmp_path / "in.arpa", tmp_path / "out.arpa"]
    for path, end, word in zip(paths, ("-0.5", "-0.25"), ("-0.5", "-1.5"), strict=True):
        path.write_text(arpa.format(end, word))
    model = read_domain_models(paths[:1], paths[1:])[0]
    # H = -ln 10 (log10 p(x) + log10 p(</s>)) / 2: 0.5 and 0.875 times ln 10
    assert model.differences([b"x"])[0] == pytest.approx([-0.375 * math.log(10)], rel=1e-6)
    assert model.differences([b" "])[0].tolist() == [math.inf]


def test_sides_are_summed_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    models = []
    for seed in (1, 3):
        texts = [[line.split() for line in text(s, 200)] for s in (seed, seed + 1)]
        arpas = [model_within(sentences, WORDS, [0, 0]) for sentences in texts]
        models.append(DomainModels(*(LmIndex.of(arpa, "text") for arpa in arpas)))
    rows = list(zip(text(5, 23), text(6, 23), strict=True))
    expected = sum(model.differences([row[i] for row in rows])[0] for i, model in enumerate(models))
    monkeypatch.setattr("moses_bridge.corpus.selection.ROWS_AT_ONCE", 10)
    scores, words = score_rows(iter(rows), models)
    assert np.allclose(scores, expected, rtol=0, atol=1e-12)
    assert words.tolist() == [len(row[0].split()) for row in rows]


def test_a_given_vocabulary_makes_unknown_words_countable_and_distributions_whole(
    tmp_path: Path, kenlm: Any
) -> None:
    """Checked by kenlm: the probabilities of all words behind any context sum to one."""
    sentences = [line.split() for line in text(1, 200)]
    arpa = model_within(sentences, [b"a", b"b", b"never"], [0, 0, 0])
    assert arpa.words == [b"<unk>", b"<s>", b"</s>", b"a", b"b", b"never"]
    write_arpa(tmp_path / "lm.arpa", arpa)
    model = kenlm.Model(str(tmp_path / "lm.arpa"))
    state, after = kenlm.State(), kenlm.State()
    model.BeginSentenceWrite(state)
    for word in ("a", "c", "b"):
        model.BaseScore(state, word, after)
        state, after = after, state
        words = ("a", "b", "never", "c", "</s>")  # "c" is <unk>
        probs = {w: 10.0 ** model.BaseScore(state, w, kenlm.State()) for w in words}
        assert sum(probs.values()) == pytest.approx(1.0, abs=1e-5)
        assert probs["c"] > probs["never"] > 0


def test_words_that_are_often_enough() -> None:
    lines = [b"b a b", b"<s> c <s>", b"a"]
    split = [words_of_line(line) for line in lines]
    assert frequent_words(split, 2) == [b"b", b"a"]
    assert frequent_words(split, 1) == [b"b", b"a", b"c"]


def test_a_draw_has_the_size_the_order_and_the_chance_of_a_shuffled_text() -> None:
    rows = [(b"w " * (i % 4), b"%d" % i) for i in range(400)]
    drawn = draw_rows(iter(rows), 100, seed=3)
    assert drawn == [row for row in rows if row in set(drawn)]
    n_words = sum(len((a + b" " + b).split()) for a, b in drawn)
    assert 100 <= n_words < 104
    assert draw_rows(iter(rows), 100, seed=3) == drawn != draw_rows(iter(rows), 100, seed=4)
    assert draw_rows(iter(rows), 10**6, seed=3) == rows
    hits = sum((b"", b"0") in draw_rows(iter(rows[:40]), 20, seed) for seed in range(300))
    assert 40 < hits < 95  # 20 of 100 words: some 8 or 9 of 40 rows


@pytest.mark.parametrize(
    ("domain", "general", "message"),
    [
        ([], [b"a b"], r"domain: found no words"),
        ([b"a a b b"], [b""], r"general: found no words"),
        ([b"a b c"], [b"a b"], r"domain: found no word at least 2 times"),
    ],
)
def test_texts_without_enough_words_are_refused(
    tmp_path: Path, domain: list[bytes], general: list[bytes], message: str
) -> None:
    paths = write(tmp_path / "domain", domain), write(tmp_path / "general", general)
    with pytest.raises(InputError, match=message):
        estimate_domain_models(paths[:1], paths[1:], 2, 2, 1)
