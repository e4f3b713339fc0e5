"""Look-ups of an n-gram model by hand, and against kenlm."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.language_model.lm_index import LmIndex
from rescorer.contract.batch import Batch
from rescorer.views import ngram_model
from rescorer.views.ngram_model import read_ngram_model

ARPA = b"""\
\\data\\
ngram 1=5
ngram 2=4

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.5
-0.7\t</s>
-0.4\ta\t-0.25
-0.9\tb\t-0.125

\\2-grams:
-0.2\t<s> a
-0.3\ta b
-0.6\tb </s>
-0.8\ta a

\\end\\
"""

DATA = Path(__file__).resolve().parents[2] / "data"
BINARY = DATA / "kenlm" / "small.probing.gz"
ARPA_OF_BINARY = DATA / "moses" / "extract" / "lm.o5.prune001.arpa.gz"


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_bytes(ARPA)
    return path


def test_words_by_hand(arpa: Path) -> None:
    """<s> a b </s>, all found; b at the start and the end behind a by back-off; an unknown word."""
    model = read_ngram_model(arpa)
    found = model.word_log_probs(Batch([b""] * 3, [b"a b", b"b a", b"a zebra"]))
    expected = [-0.2, -0.3, -0.6, -0.5 - 0.9, -0.125 - 0.4, -0.25 - 0.7, -0.2, -0.25 - 1.5, -0.7]
    np.testing.assert_allclose(found.log_probs, math.log(10) * np.array(expected), atol=1e-6)
    assert found.pairs.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] and model.order == 2
    known = [
        word for word in (b"a", b"b", b"zebra", b"<s>", b"</s>", b"<unk>") if model.is_known(word)
    ]
    assert known == [b"a", b"b"]


def test_look_ups_through_kenlm_give_the_same(arpa: Path, kenlm: object) -> None:
    """kenlm's module writes no binary files, but it reads both forms with the same function."""
    one, other = read_ngram_model(arpa), ngram_model._of_kenlm(arpa)
    batch = Batch([b""] * 4, [b"a b", b"b </s> a", b"zebra a a", b""])
    np.testing.assert_allclose(
        other.word_log_probs(batch).log_probs, one.word_log_probs(batch).log_probs, atol=1e-5
    )
    words = (b"a", b"b", b"zebra", b"<s>", b"</s>", b"<unk>")
    assert [one.is_known(word) for word in words] == [other.is_known(word) for word in words]
    assert other.order == 2


def test_no_sentence(arpa: Path) -> None:
    found = read_ngram_model(arpa).word_log_probs(Batch([], []))
    assert found.log_probs.shape == found.pairs.shape == (0,)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"no model\n")
    with pytest.raises(InputError, match="Is this an ARPA file"):
        read_ngram_model(tmp_path / "x")


def test_a_damaged_binary_file_is_refused(tmp_path: Path, kenlm: object) -> None:
    (tmp_path / "x").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0 nonsense")
    with pytest.raises(InputError, match="numbers of another machine, or damage"):
        read_ngram_model(tmp_path / "x")
    with pytest.raises(InputError, match="a file that kenlm cannot read"):
        ngram_model._of_kenlm(tmp_path / "x")


def test_a_binary_file_is_the_model_it_was_made_of(tmp_path: Path) -> None:
    (tmp_path / "lm.binary").write_bytes(gzip.decompress(BINARY.read_bytes()))
    one, other = read_ngram_model(tmp_path / "lm.binary"), read_ngram_model(ARPA_OF_BINARY)
    batch = Batch(
        [b""] * 3, [b"never", b"", b" ".join(sorted(LmIndex.read(ARPA_OF_BINARY).vocabulary))]
    )
    values, expected = one.word_log_probs(batch), other.word_log_probs(batch)
    assert values.log_probs.tolist() == expected.log_probs.tolist() and one.order == 5


def test_kenlm_itself_reads_a_file_without_words(tmp_path: Path, kenlm: object) -> None:
    """build_binary -v writes the same file with a zero here, and without the words at the end."""
    data = bytearray(gzip.decompress(BINARY.read_bytes()))
    data[100] = 0
    (tmp_path / "lm.binary").write_bytes(data)
    one, other = read_ngram_model(tmp_path / "lm.binary"), read_ngram_model(ARPA_OF_BINARY)
    batch = Batch([b""], [b"never a word"])
    np.testing.assert_allclose(
        one.word_log_probs(batch).log_probs, other.word_log_probs(batch).log_probs, atol=1e-5
    )
