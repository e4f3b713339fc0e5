"""Beam search and draws against all targets of a tiny vocabulary, and against the scoring engine."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.target_generation import Generated, GenerationConfig
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder, encdec_scorer
from rescorer.scorers.rnn_lm import RnnLm, RnnLmConfig, rnn_lm_scorer
from rescorer.tries import generation
from rescorer.tries.generation import Generator
from rescorer.tries.scoring import TrieScorer

SOURCE = Vocabulary([b"a", b"b", b"c"])
FEW = Vocabulary([b"x", b"y"])
MANY = Vocabulary([b"t%d" % number for number in range(40)])
SOURCES = [b"a", b"b c", b"", b"c a b", b"d", b"a b"]
Scorer = TrieScorer[Any, Any, Any, Any]


def normal(network: torch.nn.Module, deviation: float) -> Any:
    torch.manual_seed(7)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=deviation)
    return network.eval()


def make_scorer(kind: str, target: Vocabulary, deviation: float = 0.6) -> Scorer:
    """What scores targets, over a network with random weights."""
    compute = Compute(device="cpu")
    if kind == "rnn_lm":
        network = normal(RnnLm(RnnLmConfig("lstm", 9, 6, 5), len(target)), deviation)
        return rnn_lm_scorer(TrainedModel(kind, network, Shortlists(None, target), {}), compute)
    sizes = EncDecConfig(9, 6, 5, kind)  # type: ignore[arg-type]
    network = normal(EncoderDecoder(sizes, len(SOURCE), len(target)), deviation)
    return encdec_scorer(TrainedModel(kind, network, Shortlists(SOURCE, target), {}), compute)


def generate(scorer: Scorer, sources: list[bytes], **settings: Any) -> list[list[Generated]]:
    config = GenerationConfig(**settings)
    return list(Generator(scorer.network, scorer.shortlists).generate(sources, config))


def all_targets(scorer: Scorer, source: bytes, longest: int) -> dict[tuple[bytes, ...], float]:
    """Natural log p of every target of at most so many words, from the scoring engine."""
    words = scorer.shortlist.words[1:]
    targets = [target for n in range(longest + 1) for target in itertools.product(words, repeat=n)]
    batch = Batch([source] * len(targets), [b" ".join(target) for target in targets])
    return dict(zip(targets, scorer.values(batch).tolist(), strict=True))


KINDS = ["gated", "lstm", "rnn_lm"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0])
def test_a_wide_beam_finds_the_best_of_all_targets(kind: str, penalty: float) -> None:
    scorer = make_scorer(kind, FEW)
    found = generate(
        scorer, SOURCES, n=8, beam=300, max_words=4, max_ratio=0.0, length_penalty=penalty
    )
    for source, targets in zip(SOURCES, found, strict=True):
        exact = all_targets(scorer, source, 4)
        scores = {words: value / (len(words) + 1) ** penalty for words, value in exact.items()}
        best = sorted(scores, key=lambda words: -scores[words])[:8]
        assert [one.words for one in targets] == best
        np.testing.assert_allclose(
            [one.score for one in targets], [scores[w] for w in best], atol=1e-5
        )
        np.testing.assert_allclose(
            [one.log_prob for one in targets], [exact[w] for w in best], atol=1e-5
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [
    {"n": 5, "beam": 3},
    {"n": 4, "beam": 4, "length_penalty": 1.0},
    {"n": 6, "sample": True, "temperature": 1.3},
    {"n": 3, "beam": 2, "unknown_words": False},
])  # fmt: skip
def test_what_is_returned_has_the_score_of_the_scoring_engine(
    kind: str, settings: dict[str, Any]
) -> None:
    scorer = make_scorer(kind, MANY)
    found = generate(scorer, SOURCES, max_words=12, **settings)
    pairs = [
        (source, one) for source, targets in zip(SOURCES, found, strict=True) for one in targets
    ]
    batch = Batch([source for source, _ in pairs], [b" ".join(one.words) for _, one in pairs])
    np.testing.assert_allclose([one.log_prob for _, one in pairs], scorer.values(batch), atol=1e-5)
    penalty = settings.get("length_penalty", 0.0)
    for _, one in pairs:
        expected = one.log_prob / (len(one.words) + 1) ** penalty
        assert one.score == pytest.approx(expected, abs=1e-9)
    assert all(len(targets) == settings["n"] for targets in found)
    if not settings.get("unknown_words", True):
        assert not any(b"<unk>" in one.words for _, one in pairs)


@pytest.mark.parametrize("sample", [False, True])
def test_neighbours_and_batches_change_nothing(
    sample: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = make_scorer("gated", MANY)
    settings = {"n": 3, "beam": 5, "sample": sample, "max_words": 8}
    together = generate(scorer, SOURCES, **settings)
    alone = [generate(scorer, [source], **settings)[0] for source in reversed(SOURCES)][::-1]
    monkeypatch.setattr(generation, "HYPOTHESES_AT_ONCE", 11)
    cut = generate(scorer, SOURCES, **settings)
    for other in (alone, cut):
        for one, targets in zip(together, other, strict=True):
            assert [target.words for target in one] == [target.words for target in targets]
            np.testing.assert_allclose(
                [target.log_prob for target in one],
                [target.log_prob for target in targets],
                atol=1e-5,
            )


def test_the_targets_of_a_search_differ_and_fall() -> None:
    for targets in generate(make_scorer("lstm", MANY), SOURCES, n=20, beam=20):
        assert len({one.words for one in targets}) == 20
        scores = [one.score for one in targets]
        assert scores == sorted(scores, reverse=True)


def test_a_wider_beam_finds_nothing_worse() -> None:
    scorer = make_scorer("gated", MANY)
    narrow, wide = (
        generate(scorer, SOURCES, beam=beam, length_penalty=1.0, max_words=6) for beam in (1, 40)
    )
    gains = [w[0].score - n[0].score for n, w in zip(narrow, wide, strict=True)]
    assert min(gains) > -1e-6 and max(gains) > 1e-3


def test_draws_are_as_frequent_as_they_are_likely() -> None:
    """20,000 draws; the frequency of a target has the s.d. of its binomial distribution."""
    scorer = make_scorer("gated", FEW)
    (draws,) = generate(scorer, [b"b c"], n=20_000, sample=True, max_words=60)
    counts: dict[tuple[bytes, ...], int] = {}
    for one in draws:
        counts[one.words] = counts.get(one.words, 0) + 1
    for words, log_prob in all_targets(scorer, b"b c", 2).items():
        p = math.exp(log_prob)
        assert abs(counts.get(words, 0) / 20_000 - p) < 4.5 * math.sqrt(p * (1 - p) / 20_000)


def test_temperature_sharpens_and_flattens_the_first_word() -> None:
    """p^(1/T), normalised, from the probabilities of first words."""
    scorer = make_scorer("rnn_lm", FEW)
    words = scorer.shortlist.words
    beginnings = {word: [] for word in words}
    log_probs = scorer.word_log_probs(Batch([b""] * 3, [b"<unk> x", b"x x", b"y x"])).log_probs[::3]
    end = scorer.values(Batch([b""], [b""]))
    p = np.exp(np.concatenate([end, log_probs]))
    assert p.sum() == pytest.approx(1, abs=1e-5) and set(beginnings) == set(words)
    for temperature in (0.5, 2.0):
        (draws,) = generate(
            scorer, [b""], n=10_000, sample=True, temperature=temperature, max_words=1
        )
        first = [one.words[0] if one.words else b"</s>" for one in draws]
        expected = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
        found = [first.count(word) / len(first) for word in words]
        np.testing.assert_allclose(found, expected, atol=0.02)


def test_a_cold_draw_is_the_greedy_target() -> None:
    scorer = make_scorer("gated", MANY)
    cold = generate(scorer, SOURCES, sample=True, temperature=1e-4, max_words=9, max_ratio=0)
    for source, (one,) in zip(SOURCES, cold, strict=True):
        words: list[bytes] = []
        while True:
            known = scorer.shortlist.words[1:]
            targets = [b" ".join([*words, word]) for word in known]
            longer = scorer.word_log_probs(Batch([source] * len(known), targets)).log_probs
            steps = longer.reshape(len(known), -1)[:, -2]
            here = scorer.word_log_probs(Batch([source], [b" ".join(words)])).log_probs[-1]
            if here > steps.max() or len(words) == 9:
                break
            words.append(known[int(steps.argmax())])
        assert one.words == tuple(words)


def test_seeds_draw_differently_and_again_the_same() -> None:
    scorer = make_scorer("lstm", MANY)
    first, again, other = (generate(scorer, SOURCES, n=4, sample=True, seed=s) for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("sample", [False, True])
def test_a_beginning_is_continued(sample: bool) -> None:
    scorer = make_scorer("rnn_lm", MANY)
    config = GenerationConfig(n=3, sample=sample, max_words=5, unknown_words=False)
    generator = Generator(scorer.network, scorer.shortlists)
    beginnings = [b"t1 t2", b"", b"t3 zebra t3"]
    found = list(generator.generate([b""] * 3, config, beginnings))
    for beginning, targets in zip(beginnings, found, strict=True):
        n_given = len(beginning.split())
        for one in targets:
            assert one.words[:n_given] == tuple(beginning.split())
            assert len(one.words) <= n_given + 5 and b"<unk>" not in one.words
            forced = scorer.values(Batch([b""], [b" ".join(one.words)]))[0]
            assert one.log_prob == pytest.approx(forced, abs=1e-5)


@pytest.mark.parametrize(("max_ratio", "expected"), [(0.0, 7), (1.0, 3), (0.5, 2)])
def test_no_target_is_longer_than_it_may_be(max_ratio: float, expected: int) -> None:
    """Two source words and </s>; a network that never wants to end."""
    scorer = make_scorer("gated", FEW)
    with torch.no_grad():
        scorer.network.output.bias[0] = -50
    for sample in (False, True):
        (targets,) = generate(
            scorer, [b"a b"], n=2, sample=sample, max_words=7, max_ratio=max_ratio
        )
        assert max(len(one.words) for one in targets) <= expected
        if sample:
            assert [len(one.words) for one in targets] == [expected] * 2


@pytest.mark.parametrize("sample", [False, True])
def test_words_that_are_given_do_not_count_as_words_of_a_target(sample: bool) -> None:
    """Three words behind each beginning; a network that never wants to end."""
    scorer = make_scorer("rnn_lm", FEW)
    with torch.no_grad():
        scorer.network.output.bias[Vocabulary.end_id] = -50
    config = GenerationConfig(sample=sample, max_words=3, length_penalty=1.0)
    generator = Generator(scorer.network, scorer.shortlists)
    found = generator.generate([b""] * 2, config, [b"x y", b""])
    assert [len(one.words) for (one,) in found] == [5, 3]


@pytest.mark.parametrize("sample", [False, True])
def test_a_network_that_wants_unknown_words_gets_none(sample: bool) -> None:
    scorer = make_scorer("rnn_lm", MANY)
    with torch.no_grad():
        scorer.network.output.bias[Vocabulary.unknown_id] = 50
    config = GenerationConfig(n=4, sample=sample, max_words=3, unknown_words=False)
    generator = Generator(scorer.network, scorer.shortlists)
    found = [one for of in generator.generate([b""] * 2, config, [b"t1", b""]) for one in of]
    assert len(found) == 8 and not any(b"<unk>" in one.words for one in found)


class Weights(NamedTuple):
    rows: torch.Tensor


class Reversing:
    """Attends the words of the source from the last to the first; all words are equally likely."""

    def __init__(self, n_words: int) -> None:
        self.output = torch.nn.Linear(1, n_words)
        torch.nn.init.zeros_(self.output.weight)
        torch.nn.init.zeros_(self.output.bias)

    def read(self, ids: NDArray[np.int32], lens: NDArray[np.int64]) -> Weights:
        return Weights(torch.from_numpy(lens).float()[:, None].expand(-1, ids.shape[1]))

    def start(self, source: Weights) -> Weights:
        return Weights(source.rows[:, :1])

    def inputs(self, words: torch.Tensor, source: Weights, rows: torch.Tensor) -> Weights:
        return Weights(torch.zeros(len(words), 1))

    def carry(self, state: Weights) -> Weights:
        return state

    def step(self, carried: Weights, inputs: Weights, source: Weights) -> Weights:
        return Weights(carried.rows - 1)

    def factors(self, state: Weights, inputs: Weights, source: Weights) -> torch.Tensor:
        return state.rows

    def attention(self, carried: Weights, inputs: Weights, source: Weights) -> torch.Tensor:
        places = torch.arange(source.rows.shape[1])
        weights = torch.where(places == carried.rows.long() - 1, 0.6, 0.1)
        return torch.where(places == 3, 5.0, weights)


def test_the_most_attended_words_come_back() -> None:
    """Place 3 is </s> of the longest source and behind </s> of the shorter one: neither counts."""
    generator = Generator(Reversing(len(FEW)), Shortlists(SOURCE, FEW))
    config = GenerationConfig(n=4, sample=True, max_ratio=0, max_words=4)
    sources = [b"a b c", b"a b", b"c", b""]
    for lens, targets in zip((3, 2, 1, 0), generator.generate(sources, config), strict=True):
        for one in targets:
            n_words = min(len(one.words), lens)
            assert one.places[:n_words] == tuple(range(lens))[::-1][:n_words]
            expected = range(lens) if lens else (-1,)
            assert len(one.places) == len(one.words) and {*one.places} <= {*expected}


def test_without_an_attention_no_word_has_a_place() -> None:
    for targets in generate(make_scorer("gated", MANY), [b"a b"], n=3):
        assert {place for one in targets for place in one.places} <= {-1}


def test_no_source_no_target() -> None:
    assert generate(make_scorer("gated", MANY), []) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n is 0"),
        ({"beam": 0}, "beam is 0"),
        ({"max_words": 0}, "max_words is 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"sample": True, "temperature": 0.0}, "temperature is 0: a draw needs more"),
        ({"length_penalty": -0.1}, "length_penalty is -0.1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GenerationConfig(**settings)


def test_as_many_beginnings_as_sources() -> None:
    scorer = make_scorer("rnn_lm", FEW)
    generator = Generator(scorer.network, scorer.shortlists)
    with pytest.raises(ValueError, match="2 sources, 1 beginnings"):
        list(generator.generate([b"", b""], GenerationConfig(), [b"x"]))


def test_a_temperature_at_which_nothing_can_be_drawn_is_refused() -> None:
    with pytest.raises(ConfigError, match="temperature is 1e-40; the smallest value is 1e-30"):
        GenerationConfig(sample=True, temperature=1e-40)
    assert GenerationConfig(sample=True, temperature=1e-30).temperature == 1e-30
