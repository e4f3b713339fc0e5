from __future__ import annotations

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.nnjm.inference import nnjm_embeddings, nnjm_scorer
from rescorer.scorers.nnjm.network import Nnjm, NnjmConfig
from rescorer.scorers.nnjm.task import NnjmTrainingConfig, empty_network
from rescorer.scorers.nnjm.windows import place_windows
from rescorer.windows.scoring import WindowScorer

SHORTLISTS = Shortlists(Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y"]))
SIZES = NnjmConfig(2, 3, 5, 11, 7)


@pytest.fixture
def scorer() -> WindowScorer:
    torch.manual_seed(1)
    network = empty_network(NnjmTrainingConfig(model=SIZES), SHORTLISTS)
    assert isinstance(network, Nnjm)
    torch.nn.init.normal_(network.output.weight)
    return nnjm_scorer(TrainedModel("nnjm", network.eval(), SHORTLISTS, {}), Compute(device="cpu"))


def test_it_needs_links_and_counts_unknown_words(scorer: WindowScorer) -> None:
    assert scorer.needs_links
    assert scorer.shortlist.n_unknown([b"x q", b"y"]).tolist() == [1, 0]


def test_links_change_the_value_and_company_does_not(scorer: WindowScorer) -> None:
    one = scorer.values(Batch([b"a b c"], [b"x y"], [b"0-0 1-1"]))
    other = scorer.values(Batch([b"a b c"], [b"x y"], [b"2-0 1-1"]))
    assert abs(one - other) > 1e-3
    both = scorer.values(Batch([b"a b c"] * 2, [b"x y"] * 2, [b"2-0 1-1", b"0-0 1-1"]))
    np.testing.assert_allclose(both, [*other, *one], atol=1e-6)


def test_words_far_from_the_linked_ones_do_not_count(scorer: WindowScorer) -> None:
    """Three source words are seen around each affiliated one, and around the place behind the last word."""
    asked = [
        Batch([source], [b"x"], [b"0-0"]) for source in (b"a b a c c", b"a b b c c", b"a c a c c")
    ]
    one, same, other = (scorer.values(batch)[0] for batch in asked)
    assert one == pytest.approx(same, abs=1e-6)
    assert abs(one - other) > 1e-3


def test_links_outside_are_refused(scorer: WindowScorer) -> None:
    with pytest.raises(InputError, match="the link 5-0 of the pair"):
        scorer.values(Batch([b"a b"], [b"x"], [b"5-0"]))


def test_the_vectors_of_words_are_those_of_their_numbers_in_a_window() -> None:
    """The word in the middle of the window around a place is the one at that place."""
    network = empty_network(NnjmTrainingConfig(model=SIZES), SHORTLISTS)
    vectors = nnjm_embeddings(TrainedModel("nnjm", network, SHORTLISTS, {}))
    windows, _ = place_windows([b"a b c"], SHORTLISTS, SIZES)
    assert SHORTLISTS.source is not None
    ids, _ = SHORTLISTS.source.encode_text([b"a b c"])
    table = network.embedding.weight.detach().numpy()
    np.testing.assert_array_equal(
        vectors["source"][ids], table[windows[:3, SIZES.source_words // 2]]
    )
    assert len(vectors["source"]) == len(SHORTLISTS.source)
    np.testing.assert_array_equal(vectors["target"], table[: len(SHORTLISTS.target)])
