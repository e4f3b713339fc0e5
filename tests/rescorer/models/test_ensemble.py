from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import NamedScorer, WordLogProbs
from rescorer.contract.vocabulary import Vocabulary
from rescorer.models.ensemble import ensemble, named_ensemble

PAIRS = Batch([b"a", b"b", b"a b"], [b"x y", b"", b"y"])
PAIR_OF_WORD = np.array([0, 0, 0, 1, 2, 2])


class Words:
    """A model whose words have given probabilities."""

    needs_links = False

    def __init__(self, probs: list[float], words: tuple[bytes, ...] = (b"x", b"y")) -> None:
        self.log_probs = np.log(probs)
        self.shortlist = Vocabulary(words)

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        return WordLogProbs(self.log_probs, PAIR_OF_WORD)

    def values(self, batch: Batch) -> NDArray[np.float64]:
        return np.bincount(PAIR_OF_WORD, self.log_probs)


class Whole:
    """A model of whole sentences alone, which needs word links."""

    needs_links = True
    shortlist = None

    def values(self, batch: Batch) -> NDArray[np.float64]:
        return np.array([-1.0, -2.0, -3.0])


ONE, OTHER = Words([0.5, 0.2, 0.1, 0.3, 0.4, 0.9]), Words([0.1, 0.4, 0.3, 0.7, 0.8, 0.5])


def test_the_mean_of_word_probabilities() -> None:
    found = ensemble([ONE, OTHER], "word-probs").values(PAIRS)
    np.testing.assert_allclose(found, np.log([0.3 * 0.3 * 0.2, 0.5, 0.6 * 0.7]))


def test_the_mean_of_sentence_log_probabilities() -> None:
    found = ensemble([ONE, OTHER], "sentence-log-probs").values(PAIRS)
    products = [0.01 * 0.012, 0.3 * 0.7, 0.36 * 0.4]
    np.testing.assert_allclose(found, np.log(np.sqrt(products)))


def test_one_model_is_itself() -> None:
    assert ensemble([ONE], "word-probs") is ONE


def test_a_model_of_sentences_takes_part_in_means_of_sentences() -> None:
    both = ensemble([ONE, Whole()], "sentence-log-probs")
    assert both.needs_links
    means = (ONE.values(PAIRS) + Whole().values(PAIRS)) / 2
    np.testing.assert_allclose(both.values(PAIRS), means)
    with pytest.raises(ConfigError, match="does not predict word by word"):
        ensemble([ONE, Whole()], "word-probs")


def test_models_with_other_words_have_no_mean_of_words() -> None:
    with pytest.raises(ConfigError, match="know other target words"):
        ensemble([ONE, Words([0.5] * 6, (b"x", b"z"))], "word-probs")


def test_an_ensemble_is_named_and_changes_with_its_models() -> None:
    one, other = NamedScorer("one", ONE, "1"), NamedScorer("other", OTHER, "2")
    both = named_ensemble([one, other], "word-probs")
    assert both.name == "mean of word-probs of one, other"
    np.testing.assert_allclose(
        both.scorer.values(PAIRS), ensemble([ONE, OTHER], "word-probs").values(PAIRS)
    )
    prints = {
        both.fingerprint,
        named_ensemble([one, other], "sentence-log-probs").fingerprint,
        named_ensemble([one, NamedScorer("other", OTHER, "3")], "word-probs").fingerprint,
    }
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("prints", "message"), [(["1"], "name two at least"), (["1", "2", "1"], "a model comes twice")]
)
def test_a_mean_of_one_model_is_refused(prints: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        named_ensemble([NamedScorer("m", ONE, each) for each in prints], "sentence-log-probs")
