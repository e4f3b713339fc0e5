"""Encoded sentences in files are those in memory."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Vocabulary
from rescorer.training import text as module
from rescorer.training import text as text_module
from rescorer.training.text import (
    SpilledLines,
    columns_of,
    mapped_phrases,
    mapped_text,
    read_parallel_text,
    read_text,
)


def written(folder: Path, **texts: bytes) -> dict[str, Path]:
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return {name: folder / name for name in texts}


def test_empty_lines_are_no_sentences(tmp_path: Path) -> None:
    paths = written(tmp_path, text=b"a b\n\n \t\n c\xa0\r\nlast")
    assert [*read_text(paths["text"])] == [b"a b", b" c\xa0", b"last"]


@pytest.mark.parametrize("text", [b"", b"\n", b" \n\t\n"])
def test_a_text_without_sentences_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(InputError, match="no sentence, expected target text"):
        read_text(written(tmp_path, text=text)["text"])


def test_pairs_with_an_empty_side_are_left_out(tmp_path: Path) -> None:
    paths = written(
        tmp_path, path=b"x\n\nz\nw\n", source=b"a\nb\n \nd d\n", links=b"0-0\n1-1\n2-2\n\n"
    )
    text = read_parallel_text(Data(**paths))
    columns = [[*column] for column in (text.sources, text.targets, text.links or ())]
    assert columns == [[b"a", b"d d"], [b"x", b"w"], [b"0-0", b""]]
    assert [*text.content()] == [b"a", b"d d", b"x", b"w", b"0-0", b""]


def test_without_links_there_are_none(tmp_path: Path) -> None:
    text = read_parallel_text(Data(**written(tmp_path, path=b"x\n", source=b"a\n")))
    assert text.links is None and [*text.content()] == [b"a", b"x"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"path": b"x\ny\n", "source": b"a\n"}, "source:2: found the end of the file"),
        ({"path": b"x\n", "source": b"a\nb\n"}, "path:2: found the end of the file"),
        ({"path": b"x\n", "source": b"a\n", "links": b""}, "links:1: found the end of the file"),
        ({"path": b"x\n", "source": b"\n"}, "path: found no sentence pair"),
        ({"path": b"", "source": b""}, "path: found no sentence pair"),
    ],
)
def test_texts_that_do_not_fit_are_refused(
    tmp_path: Path, texts: dict[str, bytes], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_parallel_text(Data(**written(tmp_path, **texts)))


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_lines_on_the_disk_are_read_as_they_were_written(
    monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(text_module, "PIECE_BYTES", piece)
    expected = [b"a" * (number % 23) + b"\r\xff" * (number % 3) for number in range(200)]
    lines = SpilledLines()
    for line in expected:
        lines.append(line)
    assert len(lines) == 200
    assert [*zip(lines, lines, strict=True)] == [*zip(expected, expected, strict=True)]
    lines.append(b"more")
    assert [*lines] == [*expected, b"more"]
    assert not len(SpilledLines()) and [*SpilledLines()] == []


def test_a_full_disk_is_told_with_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk() -> tuple[int, str]:
        path = tmp_path / "file"
        path.touch()
        return os.open("/dev/full", os.O_RDWR), str(path)

    monkeypatch.setattr("tempfile.mkstemp", full_disk)
    lines = SpilledLines()
    lines.append(b"a")
    with pytest.raises(OSError, match=r"No space left on device: ."):
        list(lines)


def test_columns_come_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "SENTENCES_AT_ONCE", 2)
    rows = [(b"a", b"x"), (b"b", b"y"), (b"c", b"z")]
    assert [*columns_of(rows)] == [[[b"a", b"b"], [b"x", b"y"]], [[b"c"], [b"z"]]]


WORDS = [b"a", b"b", b"c"]


@pytest.fixture
def sentences() -> list[bytes]:
    draw = random.Random(1)
    return [b" ".join(draw.choices([*WORDS, b"x"], k=draw.randint(0, 9))) for _ in range(50)]


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_any_block_gives_the_same_ids(
    sentences: list[bytes], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "SENTENCES_AT_ONCE", at_once)
    vocabulary = Vocabulary(WORDS)
    for mapped, whole in (
        (mapped_text, vocabulary.encode_text),
        (mapped_phrases, vocabulary.encode_phrases),
    ):
        found, expected = mapped(vocabulary, iter(sentences)), whole(sentences)
        for own, plain in zip(found, expected, strict=True):
            assert own.dtype == plain.dtype
            assert np.array_equal(own, plain)


def test_nothing_encoded() -> None:
    ids, lens = mapped_phrases(Vocabulary(WORDS), [])
    assert (ids.shape, lens.shape) == ((0, 1), (0,))
