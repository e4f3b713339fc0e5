from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.errors import InputError
from rescorer.contract import Data
from rescorer.training.text import read_parallel_text, read_text


def written(folder: Path, **texts: bytes) -> dict[str, Path]:
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return {name: folder / name for name in texts}


def test_empty_lines_are_no_sentences(tmp_path: Path) -> None:
    paths = written(tmp_path, text=b"a b\n\n \t\n c\xa0\r\nlast")
    assert read_text(paths["text"]) == [b"a b", b" c\xa0\r", b"last"]


@pytest.mark.parametrize("text", [b"", b"\n", b" \n\t\n"])
def test_a_text_without_sentences_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(InputError, match="no sentence, expected target text"):
        read_text(written(tmp_path, text=text)["text"])


def test_pairs_with_an_empty_side_are_left_out(tmp_path: Path) -> None:
    paths = written(
        tmp_path, path=b"x\n\nz\nw\n", source=b"a\nb\n \nd d\n", links=b"0-0\n1-1\n2-2\n\n"
    )
    text = read_parallel_text(Data(**paths))
    assert (text.sources, text.targets, text.links) == ([b"a", b"d d"], [b"x", b"w"], [b"0-0", b""])
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
