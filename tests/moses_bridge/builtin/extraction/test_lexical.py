from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moses_bridge.base.textio import read_lines
from moses_bridge.builtin.extraction import lexical
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus
from moses_bridge.builtin.extraction.lexical import (
    lexical_table,
    link_probs,
    write_lexical_tables,
)

Links = list[tuple[int, int]]


Sentence = tuple[list[bytes], list[bytes], Links]


@pytest.mark.parametrize("words_at_once", [1 << 18, 997])
def test_lexical_tables_have_the_rows_of_moses(
    golden: Path,
    golden_corpus: AlignedCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words_at_once: int,
) -> None:
    monkeypatch.setattr(lexical, "WORDS_AT_ONCE", words_at_once)
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


@pytest.mark.parametrize("words_at_once", [1 << 18, 3])
def test_probabilities_stand_beside_their_links(
    tmp_path: Path,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    monkeypatch: pytest.MonkeyPatch,
    words_at_once: int,
) -> None:
    monkeypatch.setattr(lexical, "WORDS_AT_ONCE", words_at_once)
    sentences: list[Sentence] = [
        ([b"x", b"y"], [b"A", b"B"], [(0, 0)]),
        ([b"x", b"z"], [b"B", b"A", b"C"], [(0, 0), (0, 1), (1, 2)]),
    ]
    corpus = corpus_of(sentences)
    table = lexical_table(corpus)
    # x is linked to A twice, to B once; B once to x, once to NULL; y with nothing
    sources, targets = link_probs(corpus, table, tmp_path)
    assert targets.links == pytest.approx([2 / 3, 1 / 3, 2 / 3, 1], abs=1e-7)
    assert targets.null.tolist() == [0, 1, 0, 0, 0]
    assert sources.links == pytest.approx([1, 1 / 2, 1, 1], abs=1e-7)
    assert sources.null.tolist() == [0, 1, 0, 0]
