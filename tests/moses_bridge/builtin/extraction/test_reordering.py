"""Lexicalised reordering against real Moses output and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, read_aligned_corpus
from moses_bridge.builtin.extraction.pair_counts import collected_pairs, reordering_probs
from moses_bridge.builtin.extraction.table_output import write_table

TABLE = "reordering-table.wbe-msd-bidirectional-fe.gz"


def table_rows(corpus: AlignedCorpus, out: Path) -> list[bytes]:
    with collected_pairs(corpus, 7, 1 << 20, out) as pairs:
        write_table(out, corpus, pairs, reordering_probs, jobs=2, has_counts=False)
    return list(read_lines(out))


def test_table_is_that_of_moses_byte_for_byte(golden: Path, tmp_path: Path) -> None:
    folder = golden / "extract"
    corpus = read_aligned_corpus(
        folder / "corpus.en.gz",
        folder / "corpus.fr.gz",
        folder / "aligned.grow-diag-final-and.gz",
        tmp_path,
    )
    assert table_rows(corpus, tmp_path / TABLE) == list(read_lines(folder / TABLE))


ONCE = {"mono": b"0.6 0.2 0.2", "swap": b"0.2 0.6 0.2", "other": b"0.2 0.2 0.6"}


@pytest.mark.parametrize(
    ("links", "previous", "following"),
    [
        (b"0-0 1-1 2-2", "mono", "mono"),
        # Source word 2 comes first: a swap with the word after it, none with the one before.
        (b"0-2 1-1 2-0", "swap", "swap"),
        # What comes before in the target stands two further on in the source.
        (b"1-1 2-2 3-0", "other", "mono"),
        (b"1-1", "other", "other"),
        # Both corners are linked: neither monotone nor swapped.
        (b"0-0 2-0 1-1", "other", "other"),
    ],
)
def test_orientations_by_hand(tmp_path: Path, links: bytes, previous: str, following: str) -> None:
    paths = (tmp_path / "f", tmp_path / "e", tmp_path / "links")
    for path, line in zip(paths, (b"a b c d", b"A B C D", links), strict=True):
        write_lines(path, [line])
    rows = table_rows(read_aligned_corpus(*paths, tmp_path), tmp_path / "table")
    assert b"b ||| B ||| " + ONCE[previous] + b" " + ONCE[following] in rows


def test_edges_of_the_sentence_are_linked(tmp_path: Path) -> None:
    paths = (tmp_path / "f", tmp_path / "e", tmp_path / "links")
    for path, line in zip(paths, (b"a", b"A", b"0-0"), strict=True):
        write_lines(path, [line, line])
    # Two monotone occurrences: (2 + 0.5) / (2 + 1.5).
    assert table_rows(read_aligned_corpus(*paths, tmp_path), tmp_path / "table") == [
        b"a ||| A ||| 0.714286 0.142857 0.142857 0.714286 0.142857 0.142857"
    ]


def test_missing_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file"):
        read_aligned_corpus(tmp_path / "f", tmp_path / "e", tmp_path / "links", tmp_path)
