from __future__ import annotations

import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.nnjm.network import NnjmConfig
from rescorer.scorers.nnjm.windows import fill_windows, n_input_words, read_links

SHORTLISTS = Shortlists(Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y", b"z"]))
SMALL = NnjmConfig(history_words=2, source_words=3)


def test_windows_by_hand() -> None:
    """Ids: </s> 0, <unk> 1, then the words; <s> of the target is 5, source ids begin at 6, its <s> is 10."""
    batch = Batch([b"a b", b"b"], [b"x z", b"q"], [b"0-0 1-1", b""])
    rows, pairs = fill_windows(batch, SHORTLISTS, SMALL)
    assert rows.tolist() == [
        [5, 5, 10, 8, 9, 2],
        [5, 2, 8, 9, 6, 4],
        [2, 4, 9, 6, 6, 0],
        [5, 5, 10, 9, 6, 1],
        [5, 1, 9, 6, 6, 0],
    ]
    assert pairs.tolist() == [0, 0, 0, 1, 1]
    assert n_input_words(SHORTLISTS) == 11


def test_an_empty_batch_has_no_windows() -> None:
    rows, pairs = fill_windows(Batch([], [], []), SHORTLISTS, SMALL)
    assert rows.shape == (0, 6) and len(pairs) == 0


def test_links_of_several_lines() -> None:
    links = read_links([b"0-1 12-0", b"", b" 3-4 "], "links")
    assert links.pairs.tolist() == [0, 0, 2]
    assert links.sources.tolist() == [0, 12, 3] and links.targets.tolist() == [1, 0, 4]


@pytest.mark.parametrize("link", [b"2-0", b"0-2"])
def test_links_that_leave_their_pair_are_refused(link: bytes) -> None:
    batch = Batch([b"a b", b"a b"], [b"x y", b"x y"], [b"0-0", link])
    message = f"a b ||| x y': found the link {link.decode()}, expected links within 2 source"
    with pytest.raises(UnscorablePair, match=message.replace("|", r"\|")) as caught:
        fill_windows(batch, SHORTLISTS, SMALL)
    assert caught.value.row == 1


@pytest.mark.parametrize(
    "line", [b"0-", b"0_1", b"0-1 x", b"-1-0", b"9" * 20 + b"-0", b"0-" + b"9" * 5000]
)
def test_malformed_links_are_refused(line: bytes) -> None:
    with pytest.raises(InputError, match=r"links:2: .*expected SOURCE-TARGET"):
        read_links([b"0-0", line], "links")
    with pytest.raises(UnscorablePair, match="expected SOURCE-TARGET") as caught:
        fill_windows(Batch([b"a", b"b"], [b"x", b"y"], [b"0-0", line]), SHORTLISTS, SMALL)
    assert caught.value.row == 1


def test_pairs_without_links_are_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="needs a source shortlist and word links"):
        fill_windows(Batch([b"a"], [b"x"]), SHORTLISTS, SMALL)
