"""Lookup against the kenlm module and against values derived by hand."""

from __future__ import annotations

import gzip
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.language_model.lm_index import LmIndex, lm_score

TINY = b"""free text before the header
\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-0.9\t</s>
-0.7\ta\t-0.2
-0.8\tb\t-0.4

\\2-grams:
-0.5\t<s> a\t-0.1
-0.25\ta b\t-0.125
-4e-1\tb </s>
-0.6\tb a

\\3-grams:
-0.05\t<s> a b
-0.0625\ta b </s>

\\end\\
"""


@njit
def score(tables: Any, context: Any, n_context: int, word: int) -> Any:
    """`lm_score`, which compiled code calls."""
    return lm_score(tables, context, n_context, word, context)


def tiny(tmp_path: Path, *changes: tuple[bytes, bytes]) -> Path:
    text = TINY
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "tiny.arpa"
    path.write_bytes(text)
    return path


def unpacked(path: Path, tmp_path: Path) -> Path:
    plain = tmp_path / path.name.removesuffix(".gz")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    return plain


def read_gz_lines(path: Path, n_lines: int) -> list[bytes]:
    with gzip.open(path) as stream:
        return [line.rstrip(b"\n") for line in itertools.islice(stream, n_lines)]


@pytest.mark.parametrize(
    ("sentence", "log10_probs", "lengths"),
    [
        (b"a b", [-0.5, -0.05, -0.0625], [2, 3, 3]),
        (b"b a", [-0.3 - 0.8, -0.6, -0.2 - 0.9], [1, 2, 1]),
        (b"", [-0.3 - 0.9], [1]),
        # after "<s> a": back-offs of "<s> a" and of "a"; <unk> ends every context
        (b"a c b", [-0.5, -0.1 - 0.2 - 1.5, -0.8, -0.4], [2, 1, 1, 2]),
        (b"a b b", [-0.5, -0.05, -0.125 - 0.4 - 0.8, -0.4], [2, 3, 1, 2]),
    ],
)
def test_tiny_model_by_hand(
    tmp_path: Path, sentence: bytes, log10_probs: list[float], lengths: list[int]
) -> None:
    scores, found = LmIndex.read(tiny(tmp_path)).score_sentence(sentence.split())
    assert scores == pytest.approx(log10_probs, abs=1e-6)
    assert found == lengths


@pytest.mark.parametrize(
    ("history", "kept"),
    [
        ([b"a"], [b"a", b"<s>"]),  # "<s> a" goes on as "<s> a b"
        ([b"a", b"b"], [b"b", b"a"]),  # trigrams are never kept whole
        ([b"b"], [b"b"]),  # "<s> b" is unknown
        ([b"b", b"a"], [b"a"]),  # "b a" exists, but nothing continues it and it has no back-off
        ([b"a", b"c"], []),
        ([b"a", b"b", b"</s>"], []),
    ],
)
def test_contexts_are_minimal(tmp_path: Path, history: list[bytes], kept: list[bytes]) -> None:
    index = LmIndex.read(tiny(tmp_path))
    context = np.array([index.bos_id, -7], np.int32)
    n_context = 1
    for word in history:
        _, n_context = score(index.tables, context, n_context, index.word_id(word))
    assert [index.vocabulary[word] for word in kept] == context[:n_context].tolist()


def test_unknown_words_without_unk(tmp_path: Path) -> None:
    path = tiny(tmp_path, (b"1=5", b"1=4"), (b"-1.5\t<unk>\t0\n", b""))
    scores, _ = LmIndex.read(path).score_sentence([b"c"])
    assert scores == pytest.approx([-0.3 - 100.0, -0.9])


def test_separators_and_compression_make_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "tiny.arpa.gz"
    path.write_bytes(gzip.compress(TINY.replace(b"\t", b" ").replace(b"\n", b"\r\n")))
    scores, _ = LmIndex.read(path).score_sentence([b"a", b"b"])
    assert scores == pytest.approx([-0.5, -0.05, -0.0625])


