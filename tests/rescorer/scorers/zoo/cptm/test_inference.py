"""Values of a continuous-space phrase model against NumPy float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import WordScorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.scorers.zoo.cptm import Cptm, cptm_embeddings, cptm_scorer, cptm_summaries

if TYPE_CHECKING:
    from tests.rescorer.scorers.cptm.conftest import NumpyCode

ON_CPU = Compute(device="cpu")


def test_the_value_is_the_product_of_the_codes(
    model: TrainedModel[Cptm], numpy_code: NumpyCode
) -> None:
    sources, targets = [b"a", b"b a b", b"c new other", b"a"], [b"b y", b"y", b"", b"strange"]
    ids = [([2], [3, 6]), ([3, 2, 3], [6]), ([4, 1, 1], []), ([2], [1])]
    expected = [numpy_code(one) @ numpy_code(other) for one, other in ids]
    found = cptm_scorer(model, ON_CPU).values(Batch(sources, targets))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert expected[2] == 0


def test_order_does_not_count(model: TrainedModel[Cptm]) -> None:
    scorer = cptm_scorer(model, ON_CPU)
    one, other = scorer.values(Batch([b"a b c", b"c a b"], [b"x y", b"y x"]))
    assert one == pytest.approx(other, abs=1e-6)


def test_it_predicts_no_word(model: TrainedModel[Cptm]) -> None:
    scorer = cptm_scorer(model, ON_CPU)
    assert not isinstance(scorer, WordScorer) and not scorer.needs_links
    assert scorer.shortlist is model.shortlists.target
    assert scorer.values(Batch([], [])).shape == (0,)


def test_words_of_both_sides_and_phrases_have_vectors(
    model: TrainedModel[Cptm], numpy_code: NumpyCode
) -> None:
    vectors = cptm_embeddings(model)
    assert {side: array.shape for side, array in vectors.items()} == {
        "source": (5, 4),
        "target": (5, 4),
    }
    np.testing.assert_array_equal(vectors["source"][3], vectors["target"][3])
    expected = [numpy_code(ids) for ids in ([3], [4, 2])]
    found = cptm_summaries(model, ON_CPU)([b"b", b"c a"])
    np.testing.assert_allclose(found, expected, atol=1e-6)
