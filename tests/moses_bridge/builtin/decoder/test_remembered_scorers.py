"""Values kept from one text to the next are those of the model, which is asked once for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError
from moses_bridge.builtin.decoder.remembered_scorers import RememberedScorer, RememberedScorers

FIRST, SECOND = (b"this is a sentence", b"and one more"), (b"and one more", b"this is a sentence")


class Scorer:
    """A value is made of the words and of the source word at the place; it counts what it is asked."""

    order, start_id, end_id, open_id = 3, 0, 1, 2

    def __init__(self, reads_source: bool) -> None:
        self.reads_source = reads_source
        self.asked: list[int] = []
        self.source: list[bytes] = []

    def encode(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        return np.arange(len(words), dtype=np.int32)

    def read(self, sources: Sequence[bytes]) -> int:
        self.source = [word for source in sources for word in (*source.split(), b"")]
        return len(self.source)

    def log_probs(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        self.asked.append(len(ngrams))
        values = ngrams[:, -3:] @ [100.0, 10.0, 1.0]
        if self.reads_source:
            values += [1000.0 * sum(self.source[place]) for place in ngrams[:, 0]]
        return values.astype(np.float32)

    def estimates(self, ngrams: NDArray[np.int32]) -> NDArray[np.float32]:
        return -self.log_probs(ngrams)


def drawn(reads_source: bool, seed: int) -> NDArray[np.int32]:
    rng = np.random.default_rng(seed)
    ngrams = rng.integers(0, 10, (500, 3), dtype=np.int32)
    places = rng.integers(0, 9, (500, 1), dtype=np.int32)
    return np.hstack([places, ngrams]) if reads_source else ngrams


@pytest.mark.parametrize("reads_source", [False, True])
@pytest.mark.parametrize("max_ngrams", [1 << 20, 700])
def test_each_value_is_that_of_the_model(reads_source: bool, max_ngrams: int) -> None:
    plain = Scorer(reads_source)
    remembered = RememberedScorer(Scorer(reads_source), max_ngrams)
    for sources in (FIRST, SECOND, FIRST):
        assert remembered.read(sources) == plain.read(sources) == 9
        for seed in range(4):
            ngrams = drawn(reads_source, seed)
            np.testing.assert_array_equal(remembered.estimates(ngrams), plain.estimates(ngrams))
            np.testing.assert_array_equal(remembered.log_probs(ngrams), plain.log_probs(ngrams))


@pytest.mark.parametrize("reads_source", [False, True])
def test_what_is_known_is_not_asked_again_in_another_order_of_sentences(reads_source: bool) -> None:
    scorer = Scorer(reads_source)
    remembered = RememberedScorer(scorer)
    ngrams = drawn(True, 1)
    remembered.read(FIRST)
    remembered.estimates(ngrams[:, int(not reads_source) :])
    assert scorer.asked == [500]
    remembered.read(SECOND)
    ngrams[:, 0] = (ngrams[:, 0] + 4) % 9  # the same places of the same sentences, moved
    remembered.estimates(ngrams[:, int(not reads_source) :])
    assert scorer.asked == [500]
    remembered.log_probs(ngrams[:1, int(not reads_source) :])
    assert scorer.asked == [500, 1]
    assert len(remembered.estimates(ngrams[:0, int(not reads_source) :])) == 0


@pytest.mark.parametrize("reads_source", [False, True])
def test_nothing_is_looked_up_in_sentences_read_for_the_first_time(reads_source: bool) -> None:
    scorer = Scorer(reads_source)
    remembered = RememberedScorer(scorer)
    ngrams = drawn(reads_source, seed=4)
    remembered.read(FIRST)
    for _ in range(2):
        remembered.estimates(ngrams)
    assert scorer.asked == [500, 500]
    remembered.read(FIRST)
    remembered.estimates(ngrams)
    assert scorer.asked == [500, 500]


def test_among_sentences_read_before_new_ones_are_asked_for() -> None:
    """What new sentences ask for is put aside at first; a known one beside them has it entered."""
    scorer = Scorer(reads_source=True)
    remembered = RememberedScorer(scorer)
    ngrams = drawn(reads_source=True, seed=3)
    remembered.read(FIRST)
    expected = remembered.estimates(ngrams)
    remembered.read((b"a third sentence",))
    remembered.estimates(ngrams[ngrams[:, 0] < 4])
    of_first = ngrams[:, 0] < 5  # "this is a sentence" and its end
    remembered.read((FIRST[0], b"a new one"))
    asked = sum(scorer.asked)
    np.testing.assert_array_equal(remembered.estimates(ngrams[of_first]), expected[of_first])
    assert sum(scorer.asked) == asked
    remembered.estimates(ngrams)
    assert sum(scorer.asked) == asked + sum(~of_first)


def test_nothing_is_known_after_a_failure() -> None:
    scorer = Scorer(False)
    remembered = RememberedScorer(scorer)
    ngrams = drawn(False, 2)

    def fail(_: NDArray[np.int32]) -> NDArray[np.float32]:
        raise UserError("no value today")

    scorer.estimates = fail  # type: ignore[method-assign]
    with pytest.raises(UserError, match="today"):
        remembered.estimates(ngrams)
    del scorer.estimates  # type: ignore[method-assign]
    np.testing.assert_array_equal(remembered.estimates(ngrams), scorer.estimates(ngrams))


def test_a_scorer_is_kept_until_its_process_ends(tmp_path: Path) -> None:
    ends = tmp_path / "ends"
    script = f"echo ngram-scorer 1 2 0 0; cat > /dev/null; echo end >> {ends}"
    command = ("sh", "-c", script)
    scorers = RememberedScorers()
    first = scorers.of(command)
    assert scorers.of(command) is first
    scorers.end()
    assert ends.read_text() == "end\n"
    assert scorers.of(command) is not first
    scorers.end()
