from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from rescorer.runs.expected_bleu import list_reader, nbest_lists
from rescorer.runs.expected_bleu.list_reader import read_lists
from rescorer.runs.expected_bleu.nbest_lists import StoredLists
from tests.rescorer.runs.expected_bleu.plain_lists import plain_lists

LISTS = b"""\
1 ||| y  ||| LM0= -1 ||| -1.5 ||| 0=0
0 ||| x y z  ||| LM0= -2 ||| -2 ||| 0-1=0-1 2=2 ||| 0-0
0 ||| z x  ||| LM0= -3 ||| -2.5 ||| 2=0 0=1 1=2
0 ||| x y &#124;&#124;&#124;  ||| LM0= -3 ||| -4 ||| 0-1=0-1 2=2
"""
# In the order in which they first come.
PAIRS = [(b"a b", b"x y"), (b"c", b"z"), (b"a", b"x"), (b"b", b""), (b"c", b"|||"), (b"d", b"y")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nbest").write_bytes(LISTS)
    (tmp_path / "source").write_bytes(b"a  b c\nd\nnever translated\n")
    (tmp_path / "reference").write_bytes(b"x y z\ny\nw\n")
    return tmp_path


def lists_of(folder: Path) -> StoredLists:
    return read_lists(folder / "nbest", folder / "source", [folder / "reference"])


def test_lists_by_hand(folder: Path) -> None:
    """Sentences in their order; an empty target phrase is one too."""
    stored = lists_of(folder)
    lists = stored.part(np.arange(len(stored)))
    assert list(zip(lists.pairs.sources, lists.pairs.targets, strict=True)) == PAIRS
    assert lists.starts.tolist() == [0, 3, 4] and len(lists) == 2
    assert lists.totals.tolist() == [-2, -2.5, -4, -1.5]
    assert lists.n_uses.tolist() == [2, 3, 2, 1]
    assert lists.uses.tolist() == [0, 1, 1, 2, 3, 0, 4, 5]
    assert lists.bleu[[0, 3]].tolist() == pytest.approx([1, 1])
    assert 0 < lists.bleu[1] < lists.bleu[2] < 1


def test_some_of_the_lists(folder: Path) -> None:
    part = lists_of(folder).part(np.array([1, 0]))
    assert part.starts.tolist() == [0, 1, 4] and part.totals.tolist() == [-1.5, -2, -2.5, -4]
    assert part.uses.tolist() == [0, 1, 2, 2, 3, 4, 1, 5]
    assert (part.pairs.sources[0], part.pairs.targets[0]) == (b"d", b"y")
    assert part.n_uses.tolist() == [1, 2, 3, 2]


def test_several_references(folder: Path) -> None:
    (folder / "other").write_bytes(b"z x\nw\nw\n")
    paths = [folder / "reference", folder / "other"]
    assert read_lists(folder / "nbest", folder / "source", paths).part(np.array([0])).bleu[
        1
    ] == pytest.approx(1)


def test_documents_are_those_of_the_listed_sentences(folder: Path) -> None:
    (folder / "groups").write_bytes(b"first\n\nfirst\n")
    references = [folder / "reference"]
    lists = read_lists(folder / "nbest", folder / "source", references, folder / "groups")
    assert lists.documents is not None and lists.documents.tolist() == [1, -1]
    assert list(lists.content())[:-1] == list(lists_of(folder).content())
    (folder / "groups").write_bytes(b"first\nsecond\n")
    with pytest.raises(InputError, match="the end of the file"):
        read_lists(folder / "nbest", folder / "source", references, folder / "groups")


def test_other_lists_have_other_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(lists_of(folder).content())
    monkeypatch.setattr(nbest_lists, "NUMBERS_AT_ONCE", 7)
    assert b"".join(lists_of(folder).content()) == b"".join(before)
    monkeypatch.undo()
    assert list(lists_of(folder).content()) == before
    (folder / "nbest").write_bytes(LISTS.replace(b"-2.5 |||", b"-2.6 |||"))
    assert list(lists_of(folder).content()) != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "nbest: found no hypothesis"),
        (b"3 ||| y  ||| LM0= -1 ||| -1 ||| 0=0\n", "nbest:1: found the sentence id 3, expected an id below 3"),
        (b"1 ||| y  ||| LM0= -1 ||| -1 ||| 0-1=0\n", "source words 0 to 1, expected words of its sentence"),
        (b"1 ||| y  ||| LM0= -1 ||| -1\n", "nbest:1: found no segmentation"),
        (b"1 ||| y  ||| LM0= -1 ||| -1 ||| 0-0 \n", "nbest:1: found '0-0 ', expected a segmentation"),
        (b"0 ||| y  ||| LM0= -1 ||| -1 ||| 2-1=0\n", "source words 2 to 1"),
        (b"0 ||| y  ||| LM0= -1 ||| none ||| 0=0\n", "nbest:1: found the value 'none'"),
    ],
)  # fmt: skip
def test_malformed_lists_are_refused(text: bytes, message: str, folder: Path) -> None:
    (folder / "nbest").write_bytes(text)
    with pytest.raises(InputError, match=message):
        lists_of(folder)