WITHOUT_BIGRAM_SUFFIX = (
    (b"free text before the header\n", b""),
    (b"2=4", b"2=6"),
    (b"-4e-1\tb </s>\n", b"-0.45\ta a\n-0.55\tb b\n-0.35\t<s> b\n"),
)
WITHOUT_BIGRAM_AND_TRIGRAM_SUFFIX = (
    *WITHOUT_BIGRAM_SUFFIX,
    (b"3=2", b"3=4\nngram 4=1"),
    (b"-0.0625\ta b </s>\n", b"-0.1\ta b a\n-0.2\t<s> a a\n-0.3\t<s> b b\n"),
    (b"\\end\\", b"\\4-grams:\n-0.03\t<s> a b </s>\n\n\\end\\"),
)


@pytest.mark.parametrize("changes", [WITHOUT_BIGRAM_SUFFIX, WITHOUT_BIGRAM_AND_TRIGRAM_SUFFIX])
def test_missing_suffixes_score_as_in_kenlm(
    tmp_path: Path, changes: tuple[tuple[bytes, bytes], ...], kenlm: Any
) -> None:
    path = tiny(tmp_path, *changes)
    model = kenlm.Model(str(path))
    index = LmIndex.read(path)
    for n_words in range(4):
        for words in itertools.product([b"a", b"b", b"c"], repeat=n_words):
            expected = list(model.full_scores(b" ".join(words).decode()))
            scores, lengths = index.score_sentence(words)
            assert scores == pytest.approx([row[0] for row in expected], abs=1e-5)
            assert lengths == [row[1] for row in expected]


WITHOUT_FREE_TEXT = (b"free text before the header\n", b"")


@pytest.mark.parametrize(
    "changes",
    [
        [(b"<unk>", b"<UNK>")],
        [(b"<unk>", b"<UNK>"), (b"-0.6\tb a", b"-0.6\tb <UNK>")],
        [(b"0\t<s>\t-0.3", b"-inf\t<s>\t-0.3")],
        [(b"-0.9\t</s>", b"-inf\t</s>")],
        [(b"-0.5\t<s> a", b"-inf\t<s> a")],
        [(b"-0.0625\ta b </s>", b"-0.0625\ta b </s>\t0")],
    ],
)
def test_odd_files_score_as_in_kenlm(
    tmp_path: Path, changes: list[tuple[bytes, bytes]], kenlm: Any
) -> None:
    path = tiny(tmp_path, WITHOUT_FREE_TEXT, *changes)
    model, index = kenlm.Model(str(path)), LmIndex.read(path)
    for words in itertools.product([b"a", b"b", b"<UNK>", b"<unk>"], repeat=3):
        expected = list(model.full_scores(b" ".join(words).decode()))
        scores, lengths = index.score_sentence(words)
        assert scores == pytest.approx([row[0] for row in expected], abs=1e-5)
        assert lengths == [row[1] for row in expected]


def test_back_offs_of_the_longest_ngrams_are_refused_as_by_kenlm(
    tmp_path: Path, kenlm: Any
) -> None:
    path = tiny(tmp_path, WITHOUT_FREE_TEXT, (b"<s> a b", b"<s> a b\t-0.25"))
    with pytest.raises(OSError, match=r"Non-zero backoff -0\.25"):
        kenlm.Model(str(path))
    with pytest.raises(InputError, match=r"tiny\.arpa:20: found the back-off -0\.25"):
        LmIndex.read(path)


@pytest.mark.parametrize("name", ["lm.o3", "lm.o5", "lm.o5.prune001"])
@pytest.mark.parametrize("language", ["fr", "en"])  # English: nearly all words unknown
def test_scores_and_lengths_of_kenlm(
    golden: Path, tmp_path: Path, name: str, language: str, kenlm: Any
) -> None:
    source = golden / "extract" / f"{name}.arpa.gz"
    model = kenlm.Model(str(unpacked(source, tmp_path)))
    index = LmIndex.read(source)
    lines = read_gz_lines(golden / "extract" / f"corpus.{language}.gz", 200)
    mixed = [b" ".join(reversed(line.split())) for line in lines]
    for line in lines + mixed:
        expected = list(model.full_scores(line.decode()))
        scores, lengths = index.score_sentence(line.split())
        assert np.abs(np.array(scores) - [row[0] for row in expected]).max() < 1e-4
        assert lengths == [row[1] for row in expected]


