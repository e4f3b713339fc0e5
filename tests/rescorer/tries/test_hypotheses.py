"""Which hypotheses go on: by hand, and a beam against plain lists over a language of made-up probabilities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rescorer.tries.hypotheses import Beam, Draws, Ended, Live, _drawn, first_hypotheses

N_WORDS = 4
Prefix = tuple[int, ...]


def log_p(source: int, prefix: Prefix) -> NDArray[np.float64]:
    """Natural log p of all words behind a prefix, </s> (0) among them."""
    rng = np.random.default_rng((source, len(prefix), *prefix))
    p = rng.dirichlet([0.7] * N_WORDS)
    return np.asarray(np.log(p))


def allowed(source: int, prefix: Prefix, longest: Sequence[int]) -> NDArray[np.float64]:
    """The same, with </s> alone where the prefix is as long as it may be."""
    values = log_p(source, prefix)
    return (
        np.where(np.arange(N_WORDS) == 0, values, -np.inf)
        if len(prefix) == longest[source]
        else values
    )


def run(choice: Any, live: Live, longest: Sequence[int]) -> list[list[Ended]]:
    """Let all hypotheses go on until none is left."""
    while len(live.sources):
        rows = zip(live.sources.tolist(), live.words.tolist(), strict=True)
        values = np.array([allowed(source, tuple(words), longest) for source, words in rows])
        places = live.sources + 10 * live.length
        live, parents = choice.go_on(live, torch.from_numpy(values), places)
        assert len(parents) == len(live.sources)
    ended: list[list[Ended]] = choice.ended()
    return ended


def plain_beam(source: int, n: int, width: int, penalty: float, longest: Sequence[int]) -> Any:
    """The n best of what ends, with `width` prefixes of each length and nothing left out early."""
    live: dict[Prefix, float] = {(): 0.0}
    ended: dict[Prefix, float] = {}
    for length in range(longest[source] + 1):
        grown = {}
        for prefix, total in live.items():
            values = allowed(source, prefix, longest)
            ended[prefix] = total + values[0]
            grown |= {(*prefix, word): total + values[word] for word in range(1, N_WORDS)}
        best = sorted(grown, key=lambda prefix: -grown[prefix])[:width]
        live = {prefix: grown[prefix] for prefix in best if length < longest[source]}
    score = {prefix: total / (len(prefix) + 1) ** penalty for prefix, total in ended.items()}
    best = sorted(score, key=lambda prefix: -score[prefix])[:n]
    return [(score[prefix], ended[prefix], list(prefix)) for prefix in best]


LONGEST = [4, 0, 3, 5]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("n", "width"), [(1, 1), (2, 2), (3, 5), (1, 4), (6, 500)])
def test_a_beam_is_that_of_plain_lists(n: int, width: int, penalty: float) -> None:
    beam = Beam(n, width, penalty, np.array(LONGEST))
    found = run(beam, first_hypotheses(len(LONGEST), 1), LONGEST)
    for source, targets in enumerate(found):
        expected = plain_beam(source, n, width, penalty, LONGEST)
        assert [one.words for one in targets] == [words for _, _, words in expected]
        np.testing.assert_allclose(
            [(one.score, one.log_prob) for one in targets], [pair[:2] for pair in expected]
        )
        for one in targets:
            assert one.places == [source + 10 * place for place in range(len(one.words))]


def test_a_wide_beam_has_the_best_of_all() -> None:
    targets = [target for n in range(4) for target in itertools.product(range(1, 4), repeat=n)]
    totals = {}
    for target in targets:
        steps = [allowed(2, target[:i], LONGEST)[word] for i, word in enumerate((*target, 0))]
        totals[target] = sum(steps)
    (found,) = plain_beam(2, 1, 500, 0.0, LONGEST)
    assert tuple(found[2]) == max(totals, key=lambda target: totals[target])


def step(beam: Beam, *rows: Sequence[float]) -> Live:
    """The first step of a source a row."""
    values = torch.tensor(rows, dtype=torch.float64)
    return beam.go_on(first_hypotheses(len(rows), 1), values, np.zeros(len(rows), np.int64))[0]


def test_what_cannot_be_among_the_best_any_more_does_not_go_on() -> None:
    """-1 for </s>: log p falls with each word, so -1 and less is out and -0.9 is not."""
    beam = Beam(1, 9, 0.0, np.array([5]))
    assert step(beam, [-1.0, -0.9, -1.0, -1.1]).words.tolist() == [[1]]
    # Of the two best the second one may still be beaten.
    both = Beam(2, 9, 0.0, np.array([5]))
    assert step(both, [-1.0, -0.9, -1.0, -1.1]).words.tolist() == [[1], [2], [3]]


def test_a_length_penalty_lets_go_on_what_the_longest_target_could_reach() -> None:
    """-0.35 by (4 + 1) words is better than -0.1, by (2 + 1) words it is not."""
    beam = Beam(1, 9, 1.0, np.array([4, 2]))
    live = step(beam, [-0.1, -0.35, -9.0], [-0.1, -0.35, -9.0])
    assert (live.sources.tolist(), live.words.tolist()) == ([0], [[1]])


def test_what_is_not_allowed_neither_ends_nor_goes_on() -> None:
    beam = Beam(1, 9, 0.0, np.array([5]))
    assert step(beam, [-np.inf, -np.inf, -2.0]).words.tolist() == [[2]]
    assert beam.ended() == [[]]


def test_of_equal_scores_the_smaller_word_comes_first() -> None:
    beam = Beam(2, 9, 0.0, np.array([5]))
    live = Live(
        np.zeros(3, np.int64), np.zeros(3, np.int64), np.full(3, -1.0),
        np.array([[3], [1], [2]]), np.zeros((3, 1), np.int64),
    )  # fmt: skip
    beam.go_on(live, torch.full((3, 4), -0.5, dtype=torch.float64), np.zeros(3, np.int64))
    assert [(one.words, one.log_prob) for one in beam.ended()[0]] == [([1], -1.5), ([2], -1.5)]


def test_what_only_equals_the_worst_of_the_best_comes_too_late() -> None:
    beam = Beam(1, 9, 0.0, np.array([5]))
    live = step(beam, [-9.0, -0.5, -0.5])
    first = live.rows(live.words[:, 0] == 2)
    beam.go_on(first, torch.full((1, 4), -1.0, dtype=torch.float64), first.sources)
    second = live.rows(live.words[:, 0] == 1)
    beam.go_on(second, torch.full((1, 4), -1.0, dtype=torch.float64), second.sources)
    assert [(one.words, one.log_prob) for one in beam.ended()[0]] == [([2], -1.5)]


def test_the_best_go_on_first_and_no_more_than_the_width() -> None:
    live = step(
        Beam(9, 2, 0.0, np.array([5, 5])), [-9.0, -3.0, -1.0, -2.0], [-9.0, -1.0, -3.0, -2.0]
    )
    assert live.sources.tolist() == [0, 0, 1, 1]
    assert live.words[:, 0].tolist() == [2, 3, 1, 3]
    assert live.log_probs.tolist() == [-1.0, -2.0, -1.0, -2.0]


def test_first_hypotheses_are_empty() -> None:
    live = first_hypotheses(2, 3)
    assert live.sources.tolist() == [0, 0, 0, 1, 1, 1]
    assert live.draws.tolist() == [0, 1, 2, 0, 1, 2]
    assert live.log_probs.tolist() == [0.0] * 6
    assert live.words.shape == live.places.shape == (6, 0) and live.length == 0


def test_a_draw_is_where_the_sum_of_probabilities_passes_a_number() -> None:
    """Sums 0.25, 0.5 and 1; with temperature 0.5 the shares are squares: 1/6, 2/6, 1."""
    log_probs = torch.tensor([[0.25, 0.25, 0.5]] * 5).log()
    numbers = np.array([0.0, 0.24, 0.26, 0.51, 0.999])
    assert _drawn(log_probs, 1.0, numbers).tolist() == [0, 0, 1, 2, 2]
    sixths = np.array([0.9, 1.1, 1.9, 2.1, 5.9]) / 6
    assert _drawn(log_probs, 0.5, sixths).tolist() == [0, 1, 1, 2, 2]
    forbidden = torch.tensor([[-torch.inf, -0.7, -0.7]])
    assert _drawn(forbidden, 1.0, np.zeros(1)).tolist() == [1]


def draws(sources: Sequence[bytes], longest: int, n: int = 40, seed: int = 3) -> list[list[Ended]]:
    """Of sources that the language takes for its first one."""
    limits = [4] * len(sources)
    live = first_hypotheses(len(sources), n)
    choice = Draws(sources, n, longest, 1.0, seed)
    while len(live.sources):
        values = np.array([allowed(0, tuple(words), limits) for words in live.words.tolist()])
        live, _ = choice.go_on(live, torch.from_numpy(values), live.draws)
    return choice.ended()


def test_draws_hang_on_seed_and_source_alone() -> None:
    (alone,) = draws([b"a"], 4)
    other, again = draws([b"b", b"a"], 9)
    assert alone == again != other
    assert draws([b"a"], 4, seed=4) != [alone]
    assert len({tuple(one.words) for one in alone}) > 5


def test_draws_tell_what_they_drew() -> None:
    for number, one in enumerate(draws([b"a"], 4)[0]):
        words = (*one.words, 0)
        total = sum(allowed(0, words[:i], [4])[word] for i, word in enumerate(words))
        assert one.score == one.log_prob == pytest.approx(total)
        assert one.places == [number] * len(one.words)