def test_texts_of_other_lengths_are_refused(folder: Path) -> None:
    (folder / "reference").write_bytes(b"x\n")
    with pytest.raises(InputError, match="reference:2: found the end of the file"):
        lists_of(folder)


def text_of(*entries: bytes) -> bytes:
    return b"".join(entry + b"\n" for entry in entries)


@pytest.mark.parametrize("seed", range(4))
def test_any_lists_are_those_of_the_plain_path(seed: int, folder: Path) -> None:
    """Ids that come back later, several references, and lines that compiled code leaves to the plain path."""
    rng = np.random.default_rng(seed)
    vocabulary = [b"a", b"b", b"&#124;", b"&#124;&#124;&#124;x", b"w\r", b"\xc3\xa9t\xc3\xa9", b"|"]
    texts = [
        [b" ".join(rng.choice(vocabulary, rng.integers(1, 9))) for _ in range(6)] for _ in range(3)
    ]
    for name, lines in zip(("source", "reference", "other"), texts, strict=True):
        (folder / name).write_bytes(text_of(*lines))
    entries = []
    for _ in range(150):
        number = int(rng.integers(0, 6))
        n_source = len(texts[0][number].split(b" "))
        places = np.sort(rng.integers(0, 9, rng.integers(0, 5)))
        words = b" ".join(rng.choice(vocabulary, 9))
        spans = [np.sort(rng.integers(0, n_source, 2)) for _ in range(len(places) + 1)]
        segmentation = b" ".join(
            b"%d=%d" % (first, place)
            if first == last
            else b"%d-%d=%d-%d" % (first, last, place, place)
            for (first, last), place in zip(spans, [0, *places], strict=True)
        )
        total = rng.choice([b"-1.5", b" -2e-3 ", b"0.12345678901234567890123", b"7", b"\t3"])
        rest = rng.choice([b"", b" ||| 0-0 1-1", b" |||  "])
        entries.append(
            b"%d ||| %s  ||| LM0= -1 ||| %s ||| %s%s" % (number, words, total, segmentation, rest)
        )
    (folder / "nbest").write_bytes(text_of(*entries)[: -1 if seed % 2 else None])
    files = folder / "nbest", folder / "source", [folder / "reference", folder / "other"]
    expected, stored = plain_lists(*files), read_lists(*files)
    found = stored.part(np.arange(len(stored)))
    for name in ("starts", "totals", "n_uses"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    np.testing.assert_allclose(found.bleu, expected.bleu, rtol=1e-14)
    assert len(found.pairs) == len(expected.pairs)
    for each, other in zip(found.uses, expected.uses, strict=True):
        assert found.pairs.sources[each] == expected.pairs.sources[other]
        assert found.pairs.targets[each] == expected.pairs.targets[other]


def test_phrases_that_overlap_need_more_room_than_the_line(folder: Path) -> None:
    """Each of 300 phrases has all 2,000 words of the source."""
    (folder / "source").write_bytes(b"s " * 2000 + b"\nd\nd\n")
    spans = b" ".join(b"%d-1999=0" % first for first in range(300))
    line = b"0 ||| x  ||| LM0= 1 ||| 1 ||| " + spans + b"\n"
    (folder / "nbest").write_bytes(line + LISTS[: LISTS.index(b"\n") + 1] + line)
    lists = lists_of(folder).part(np.array([0]))
    assert lists.n_uses.tolist() == [300, 300] and len(lists.pairs) == 300
    assert lists.pairs.sources[lists.uses[299]] == b" ".join([b"s"] * 1701)


def test_a_fault_names_its_line_in_a_later_piece(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [LISTS, LISTS, LISTS + b"0 ||| x  ||| LM0= -2 ||| -2 ||| 0-3=0\n"]
    monkeypatch.setattr(list_reader, "read_whole_lines", lambda _: iter(pieces))
    with pytest.raises(InputError, match="nbest:13: found the source words 0 to 3"):
        lists_of(folder)


def test_memory_does_not_grow_with_the_lists(folder: Path) -> None:
    """Five times the hypotheses, in pieces as large."""
    peaks = []
    for n in (20_000, 100_000):
        lines = (
            b"0 ||| x%d y  ||| LM0= -1 ||| -1 ||| 0=0 1=1 0-1=2\n" % (k % 500) for k in range(n)
        )
        (folder / "nbest").write_bytes(b"".join(lines))
        lists_of(folder)
        tracemalloc.start()
        lists = lists_of(folder)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(lists.part(np.array([0])).totals) == n
    assert peaks[1] < peaks[0] + 5_000_000