@pytest.mark.parametrize("name", ["lm.o3", "lm.o5.prune001"])
def test_histories_recombine_as_in_kenlm(
    golden: Path, tmp_path: Path, name: str, kenlm: Any
) -> None:
    source = golden / "extract" / f"{name}.arpa.gz"
    model = kenlm.Model(str(unpacked(source, tmp_path)))
    index = LmIndex.read(source)
    ours_of: dict[int, tuple[int, ...]] = {}
    theirs_of: dict[tuple[int, ...], int] = {}
    for line in read_gz_lines(golden / "extract" / "corpus.fr.gz", 150):
        context = np.full(index.order - 1, index.bos_id, np.int32)
        n_context = 1
        before, after = kenlm.State(), kenlm.State()
        model.BeginSentenceWrite(before)
        for word in line.split()[::2]:
            log_prob, n_context = score(index.tables, context, n_context, index.word_id(word))
            expected = model.BaseScore(before, word.decode(), after)
            before, after = after, before
            assert math.isclose(log_prob, expected, abs_tol=1e-4)
            ours, theirs = tuple(context[:n_context].tolist()), hash(before)
            assert ours_of.setdefault(theirs, ours) == ours
            assert theirs_of.setdefault(ours, theirs) == theirs
    assert len(ours_of) > 100


@pytest.mark.parametrize(
    ("changes", "line", "message"),
    [
        ([(b"\\data\\", b"data")], None, "an ARPA file"),
        ([(b"ngram 1=5\n", b"")], 3, "a count that fits"),
        ([(b"ngram 3=2", b"ngram 3=99999999999")], 5, "a count that fits"),
        ([(b"-0.7\ta", b"-0.7x\ta")], 11, "a number"),
        ([(b"-0.7\ta", b"nan\ta")], 11, "a number"),
        ([(b"-0.7\ta", b"0.7\ta")], 11, "at most 0"),
        ([(b"-0.8\tb", b"-0.8\ta")], 12, "each word once"),
        ([(b"-0.25\ta b\t", b"-0.25\ta x\t")], 16, "1-gram section"),
        ([(b"-0.6\tb a", b"-0.6\tb")], 18, "section's order"),
        ([(b"-0.1\n", b"-0.1 7\n")], 15, "nothing after"),
        ([(b"-0.6\tb a\n", b"")], 18, "as many n-grams"),
        ([(b"-0.6\tb a", b"-0.6\ta b")], 18, "each n-gram once"),
        ([(b"2=4", b"2=3")], 18, "\\3-grams:"),
        ([(b"-0.05\t<s> a b", b"-0.05\t<s> b a")], 21, "the section before"),
        ([(b"\\end\\", b"")], 25, "\\end\\"),
        ([(b"-0.9\t</s>", b"-0.9\t<s/>"), (b"-4e-1\tb </s>", b"-4e-1\tb b"),
          (b"a b </s>", b"a b b")], None, "sentence markers"),
    ],
)  # fmt: skip
def test_malformed_files(
    tmp_path: Path, changes: list[tuple[bytes, bytes]], line: int | None, message: str
) -> None:
    path = tiny(tmp_path, *changes)
    with pytest.raises(InputError) as caught:
        LmIndex.read(path)
    if line is not None:
        assert caught.value.line == line
    assert message in str(caught.value)


def test_damaged_compression(tmp_path: Path) -> None:
    path = tmp_path / "cut.arpa.gz"
    path.write_bytes(gzip.compress(TINY)[:-20])
    with pytest.raises(InputError, match="damaged"):
        LmIndex.read(path)
