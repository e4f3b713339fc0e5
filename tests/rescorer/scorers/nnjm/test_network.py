"""The network against its equations in NumPy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.nnjm import (
    Nnjm,
    NnjmConfig,
    PairLinks,
    affiliations,
    fill_windows,
    n_input_words,
    read_links,
)
from rescorer.windows.feed_forward import FirstLayerLookup
from tests.rescorer.plain_networks import log_probs


def test_the_network_is_its_equations() -> None:
    torch.manual_seed(1)
    network = Nnjm(NnjmConfig(2, 3, 5, 11, 7), 13, 6)
    torch.nn.init.normal_(network.output.weight)
    p = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    rng = np.random.default_rng(2)
    windows, words = rng.integers(0, 13, (40, 5)), rng.integers(0, 6, 40)
    expected = []
    for window, word in zip(windows, words, strict=True):
        x = np.concatenate([p["embedding.weight"][i] for i in window])
        first = np.maximum(0, p["first.weight"] @ x + p["first.bias"])
        second = np.maximum(0, p["second.weight"] @ first + p["second.bias"])
        logits = p["output.weight"] @ second + p["output.bias"]
        expected.append(logits[word] - np.log(np.exp(logits).sum()))
    with torch.inference_mode():
        tensor = torch.from_numpy(windows)
        found = log_probs(network, tensor, torch.from_numpy(words))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        looked_up = FirstLayerLookup(network).hidden(tensor)
        np.testing.assert_allclose(looked_up, network.hidden(tensor), atol=1e-6)


def affiliations_of(links: list[tuple[int, int]], n_source: int, n_target: int) -> list[int]:
    arrays = np.array(links, np.int64).reshape(-1, 2)
    found = affiliations(
        PairLinks(np.zeros(len(links), np.int64), arrays[:, 0], arrays[:, 1]),
        np.array([n_source]),
        np.array([n_target]),
    )
    return found.tolist()


def by_loop(links: list[tuple[int, int]], n_source: int, n_target: int) -> list[int]:
    own = {t: sorted(s for s, other in links if other == t) for t in range(n_target)}
    result = []
    for t in range(n_target):
        by_distance = sorted(range(n_target), key=lambda other: (abs(other - t), other < t))
        linked = [own[other] for other in by_distance if own[other]]
        middle = linked[0][(len(linked[0]) - 1) // 2] if linked else t * n_source // n_target
        result.append(middle)
    return [*result, n_source]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([(0, 0), (1, 1), (2, 2)], [0, 1, 2, 3]),
        ([(2, 0), (0, 0), (1, 0)], [1, 1, 1, 3]),
        ([(2, 0), (0, 0)], [0, 0, 0, 3]),
        ([(0, 0), (2, 2)], [0, 2, 2, 3]),
        ([(1, 2)], [1, 1, 1, 3]),
        ([], [0, 1, 2, 3]),
    ],
    ids=["one", "middle of three", "lower of two", "right before left", "far", "none"],
)
def test_the_rules(links: list[tuple[int, int]], expected: list[int]) -> None:
    assert affiliations_of(links, 3, 3) == expected


@pytest.mark.parametrize("seed", range(20))
def test_many_pairs_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source_lens, target_lens = rng.integers(1, 7, 9), rng.integers(0, 7, 9)
    links, expected = [], []
    for pair, (n_source, n_target) in enumerate(zip(source_lens, target_lens, strict=True)):
        n_links = rng.integers(0, 6) if n_target else 0
        own = {(int(rng.integers(n_source)), int(rng.integers(n_target))) for _ in range(n_links)}
        links += [(pair, *link) for link in own]
        expected += by_loop(sorted(own), int(n_source), int(n_target))
    arrays = np.array(links, np.int64).reshape(-1, 3)
    found = affiliations(PairLinks(*arrays.T), source_lens, target_lens)
    assert found.tolist() == expected


def test_nothing_has_no_affiliations() -> None:
    nothing = np.zeros(0, np.int64)
    assert len(affiliations(PairLinks(nothing, nothing, nothing), nothing, nothing)) == 0


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
    links = read_links([b"0-1 12-0", b"", b" 3-4 "])
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
        read_links([b"0-0", line])
    with pytest.raises(UnscorablePair, match="expected SOURCE-TARGET") as caught:
        fill_windows(Batch([b"a", b"b"], [b"x", b"y"], [b"0-0", line]), SHORTLISTS, SMALL)
    assert caught.value.row == 1


def test_pairs_without_links_are_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="needs a source shortlist and word links"):
        fill_windows(Batch([b"a"], [b"x"]), SHORTLISTS, SMALL)
