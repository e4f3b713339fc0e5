"""Documents and near copies of a test text, read from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from tuning.compare.sentence_facts import read_sentence_facts

TEST = """\
the image viewer of the desktop
a small game
tools for the network - development files
nothing like it
"""
# Near the first one by 5 of 6 words, the second one by 2 of 3, the third one by 6 of 7.
TRAIN = """\
the image viewer of a desktop
a large game
tools for the printer - development files
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "test.en").write_text(TEST)
    (tmp_path / "train.en").write_text(TRAIN)
    (tmp_path / "more.en").write_text("something else\nnothing like it\n")
    return tmp_path / "test.en"


def test_near_copies_of_one_training_text_and_of_two(source: Path) -> None:
    train = source.with_name("train.en")
    facts = read_sentence_facts(source, [train])
    assert facts.near_copies == {"0.5": 0.75, "0.7": 0.5, "0.8": 0.5}
    assert facts.n_far == 1
    assert facts.far is None  # a variance over one sentence is none
    both = read_sentence_facts(source, [source.with_name("more.en"), train])
    assert both.near_copies == {"0.5": 1.0, "0.7": 0.75, "0.8": 0.75}


def test_the_far_sentences_and_their_documents(source: Path) -> None:
    groups = source.with_name("groups")
    groups.write_text("b\na\nb\na\n")
    facts = read_sentence_facts(source, [source.with_name("more.en")], groups)
    assert facts.far is not None
    assert facts.far.tolist() == [True, True, True, False]
    assert facts.far_documents is not None
    assert facts.far_documents.tolist() == [0, 1, 0]
    assert facts.n_documents == 2
    groups.write_text("b\nb\nb\na\n")
    assert read_sentence_facts(source, [source.with_name("more.en")], groups).far is None


def test_nothing_is_known_where_nothing_is_given(source: Path) -> None:
    facts = read_sentence_facts(source)
    assert (facts.documents, facts.near_copies, facts.far) == (None, None, None)
    assert facts.n_documents == 0


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("a\nb\na\n", r"groups: found 3 lines, expected 4, as .*test\.en has"),
        ("a\nb\n\na\n", r"groups:3: found an empty line, expected the name of a document"),
        ("a\na\na\na\n", r"found one document, expected two or more\. Leave out --groups"),
    ],
)
def test_groups_that_do_not_fit(source: Path, groups: str, message: str) -> None:
    path = source.with_name("groups")
    path.write_text(groups)
    with pytest.raises(InputError, match=message):
        read_sentence_facts(source, groups=path)


def test_a_training_text_without_lines(source: Path) -> None:
    empty = source.with_name("empty")
    empty.write_bytes(b"")
    message = r"empty: found no lines, expected the source side of a tr"
    with pytest.raises(InputError, match=message):
        read_sentence_facts(source, [source, empty])
