"""What a phrase table may hold: each case is kept byte for byte, or refused with its line."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from xopen import xopen

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.formats.phrase_table import append_scores, read_blocks, read_rows
from moses_bridge.formats.words import split_words
from moses_bridge.tables.check.table import check_table
from moses_bridge.tables.filter import SourcePhrases, usable_rows

SUFFIXES = ["", ".gz", ".bz2", ".xz", ".zst"]
GOOD = b"a ||| b ||| 1 0.5 ||| 0-0\n"

KEPT = {
    "three columns": b"a ||| b ||| 1 0.5\n",
    "four columns": GOOD,
    "five columns": b"a ||| b ||| 1 0.5 ||| 0-0 ||| 1 2 1\n",
    "six columns": b"a ||| b ||| 1 0.5 ||| 0-0 ||| 1 2 1 ||| dom_x 1\n",
    "seven columns": b"a ||| b ||| 1 0.5 ||| 0-0 ||| 1 2 1 ||| dom_x -1.5 ||| {{Counts 1 2}}\n",
    "empty last columns": b"a ||| b ||| 1 0.5 ||| 0-0 ||| 1 2 1 ||| |||\n",
    "columns of all numbers": b"".join(GOOD + b"b ||| c ||| 1 1 ||| ||| 1 1 1\n" for _ in "ab"),
    "one score": b"a ||| b ||| 0.5\nb ||| b ||| 1e-30\n",
    "thirty scores": b"a ||| b ||| " + b"0.5 " * 30 + b"||| 0-0\n",
    "no blanks at the bars": b"a|||b|||1 0.5|||0-0\n",
    "many blanks": b"  a   b |||  c  |||  1   0.5  |||   0-0  \n",
    "tabs": b"a\tb\t|||\tc\t|||\t1\t0.5\t|||\t0-0\n",
    "factored words": b"a|N b|V ||| c|N|s ||| 1 0.5 ||| 0-0\n",
    "bars of four": b"a |||| b ||| 1 0.5 ||||\n",
    "CR LF": GOOD.replace(b"\n", b"\r\n") * 3,
    "CR LF of three columns": b"a ||| b ||| 1 0.5\r\nb ||| b ||| 1 0.5 \r\n",
    "some CR LF": GOOD + GOOD.replace(b"\n", b"\r\n") + GOOD,
    "CR within a phrase": b"a\rb ||| c ||| 1 0.5\n",
    "NBSP": b"a\xc2\xa0b \xc2\xa0 ||| \xc2\xa0 ||| 1 0.5 ||| 1-0\n",
    "U+0085": b"a\xc2\x85b ||| \xc2\x85 ||| 1 0.5 ||| 0-0\n",
    "U+2028 and U+2029": b"a\xe2\x80\xa8b ||| \xe2\x80\xa9 ||| 1 0.5\n",
    "vertical tab, form feed, separators": b"a\x0bb ||| \x0c\x1c\x1d\x1e ||| 1 0.5\n",
    "Latin-1": b"d\xe9j\xe0 ||| \xa0 \x85 ||| 1 0.5 ||| 0-0 0-1\n",
    "UTF-16 and NUL": b"\xff\xfea\0 ||| b\0 ||| 1 0.5\n",
    "byte order mark": b"\xef\xbb\xbfa ||| b ||| 1 0.5\n",
    "duplicate rows": GOOD * 3,
    "unsorted sources": b"b ||| c ||| 1 0.5\na ||| c ||| 1 0.5\nb ||| d ||| 1 0.5\n",
    "empty target": b"a |||  ||| 1 0.5 |||\n",
    "scores of 0 and above 1": b"a ||| b ||| 0 2.718\n",
    "ways to write a score": b"a ||| b ||| 1 .5 5. 1e-5 1E+2 0.000001 +1\n",
    "brackets that are no label": b"[ ] ||| a[b] ||| 1 0.5\n",
    "escaped characters": b"&#91;X&#93; &#124; ||| &amp;#124; ||| 1 0.5\n",
    "words in brackets": b"[a] b ||| [c] ||| 1 0.5\n",
    "a long row": b"a " * 50_000 + b"||| " + b"b " * 50_000 + b"||| 1 0.5\n",
}
REFUSED = {
    "an empty row": (b"\n", "1 column", "at least 3 columns"),
    "a blank row": (b" \r\n", "1 column", "at least 3 columns"),
    "one column": (b"a b\n", "1 column", "at least 3 columns"),
    "two columns": (b"a ||| b\n", "2 columns", "at least 3 columns"),
    "an empty source": (b" ||| b ||| 1 0.5\n", "an empty source phrase", "at least one word"),
    "a source of tabs": (b"\t||| b ||| 1 0.5\n", "an empty source phrase", "at least one word"),
    "a score too few": (b"a ||| b ||| 1 ||| 0-0\n", "1 score", "2"),
    "a score too many": (b"a ||| b ||| 1 1 1 ||| 0-0\n", "3 scores", "2"),
    "no scores": (b"a ||| b ||| ||| 0-0\n", "0 scores", "2"),
    "bars within the data": (b"a ||| ||| b c ||| 1 0.5\n", "the score 'b'", "a probability"),
    "a word as score": (b"a ||| b ||| 1 x\n", "the score 'x'", "a probability"),
    "NaN": (b"a ||| b ||| 1 nan\n", "the score 'nan'", "a probability"),
    "infinity": (b"a ||| b ||| inf 1\n", "the score 'inf'", "a probability"),
    "a comma": (b"a ||| b ||| 0,5 1\n", "the score '0,5'", "a probability"),
    "an underscore": (b"a ||| b ||| 1_0 1\n", "the score '1_0'", "a probability"),
    "hexadecimal": (b"a ||| b ||| 0x1 1\n", "the score '0x1'", "a probability"),
    "a dash": (b"a ||| b ||| -- 1\n", "the score '--'", "a probability"),
    "a vertical tab": (b"a ||| b ||| 1\x0b 1\n", "the score '1\\x0b'", "a probability"),
    "a CR between": (b"a ||| b ||| 1 1\r1\n", "the score '1\\r1'", "a probability"),
    "Hiero": (b"[X][X] a [X] ||| [X][X] b [X] ||| 1 0.5 ||| 0-0\n", "a hierarchical", "a phrase"),
    "Hiero's own": (b"[X] ||| [X,1] a ||| b [X,1] ||| 1 0.5\n", "a hierarchical", "a phrase pair"),
    "syntax": (b"a [X][NP] [S] ||| b [X][NP] [S] ||| 1 0.5\n", "a hierarchical", "a phrase pair"),
}


def pack(path: Path, text: bytes) -> Path:
    with xopen(path, "wb", threads=0) as stream:
        stream.write(text)
    return path


def unpack(path: Path) -> bytes:
    with xopen(path, "rb", threads=0) as stream:
        return bytes(stream.read())


def block_lines(path: Path, block_rows: int = 2) -> list[bytes]:
    return [line for block in read_blocks(path, block_rows) for line in block.lines]


@pytest.mark.parametrize("case", KEPT)
def test_what_is_kept(tmp_path: Path, case: str) -> None:
    text = KEPT[case]
    n_rows = text.count(b"\n")
    for suffix, other in zip(SUFFIXES, SUFFIXES[1:] + SUFFIXES[:1], strict=True):
        table, out = pack(tmp_path / f"table{suffix}", text), tmp_path / f"out{other}"
        write_lines(out, block_lines(table))
        assert unpack(out) == text
        assert unpack(table) == text
    assert [row.line for row in read_rows(tmp_path / "table")] == text.split(b"\n")[:-1]
    assert check_table(tmp_path / "table").n_rows == n_rows


@pytest.mark.parametrize("case", KEPT)
def test_a_score_is_added_and_can_be_cut_out_again(tmp_path: Path, case: str) -> None:
    for line in KEPT[case].split(b"\n")[:-1]:
        changed = append_scores(line, [0.123456])
        assert changed.count(b" 0.123456") == 1
        assert changed.replace(b" 0.123456", b"") == line
        assert len(split_words(changed.rstrip(b"\r").split(b"|||")[2])) == 1 + len(
            split_words(line.rstrip(b"\r").split(b"|||")[2])
        )


@pytest.mark.parametrize("case", KEPT)
def test_what_filtering_keeps(tmp_path: Path, case: str) -> None:
    text = KEPT[case]
    table = pack(tmp_path / "table", text)
    sentences = {line.split(b"|||")[0] for line in text.split(b"\n")}
    if len(text) < 10_000:
        assert list(usable_rows(table, SourcePhrases(sentences), 3)) == text.split(b"\n")[:-1]
    assert list(usable_rows(table, SourcePhrases([b"other"]), 3)) == []


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("place", [1, 2, 4])
def test_what_is_refused(tmp_path: Path, case: str, place: int) -> None:
    row, found, expected = REFUSED[case]
    table = tmp_path / "table"
    lines = [GOOD] * 4
    lines.insert(place, row)
    table.write_bytes(b"".join(lines))
    for reader in (read_rows(table), read_blocks(table, 1), read_blocks(table, 100)):
        with pytest.raises(InputError) as error:
            list(reader)
        assert (error.value.path, error.value.line) == (str(table), place + 1)
        assert error.value.found.startswith(found)
        assert error.value.expected.startswith(expected)
        assert error.value.hint
    assert {fault.line for fault in check_table(table).faults} == {place + 1}


def test_negative_scores_are_for_readers_of_logarithms(tmp_path: Path) -> None:
    table = pack(tmp_path / "table", b"a ||| b ||| -1.5 0\n")
    assert block_lines(table) == [b"a ||| b ||| -1.5 0"]
    with pytest.raises(InputError, match=r"the score '-1\.5'"):
        list(read_rows(table))


@pytest.mark.parametrize("n_columns", [3, 4, 5, 6, 7])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_golden_rows_of_each_layout(
    golden: Path, tmp_path: Path, n_columns: int, suffix: str
) -> None:
    rows = itertools.islice(read_lines(golden / "extract" / "phrase-table.gt.gz"), 2000)
    text = b"".join(with_columns(row, n_columns) + b"\n" for row in rows)
    table = pack(tmp_path / f"table{suffix}", text)
    write_lines(tmp_path / f"out{suffix}", block_lines(table, 100))
    assert unpack(tmp_path / f"out{suffix}") == text
    assert check_table(table, 4).faults == []


def with_columns(row: bytes, n_columns: int) -> bytes:
    """A row cut to some columns, or filled up with a sparse feature and a property."""
    columns = [*row.split(b"|||")[:5], b" dom_news 1 ", b" {{Counts 1 2}}"]
    return b"|||".join(columns[:n_columns]).rstrip()
