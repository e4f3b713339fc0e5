from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moses_bridge.builtin.extraction.aligned_corpus import (
    AlignedCorpus,
)
from moses_bridge.builtin.extraction.lexical import lexical_table, write_lexical_tables
from moses_bridge.textio import read_lines

Links = list[tuple[int, int]]


Sentence = tuple[list[bytes], list[bytes], Links]


def test_lexical_tables_have_the_rows_of_moses(
    golden: Path, golden_corpus: AlignedCorpus, tmp_path: Path
) -> None:
    table = lexical_table(golden_corpus)
    write_lexical_tables(golden_corpus, table, tmp_path / "lex.e2f", tmp_path / "lex.f2e")
    for name in ("lex.e2f", "lex.f2e"):
        expected = sorted(read_lines(golden / "extract" / f"{name}.gz"))
        assert sorted(read_lines(tmp_path / name)) == expected


def test_lexical_tables_by_hand(
    tmp_path: Path, corpus_of: Callable[[list[Sentence]], AlignedCorpus]
) -> None:
    sentences: list[Sentence] = [([b"x", b"y"], [b"A", b"B"], [(0, 0)])]
    corpus = corpus_of(sentences)
    write_lexical_tables(corpus, lexical_table(corpus), tmp_path / "e2f", tmp_path / "f2e")
    rows = {name: set(read_lines(tmp_path / name)) for name in ("e2f", "f2e")}
    assert rows == {
        "e2f": {b"x A 1.0000000", b"y NULL 1.0000000", b"NULL B 1.0000000"},
        "f2e": {b"A x 1.0000000", b"NULL y 1.0000000", b"B NULL 1.0000000"},
    }
