"""Binary files that KenLM made: scores are those of the ARPA file and of KenLM; damaged ones are refused."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.language_model.kenlm_binary import is_kenlm_binary, n_buckets
from moses_bridge.builtin.language_model.lm_index import LmIndex, lm_score
from tests.moses_bridge.builtin.language_model.test_lm_index import (
    WITHOUT_BIGRAM_AND_TRIGRAM_SUFFIX,
    tiny,
)

DATA = Path(__file__).resolve().parents[3] / "data"
EXTRACT = DATA / "moses" / "extract"
LOSSLESS = ("probing", "trie", "compressed")
QUANTISED = ("quantised", "quantised-compressed")
HEADER = (
    88  # place of order, places for each n-gram, type, whether there are words, version, counts
)
N_WORDS = 137


@njit
def score(tables: Any, context: Any, n_context: int, word: int) -> Any:
    """`lm_score`, which compiled code calls."""
    return lm_score(tables, context, n_context, word, context)


def binary(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(gzip.decompress((DATA / "kenlm" / f"{name}.gz").read_bytes()))
    return path


def sentences() -> list[list[bytes]]:
    """Those that the model is of, backwards too, with words that it does not know."""
    text = gzip.decompress((EXTRACT / "corpus.fr.gz").read_bytes())
    lines = [line.split() for line in text.splitlines()]
    mixed = [[*line[::-1], b"never", *line[:2], b"<unk>"] for line in lines]
    return [*lines, *mixed, []]


@pytest.fixture(scope="module")
def arpa() -> LmIndex:
    return LmIndex.read(EXTRACT / "lm.o5.prune001.arpa.gz")


@pytest.mark.parametrize("kind", LOSSLESS)
def test_scores_are_those_of_the_arpa_file(kind: str, tmp_path: Path, arpa: LmIndex) -> None:
    index = LmIndex.read(binary(f"small.{kind}", tmp_path))
    assert (index.order, len(index.vocabulary)) == (5, N_WORDS)
    for words in sentences():
        assert index.score_sentence(words) == arpa.score_sentence(words)


@pytest.mark.parametrize("kind", [*LOSSLESS, *QUANTISED])
def test_scores_are_those_of_kenlm(kind: str, tmp_path: Path, kenlm: Any) -> None:
    path = binary(f"small.{kind}", tmp_path)
    model, index = kenlm.Model(str(path)), LmIndex.read(path)
    for words in sentences():
        expected = list(model.full_scores(b" ".join(words).decode()))
        scores, lengths = index.score_sentence(words)
        assert scores == pytest.approx([row[0] for row in expected], abs=1e-5)
        assert lengths == [row[1] for row in expected]


@pytest.mark.parametrize(
    ("n_entries", "expected"),
    [
        (1, 2),  # one more than the entries at least
        (1000, 1500),
        (2**24 - 1, 25_165_822),  # of 25,165,822.5
        # Numbers of 32 bits above 2 ** 24 are even: this one is taken for 2 ** 24.
        (2**24 + 1, 25_165_824),
        (20_000_003, 30_000_006),  # taken for 20,000,004
    ],
)
def test_places_of_hash_tables_are_counted_in_floats_of_32_bits(
    n_entries: int, expected: int
) -> None:
    assert n_buckets(n_entries, np.float32(1.5)) == expected


@pytest.mark.parametrize("kind", LOSSLESS)
def test_histories_are_those_of_the_arpa_file(kind: str, tmp_path: Path, arpa: LmIndex) -> None:
    """What hypotheses are recombined by, word for word."""
    index = LmIndex.read(binary(f"small.{kind}", tmp_path))
    n_histories = 0
    for words in sentences()[::5]:
        for one, other in zip(histories(index, words), histories(arpa, words), strict=True):
            assert one == other
            n_histories += 1
    assert n_histories > 500


def histories(index: LmIndex, words: list[bytes]) -> list[list[bytes]]:
    names = {number: word for word, number in index.vocabulary.items()}
    context, n_context = np.full(index.order - 1, index.bos_id, np.int32), 1
    found = []
    for word in words:
        _, n_context = score(index.tables, context, n_context, index.word_id(word))
        found.append([names[number] for number in context[:n_context].tolist()])
    return found


@pytest.mark.parametrize("kind", ["probing", "trie"])
def test_missing_suffixes(kind: str, tmp_path: Path) -> None:
    index = LmIndex.read(binary(f"gaps.{kind}", tmp_path))
    arpa = LmIndex.read(tiny(tmp_path, *WITHOUT_BIGRAM_AND_TRIGRAM_SUFFIX))
    for words in itertools.product([b"a", b"b", b"c"], repeat=5):
        scores, lengths = index.score_sentence(words)
        expected, expected_lengths = arpa.score_sentence(words)
        assert scores == pytest.approx(expected, abs=1e-6)
        assert lengths == expected_lengths


def test_a_log_probability_may_be_minus_infinity(tmp_path: Path, kenlm: Any) -> None:
    path = binary("gaps.probing", tmp_path)
    data = path.read_bytes()
    for sign in (1, -1):  # a mark of KenLM's: the value is that of "b a"
        old, new = (np.float32(sign * value).tobytes() for value in (0.6, np.inf))
        data = data.replace(old, new)
    path.write_bytes(data)
    scores, _ = LmIndex.read(path).score_sentence([b"b", b"a"])
    expected = [row[0] for row in kenlm.Model(str(path)).full_scores("b a")]
    assert scores == pytest.approx(expected) and scores[1] == -np.inf


def test_what_is_a_binary_file(tmp_path: Path) -> None:
    assert is_kenlm_binary(binary("gaps.trie", tmp_path))
    assert not is_kenlm_binary(EXTRACT / "lm.o3.arpa.gz")
    assert not is_kenlm_binary("-")


def patched(place: int, content: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:place] + content + data[place + len(content) :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (patched(49, b"4"), "incomplete or of another version"),
        (patched(34, b"incomplete\n"), "incomplete or of another version"),
        (patched(56, b"\1"), "numbers of another machine"),
        (patched(HEADER, b"\1"), "n-grams of 1 words, expected 2 to 16"),
        (patched(HEADER + 4, np.float32("nan").tobytes()), "nan places for an n-gram"),
        (patched(HEADER + 8, b"\1"), "the type probing with rest costs, version 0"),
        (patched(HEADER + 8, b"\x63"), "the type type 99"),
        (patched(HEADER + 12, b"\0"), "no words, expected a file built without the option -v"),
        (patched(HEADER + 16, b"\7"), "the type probing, version 7"),
        (patched(HEADER + 20, b"\xff" * 7), "bytes, expected at least"),
        (patched(156, b"\xff"), "255 words, expected 137, as its header says"),
        (lambda data: data[:60], "numbers of another machine"),
        (lambda data: data[:100], r"100 bytes, expected at least"),
        (lambda data: data[:-300], r"\d+ words, expected 137 words, <unk> first"),
        (lambda data: data.replace(b"\0</s>\0", b"\0<~s>\0"), "no 1-gram </s>"),
    ],
)
def test_damaged_files_are_refused(
    damage: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    path = binary("small.probing", tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message) as caught:
        LmIndex.read(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("kind", [*LOSSLESS, *QUANTISED])
def test_changed_bytes_give_a_model_or_an_error(kind: str, tmp_path: Path) -> None:
    path = binary(f"small.{kind}", tmp_path)
    whole = path.read_bytes()
    rng = np.random.default_rng(7)
    refused = 0
    for trial in range(150):
        data = bytearray(whole)
        end = 300 if trial % 2 else len(data)  # the header decides where all else is
        for place in rng.integers(HEADER, end, 3):
            data[place] = rng.integers(256)
        path.write_bytes(data)
        try:
            LmIndex.read(path).score_sentence([b"never", b"</s>"])
        except InputError:
            refused += 1
    assert refused >= 40
