"""Pieces of whole lines have the lines of the file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from moses_bridge.base import whole_lines
from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines
from moses_bridge.base.whole_lines import read_whole_lines


@pytest.mark.parametrize(
    "text", [b"", b"a\n", b"a", b"\n\n", b"a\nbcd\n\nefghij\nk", b"abcdefghi\n"]
)
@pytest.mark.parametrize("n_bytes", [1, 3, 100])
def test_they_are_the_lines(
    text: bytes, n_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_lines, "PIECE_BYTES", n_bytes)
    (tmp_path / "text").write_bytes(text)
    pieces = list(read_whole_lines(tmp_path / "text"))
    assert all(piece.endswith(b"\n") for piece in pieces)
    expected = b"".join(line + b"\n" for line in read_lines(tmp_path / "text"))
    assert b"".join(pieces) == expected


def test_faults_name_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_lines, "PIECE_BYTES", 1000)
    whole = gzip.compress(b"".join(b"%d\n" % (k * 7919) for k in range(50_000)))
    (tmp_path / "text.gz").write_bytes(whole[: len(whole) // 2])
    n_lines = 0
    with pytest.raises(InputError, match="damaged data") as error:
        for piece in read_whole_lines(tmp_path / "text.gz"):
            n_lines += piece.count(b"\n")
    assert error.value.line == n_lines + 1 > 1
    monkeypatch.setenv("MOSES_BRIDGE_LINE_MB", "1")
    (tmp_path / "long").write_bytes(b"a\n" + b"b" * (1 << 21))
    with pytest.raises(InputError, match="long:2: found a line of more than 1 MiB"):
        list(read_whole_lines(tmp_path / "long"))
