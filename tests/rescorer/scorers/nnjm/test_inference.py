from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.nnjm import (
    Nnjm,
    NnjmConfig,
    NnjmTrainingConfig,
    empty_network,
    nnjm_embeddings,
    nnjm_scorer,
    place_windows,
)
from rescorer.tables.column import ColumnConfig
from rescorer.tables.nbest import add_feature
from rescorer.tables.scored_table import score_table
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
    batches = [
        Batch([source], [b"x"], [b"0-0"]) for source in (b"a b a c c", b"a b b c c", b"a c a c c")
    ]
    one, same, other = (scorer.values(batch)[0] for batch in batches)
    assert one == pytest.approx(same, abs=1e-6)
    assert abs(one - other) > 1e-3


def test_links_outside_are_refused(scorer: WindowScorer) -> None:
    with pytest.raises(UnscorablePair, match="'a b ||| x': found the link 5-0".replace("|", r"\|")):
        scorer.values(Batch([b"a b"], [b"x"], [b"5-0"]))


def test_of_a_table_and_of_a_list_the_line_of_a_bad_link_is_told(
    scorer: WindowScorer, tmp_path: Path
) -> None:
    table, nbest, source = tmp_path / "t", tmp_path / "n", tmp_path / "s"
    named, out = NamedScorer("m", scorer, "0"), tmp_path / "out"
    for link in (b"5-0", b"9" * 20 + b"-0"):
        table.write_bytes(b"a ||| x ||| 1 ||| 0-0\na b ||| x ||| 1 ||| %s\n" % link)
        with pytest.raises(InputError, match=r"t:2: found the link '?[59]") as caught:
            score_table(str(table), str(out), [named], ColumnConfig())
        assert "of 'a b ||| x'" in str(caught.value)
        source.write_bytes(b"a b\n")
        list_line = b"0 ||| x ||| LM0= 1 ||| 1 ||| "
        nbest.write_bytes(list_line + b"0-0\n" + list_line + b"%s\n" % link)
        with pytest.raises(InputError, match=r"n:2: found the link .*Are these the links of"):
            add_feature(str(nbest), source, scorer, "A0", str(out))
        del caught


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
