"""Values kept from one text to the next equal those of the model, and are requested only once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import UserError
from moses_bridge.builtin.decoder.ngram_memo import (
    CachedScorer,
    CachedScorers,
    CachedValues,
    NewValues,
)

FIRST, SECOND = (b"this is a sentence", b"and one more"), (b"and one more", b"this is a sentence")


class Scorer:
    """Computes values from the words and the source word at the place, and counts its requests."""

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
    plain, known = Scorer(reads_source), CachedValues(max_ngrams)
    cached = CachedScorer(Scorer(reads_source), known)
    for sources in (FIRST, SECOND, FIRST):
        assert cached.read(sources) == plain.read(sources) == 9
        for seed in range(4):
            ngrams = drawn(reads_source, seed)
            np.testing.assert_array_equal(cached.estimates(ngrams), plain.estimates(ngrams))
            np.testing.assert_array_equal(cached.log_probs(ngrams), plain.log_probs(ngrams))
        known.enter_queued()


@pytest.mark.parametrize("reads_source", [False, True])
def test_values_of_an_earlier_text_are_not_requested_again_in_another_order_of_sentences(
    reads_source: bool,
) -> None:
    scorer, known = Scorer(reads_source), CachedValues()
    cached = CachedScorer(scorer, known)
    ngrams = drawn(True, 1)
    cached.read(FIRST)
    cached.estimates(ngrams[:, int(not reads_source) :])
    assert scorer.asked == [500]
    known.enter_queued()
    cached.read(SECOND)
    ngrams[:, 0] = (ngrams[:, 0] + 4) % 9  # the same places of the same sentences, moved
    cached.estimates(ngrams[:, int(not reads_source) :])
    assert scorer.asked == [500]
    cached.log_probs(ngrams[:1, int(not reads_source) :])
    assert scorer.asked == [500, 1]
    assert len(cached.estimates(ngrams[:0, int(not reads_source) :])) == 0


@pytest.mark.parametrize("reads_source", [False, True])
def test_nothing_is_looked_up_in_sentences_of_no_earlier_text(reads_source: bool) -> None:
    scorer, known = Scorer(reads_source), CachedValues()
    cached = CachedScorer(scorer, known)
    ngrams = drawn(reads_source, seed=4)
    for _ in range(2):
        cached.read(FIRST)
        cached.estimates(ngrams)
    assert scorer.asked == [500, 500]
    known.enter_queued()
    cached.read((b"a third sentence", b"a fourth, another one"))
    cached.estimates(ngrams)
    assert scorer.asked == [500, 500, 500]
    cached.read(FIRST)
    cached.estimates(ngrams)
    assert scorer.asked == [500, 500, 500]


def test_new_sentences_among_those_of_earlier_texts_are_requested() -> None:
    scorer, known = Scorer(reads_source=True), CachedValues()
    cached = CachedScorer(scorer, known)
    ngrams = drawn(reads_source=True, seed=3)
    cached.read(FIRST)
    expected = cached.estimates(ngrams)
    known.enter_queued()
    of_first = ngrams[:, 0] < 5  # "this is a sentence" and its end
    cached.read((FIRST[0], b"a new one"))
    asked = sum(scorer.asked)
    np.testing.assert_array_equal(cached.estimates(ngrams[of_first]), expected[of_first])
    assert sum(scorer.asked) == asked
    cached.estimates(ngrams)
    assert sum(scorer.asked) == asked + sum(~of_first)


def test_values_requested_by_another_process_are_known_in_the_next_text() -> None:
    scorer, known = Scorer(reads_source=True), CachedValues()
    others = [CachedValues(), CachedValues()]
    for other, seed in zip(others, (5, 6), strict=True):
        cached = CachedScorer(Scorer(reads_source=True), other, number=seed)
        cached.read(FIRST)
        cached.estimates(drawn(True, seed))
        cached.log_probs(drawn(True, seed)[:20])
        known.queue(other.take_queued())
        assert [len(part) for part in other.take_queued()] == [0, 0, 0]
    known.enter_queued()
    cached = CachedScorer(scorer, known)
    cached.read(SECOND)
    for seed in (5, 6):
        ngrams = drawn(True, seed)
        ngrams[:, 0] = (ngrams[:, 0] + 4) % 9
        plain = Scorer(reads_source=True)
        plain.read(SECOND)
        np.testing.assert_array_equal(cached.estimates(ngrams), plain.estimates(ngrams))
        np.testing.assert_array_equal(cached.log_probs(ngrams[:20]), plain.log_probs(ngrams[:20]))
    assert not scorer.asked


def test_of_more_values_than_are_kept_the_first_stay_known() -> None:
    scorer, known = Scorer(reads_source=False), CachedValues(max_ngrams=700)
    cached = CachedScorer(scorer, known)
    for seed in (7, 8):
        cached.read((b"sentence %d" % seed,))
        cached.estimates(drawn(False, seed))
        known.enter_queued()
    for seed, n_more in ((7, 0), (8, 300)):
        asked = sum(scorer.asked)
        cached.read((b"sentence %d" % seed,))
        cached.estimates(drawn(False, seed))
        assert (sum(scorer.asked) > asked + n_more) == bool(n_more)


def test_a_table_that_grows_keeps_its_values() -> None:
    codes = np.random.default_rng(3).integers(0, 1 << 62, 60_000)
    values, table = np.arange(60_000, dtype=np.float32), CachedValues(60_000)
    for part in np.split(np.arange(60_000), [5_000, 25_000]):
        table.queue(NewValues(set(), codes[part], values[part]))
        table.enter_queued()
    found, new = table.look_up(codes)
    assert not len(new)
    np.testing.assert_array_equal(found, values)


def test_a_table_keeps_as_many_values_as_it_may_have() -> None:
    codes, table = np.arange(1, 7), CachedValues(5)
    for part in ([0, 1, 2], [3, 4], [5]):
        table.queue(NewValues(set(), codes[part], codes[part].astype(np.float32)))
    table.enter_queued()
    found, new = table.look_up(codes)
    assert new.tolist() == [5] and found[:5].tolist() == [1, 2, 3, 4, 5]


def test_processes_that_number_words_differently_are_reported() -> None:
    known = CachedValues()
    CachedScorer(Scorer(False), known).encode([b"one", b"two"])
    second = CachedScorer(Scorer(False), known, number=1)
    second.encode([b"one", b"two", b"three"])
    third = CachedScorer(Scorer(False), known, number=2)
    with pytest.raises(UserError, match="number the word 'two' 1 and 0, expected one"):
        third.encode([b"two"])


def test_nothing_is_known_after_a_failure() -> None:
    scorer, known = Scorer(False), CachedValues()
    cached = CachedScorer(scorer, known)
    ngrams = drawn(False, 2)

    def fail(_: NDArray[np.int32]) -> NDArray[np.float32]:
        raise UserError("no value today")

    scorer.estimates = fail  # type: ignore[method-assign]
    with pytest.raises(UserError, match="today"):
        cached.estimates(ngrams)
    del scorer.estimates  # type: ignore[method-assign]
    known.enter_queued()
    np.testing.assert_array_equal(cached.estimates(ngrams), scorer.estimates(ngrams))


def test_processes_and_values_are_kept_until_the_end(tmp_path: Path) -> None:
    starts, ends = tmp_path / "starts", tmp_path / "ends"
    script = (
        f"echo start >> {starts}; echo ngram-scorer 1 2 0 0; cat > /dev/null; echo end >> {ends}"
    )
    command = ("sh", "-c", script)
    scorers = CachedScorers()
    scorers.processes.start([command, command], 3)
    for number in (0, 2, 0):
        scorers.of(command, number)
    assert starts.read_text() == "start\n" * 3
    scorers.queue(scorers.take_queued())
    scorers.end()
    assert ends.read_text() == "end\n" * 3
    assert not scorers.take_queued()
    scorers.of(command)
    assert starts.read_text() == "start\n" * 4
    scorers.end()
