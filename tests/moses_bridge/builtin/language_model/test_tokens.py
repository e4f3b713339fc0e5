from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moses_bridge.base.array_file import ArrayFiles
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.language_model import ngram_counts as tokens_module
from moses_bridge.builtin.language_model.ngram_counts import (
    BOS,
    EOS,
    UNK,
    Tokens,
    read_tokens,
    tokens_within,
)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ArrayFiles]:
    with ArrayFiles(tmp_path) as files:
        yield files


def ids(tokens: Tokens) -> list[int]:
    return list(tokens.ids.read(0, len(tokens.ids)).tolist())


def test_words_are_parted_as_lmplz_parts_them(tmp_path: Path, files: ArrayFiles) -> None:
    write_lines(tmp_path / "text", [b"a\tb\0a\rb  ", b"", b"\xa0 a\x0cb"])
    tokens = read_tokens(tmp_path / "text", files)
    assert tokens.words == [b"<unk>", b"<s>", b"</s>", b"a", b"b", b"\xa0", b"a\x0cb"]
    assert ids(tokens) == [BOS, 3, 4, 3, 4, EOS, BOS, EOS, BOS, 5, 6, EOS]
    assert (UNK, BOS, EOS) == (0, 1, 2)


@pytest.mark.parametrize("word", [b"<s>", b"</s>", b"<unk>"])
def test_words_that_mean_something_to_the_model_are_refused(
    tmp_path: Path, files: ArrayFiles, word: bytes
) -> None:
    write_lines(tmp_path / "text", [b"a", b"b " + word])
    with pytest.raises(InputError, match=f"text:2: found the word {word.decode()}"):
        read_tokens(tmp_path / "text", files)


def test_long_texts_are_written_piece_by_piece(
    tmp_path: Path, files: ArrayFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "TOKENS_AT_ONCE", 5)
    write_lines(tmp_path / "text", [b"a b", b"", b"b c a", b"d"])
    tokens = read_tokens(tmp_path / "text", files)
    assert tokens.words[EOS + 1 :] == [b"a", b"b", b"c", b"d"]
    assert ids(tokens) == [BOS, 3, 4, EOS, BOS, EOS, BOS, 4, 5, 3, EOS, BOS, 6, EOS]


def test_words_outside_a_given_vocabulary_are_unknown(files: ArrayFiles) -> None:
    tokens = tokens_within([[b"a", b"x", b"<s>"], [b"b"]], [b"b", b"a"], files)
    assert tokens.words == [b"<unk>", b"<s>", b"</s>", b"b", b"a"]
    assert ids(tokens) == [BOS, 4, UNK, UNK, EOS, BOS, 3, EOS]
