from __future__ import annotations

import gzip
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableFile, load_tables
from moses_bridge.builtin.decoder.reordering_table import read_reordering
from moses_bridge.builtin.decoder.source_trie import longest_phrase


def read_pairs(folder: Path, table: bytes, n_scores: int = 2) -> tuple[LoadedTable, Lexicon]:
    (folder / "table").write_bytes(table)
    words = Lexicon([b"a", b"b"])
    return load_tables([TableFile(folder / "table", n_scores)], words), words


def targets(pairs: LoadedTable, words: Lexicon) -> list[list[bytes]]:
    names, rows = words.words(), pairs.rows
    return [
        [names[i] for i in rows.words[rows.word_starts[k] : rows.word_starts[k + 1]]]
        for k in range(len(rows.nodes))
    ]


@pytest.mark.parametrize(
    ("line", "target", "scores", "links"),
    [
        (b"x ||| a ||| 1 0.5", [b"a"], [0.0, math.log(0.5)], b""),
        (b"x ||| a b ||| 2.718 1e-3 ||| 0-0 0-1", [b"a", b"b"], [0.999896, -6.907755], b"0-0 0-1"),
        (b"x\ty|||\ta   c|||0 1E+1|||0-0|||1 1 1|||", [b"a", b"c"], [-100.0, 2.302585], b"0-0"),
        (b"x ||| ||| 7.83046e-05 1e-60 ||| ||| |||\r", [], [-9.454904, -100.0], b""),
        (b"x ||| \xff\xa0 ||| .5 5. ||| 0-0", [b"\xff\xa0"], [-0.693147, 1.609438], b"0-0"),
    ],
)
def test_a_row_is_read_as_moses_reads_it(
    tmp_path: Path, line: bytes, target: list[bytes], scores: list[float], links: bytes
) -> None:
    pairs, words = read_pairs(tmp_path, line + b"\n")
    assert targets(pairs, words) == [target]
    assert pairs.rows.scores[0] == pytest.approx(scores, abs=1e-5)
    assert pairs.rows.links.tobytes().strip() == links


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"x ||| a", "3 columns"),
        (b"", "3 columns"),
        (b" ||| a ||| 1 1", "words in column 1"),
        (b"x ||| a ||| 1", "2 scores"),
        (b"x ||| a ||| 1 1 1", "2 scores"),
        (b"x ||| a ||| 1 -1", "NaN"),
        (b"x ||| a ||| 1 nan", "finite"),
        (b"x ||| a ||| 1 1e999", "finite"),
        (b"x ||| a ||| 1 0.5x", "finite"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, row: bytes, expected: str) -> None:
    with pytest.raises(InputError, match=f":2: .*{expected}"):
        read_pairs(tmp_path, b"x ||| a ||| 1 1\n" + row + b"\n")


def test_tables_grow(tmp_path: Path) -> None:
    rows = [b"s%d t%d ||| u%d v%d ||| 1 1" % (i, i, i, i % 7) for i in range(20000)]
    pairs, words = read_pairs(tmp_path, b"\n".join(rows))
    assert targets(pairs, words) == [[b"u%d" % i, b"v%d" % (i % 7)] for i in range(20000)]
    assert len(set(words.words())) == len(words) == 20009
    assert len(np.unique(pairs.rows.nodes)) == 20000
    assert longest_phrase(pairs.trie) == 2


def test_rows_of_a_source_may_be_apart(tmp_path: Path) -> None:
    pairs, _ = read_pairs(tmp_path, b"x ||| a ||| 1 1\ny z ||| a ||| 1 1\nx ||| b ||| 1 1\n")
    node = pairs.rows.nodes[0]
    rows = pairs.node_rows[pairs.node_starts[node] : pairs.node_starts[node + 1]]
    assert rows.tolist() == [0, 2]


def test_real_tables(golden: Path) -> None:
    folder = golden / "decode"
    words = Lexicon()
    pairs = load_tables([TableFile(folder / "phrase-table.gz", 4)], words)
    reordering = read_reordering(
        folder / "reordering-table.wbe-msd-bidirectional-fe.gz", pairs, words.tables
    )
    names, rows = words.words(), pairs.rows
    with (
        gzip.open(folder / "phrase-table.gz") as table,
        gzip.open(folder / "reordering-table.wbe-msd-bidirectional-fe.gz") as other,
    ):
        for row, (line, reordering_line) in enumerate(zip(table, other, strict=True)):
            if row % 50 == 0:
                columns = [column.split() for column in line.split(b"|||")]
                ids = rows.words[rows.word_starts[row] : rows.word_starts[row + 1]]
                assert [names[i] for i in ids] == columns[1]
                logs = np.log([float(score) for score in columns[2]])
                assert rows.scores[row] == pytest.approx(logs, abs=1e-5)
                logs = np.log([float(score) for score in reordering_line.split(b"|||")[2].split()])
                assert reordering[row] == pytest.approx(logs, abs=1e-5)
    assert row + 1 == len(rows.nodes)


def test_a_table_of_many_phrases_takes_no_room_for_words_that_it_does_not_have(
    tmp_path: Path,
) -> None:
    phrases = itertools.islice(itertools.product(b"abcdefghij", repeat=6), 30_000)
    lines = [b" ".join(b"%c" % word for word in phrase) for phrase in phrases]
    pairs, words = read_pairs(tmp_path, b"".join(b"%s ||| a ||| 1 1\n" % line for line in lines))
    assert len(set(pairs.rows.nodes.tolist())) == 30_000
    assert (
        len(words.tables.starts) == len(pairs.source_words.starts) == len(Lexicon().tables.starts)
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 1), (0, 0)])
def test_sparse_scores_stay_with_their_rows_among_other_tables(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Without any, there are no positions either."""
    texts = (
        b"x ||| a ||| 1 ||| 0-0\ny ||| b ||| 1\n",
        b"x ||| a ||| 1 ||| ||| ||| u 1\r\ny ||| b ||| 1\n",
    )
    files = []
    for i, kind in enumerate(order):
        (tmp_path / f"table{i}").write_bytes(texts[kind])
        files.append(TableFile(tmp_path / f"table{i}", 1))
    rows = load_tables(files, Lexicon([])).rows
    expected = [text for kind in order for text in ([b"u 1", b""] if kind else [b"", b""])]
    if not any(order):
        assert len(rows.sparse_starts) == len(rows.sparse) == 0
        return
    found = [rows.sparse[i:j].tobytes().strip() for i, j in itertools.pairwise(rows.sparse_starts)]
    assert found == expected
