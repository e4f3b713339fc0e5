"""Texts as editors save them: carriage returns and byte order marks are taken off, and said once."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.text_lines import read_parallel, read_text_lines, say
from moses_bridge.base.textio import read_lines, write_lines


@pytest.mark.parametrize(
    ("text", "lines", "said"),
    [
        (b"a b\nc\n", [b"a b", b"c"], ""),
        (
            b"a b\r\nc\r\n\r\n",
            [b"a b", b"c", b""],
            "the carriage return at the end of 3 of 3 lines",
        ),
        (b"a\r\nb\rc\nd", [b"a", b"b\rc", b"d"], "the carriage return at the end of 1 of 3 lines"),
        (
            codecs.BOM_UTF8 + b"a\r\r\n" + codecs.BOM_UTF8 + b"b\n",
            [b"a", codecs.BOM_UTF8 + b"b"],
            "the byte order mark before line 1 and the carriage return at the end of 1 of 2 lines",
        ),
        (codecs.BOM_UTF8, [b""], "the byte order mark before line 1"),
        (b"", [], ""),
    ],
)
def test_what_editors_add_is_left_out_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, lines: list[bytes], said: str
) -> None:
    path = tmp_path / "text"
    path.write_bytes(text)
    assert list(read_text_lines(path)) == lines == list(read_text_lines(path))
    assert capsys.readouterr().err == (f"note: {path}: left out {said}\n" if said else "")
    assert b"\n".join(read_lines(path)) == text.removesuffix(b"\n")  # tables keep their bytes


def test_nothing_to_say_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("")
    assert capsys.readouterr().err == ""


def test_the_lines_of_parallel_texts_are_read_so(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"a\r\nb\r\n")
    other.write_bytes(codecs.BOM_UTF8 + b"x\ny\n")
    assert list(read_parallel(one, other)) == [(b"a", b"x"), (b"b", b"y")]


def test_side_by_side(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", [b"1", b"2"])
    write_lines(tmp_path / "b.gz", [b"x", b"y"])
    assert list(read_parallel(tmp_path / "a", tmp_path / "b.gz")) == [(b"1", b"x"), (b"2", b"y")]


@pytest.mark.parametrize("short", ["a", "b"])
def test_the_shorter_file_is_named(tmp_path: Path, short: str) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / name, [b"1"] if name == short else [b"1", b"2"])
    with pytest.raises(InputError, match="the end of the file") as error:
        list(read_parallel(tmp_path / "a", tmp_path / "b"))
    assert (error.value.path, error.value.line) == (str(tmp_path / short), 2)
