from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from rescorer.runs.expected_bleu.nbest_lists import NBestLists, read_lists

LISTS = b"""\
1 ||| y  ||| LM0= -1 ||| -1.5 ||| 0=0
0 ||| x y z  ||| LM0= -2 ||| -2 ||| 0-1=0-1 2=2 ||| 0-0
0 ||| z x  ||| LM0= -3 ||| -2.5 ||| 2=0 0=1 1=2
0 ||| x y &#124;&#124;&#124;  ||| LM0= -3 ||| -4 ||| 0-1=0-1 2=2
"""
# Places of the pairs in the order in which they first come.
PAIRS = [(b"d", b"y"), (b"a b", b"x y"), (b"c", b"z"), (b"a", b"x"), (b"b", b""), (b"c", b"|||")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nbest").write_bytes(LISTS)
    (tmp_path / "source").write_bytes(b"a  b c\nd\nnever translated\n")
    (tmp_path / "reference").write_bytes(b"x y z\ny\nw\n")
    return tmp_path


def lists_of(folder: Path) -> NBestLists:
    return read_lists(folder / "nbest", folder / "source", [folder / "reference"])


def test_lists_by_hand(folder: Path) -> None:
    """Sentences in their order; an empty target phrase is one too."""
    lists = lists_of(folder)
    assert list(zip(lists.pairs.sources, lists.pairs.targets, strict=True)) == PAIRS
    assert lists.starts.tolist() == [0, 3, 4] and len(lists) == 2
    assert lists.totals.tolist() == [-2, -2.5, -4, -1.5]
    assert lists.n_uses.tolist() == [2, 3, 2, 1]
    assert lists.uses.tolist() == [1, 2, 2, 3, 4, 1, 5, 0]
    assert lists.bleu[[0, 3]].tolist() == pytest.approx([1, 1])
    assert 0 < lists.bleu[1] < lists.bleu[2] < 1


def test_some_of_the_lists(folder: Path) -> None:
    part = lists_of(folder).part(np.array([1, 0]))
    assert part.starts.tolist() == [0, 1, 4] and part.totals.tolist() == [-1.5, -2, -2.5, -4]
    assert part.uses.tolist() == [0, 1, 2, 2, 3, 4, 1, 5]
    assert part.n_uses.tolist() == [1, 2, 3, 2]


def test_several_references(folder: Path) -> None:
    (folder / "other").write_bytes(b"z x\nw\nw\n")
    paths = [folder / "reference", folder / "other"]
    assert read_lists(folder / "nbest", folder / "source", paths).bleu[1] == pytest.approx(1)


def test_documents_are_those_of_the_listed_sentences(folder: Path) -> None:
    (folder / "groups").write_bytes(b"first\n\nfirst\n")
    references = [folder / "reference"]
    lists = read_lists(folder / "nbest", folder / "source", references, folder / "groups")
    assert lists.documents is not None and lists.documents.tolist() == [1, -1]
    assert list(lists.content())[:-1] == list(lists_of(folder).content())
    (folder / "groups").write_bytes(b"first\nsecond\n")
    with pytest.raises(InputError, match="the end of the file"):
        read_lists(folder / "nbest", folder / "source", references, folder / "groups")


def test_other_lists_have_other_content(folder: Path) -> None:
    before = list(lists_of(folder).content())
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
