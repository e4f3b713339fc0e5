from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.extraction import aligned_corpus
from moses_bridge.builtin.extraction.aligned_corpus import read_aligned_corpus, read_text


def test_order_of_the_vocabulary_holds_with_the_bar(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", [b"{ a \x01", b"", b"z\ta"])
    text = read_text(tmp_path / "text", tmp_path)
    assert text.vocabulary == [b"\x01", b"a", b"z", b"{", b"|||"]
    assert [text.words[a:b].tolist() for a, b in itertools.pairwise(text.starts)] == [
        [3, 1, 0],
        [],
        [2, 1],
    ]


def test_a_text_of_another_editor_has_the_same_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(tmp_path / "plain", [b"a b .", b"", b"c ."])
    write_lines(tmp_path / "other", [b"\xef\xbb\xbfa b .\r", b"\r", b"c .\r"])
    plain, other = (read_text(tmp_path / name, tmp_path) for name in ("plain", "other"))
    assert other.vocabulary == plain.vocabulary == [b".", b"a", b"b", b"c", b"|||"]
    assert other.words.tolist() == plain.words.tolist()
    assert "other: left out the byte order mark before line 1 and the" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "target", "links", "message"),
    [
        ([b"a b", b"c"], [b"x", b"y"], [b"0-0", b"1-0"], r"links:2: found the link 1-0"),
        ([b"a", b"c"], [b"x", b"y"], [b"0-0", b"0-1"], r"links:2: found the link 0-1"),
        ([b"a"], [b"x"], [b"0:0"], r"links:1: found the link .*0:0"),
        ([b"a", b"b"], [b"x", b"y"], [b"0-0"], r"links:2: found the end of the file"),
        ([b"a"], [b"x"], [b"0-0", b""], r"links:2: found a line, expected 1 lines"),
        ([b"a", b"b"], [b"x"], [b"0-0"], r"corpus.e:2: found the end of the file"),
        ([b"a", b"b ||| c"], [b"x", b"y"], [b"", b""], r"corpus.f:2: found the word '\|\|\|'"),
    ],
)
def test_faults_are_told_with_their_line(
    tmp_path: Path, source: list[bytes], target: list[bytes], links: list[bytes], message: str
) -> None:
    paths = (tmp_path / "corpus.f", tmp_path / "corpus.e", tmp_path / "links")
    for path, lines in zip(paths, (source, target, links), strict=True):
        write_lines(path, lines)
    with pytest.raises(InputError, match=message):
        read_aligned_corpus(*paths, tmp_path)


@pytest.mark.parametrize("sentences_at_once", [1, 3, 10_000])
def test_links_are_ascending_for_each_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences_at_once: int
) -> None:
    monkeypatch.setattr(aligned_corpus, "SENTENCES_AT_ONCE", sentences_at_once)
    paths = (tmp_path / "f", tmp_path / "e", tmp_path / "links")
    write_lines(paths[0], [b"a b", b"", b"c", b"d a e"])
    write_lines(paths[1], [b"x", b"y", b"z w", b"x y"])
    write_lines(paths[2], [b"1-0 0-0", b"", b"0-1", b"2-1 2-0 0-1 2-1"])
    corpus = read_aligned_corpus(*paths, tmp_path)
    assert corpus.of_source.starts.tolist() == [0, 1, 2, 3, 4, 4, 6]
    assert corpus.of_source.others.tolist() == [0, 0, 3, 5, 4, 5]
    assert corpus.of_target.starts.tolist() == [0, 2, 2, 2, 3, 4, 6]
    assert corpus.of_target.others.tolist() == [0, 1, 2, 5, 3, 5]
    assert corpus.source.starts.tolist() == [0, 2, 2, 3, 6]
