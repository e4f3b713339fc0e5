"""Pairs of a table in pools, against a plain reading of the table in Python dictionaries."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from rescorer.contract.choices import Weighting
from rescorer.contract.vocabulary import Shortlists, Vocabulary, count_words
from rescorer.training.pairs import record_spill
from rescorer.training.pairs.pair_cache import stored_pairs
from rescorer.training.pairs.pair_pools import ChosenPairs, PairPools, open_pairs
from rescorer.training.pairs.phrase_pairs import PairChoice


class Plain(NamedTuple):
    """What a table has, each pair once, grouped by source."""

    sources: list[bytes]
    targets: list[bytes]
    groups: NDArray[np.int64]
    weights: NDArray[np.float64]


def read_plainly(table: Path, weighting: Weighting, min_prob: float) -> Plain:
    pairs: dict[bytes, dict[bytes, float]] = {}
    for line in table.read_bytes().splitlines():
        source, target, scores, _, counts = (part.strip() for part in line.split(b"|||")[:5])
        if max(len(source.split()), len(target.split())) > 3 or float(scores.split()[2]) < min_prob:
            continue
        count = float(counts.split()[2])
        weight = {"distinct": 1.0, "count": count, "sqrt-count": math.sqrt(count)}[weighting]
        if weight:
            pairs.setdefault(source, {})[target] = weight
    sizes = [len(targets) for targets in pairs.values()]
    return Plain(
        list(pairs),
        [target for targets in pairs.values() for target in targets],
        np.repeat(np.arange(len(pairs)), sizes),
        np.array([weight for targets in pairs.values() for weight in targets.values()]),
    )


def drawn_plainly(pairs: Plain, n_pairs: int, seed: int) -> Plain:
    rows = np.sort(np.random.default_rng(seed).permutation(len(pairs.targets))[:n_pairs])
    sources, groups = np.unique(pairs.groups[rows], return_inverse=True)
    return Plain(
        [pairs.sources[source] for source in sources],
        [pairs.targets[row] for row in rows],
        groups,
        pairs.weights[rows],
    )


def write_table(folder: Path, n_rows: int = 700) -> Path:
    """Sources and pairs that come again far away, phrases that are too long, counts of 0."""
    rng = np.random.default_rng(6)

    def phrase() -> bytes:
        return b" ".join(b"w%d" % n for n in rng.zipf(1.6, rng.integers(1, 5)) % 40)

    rows = [
        b"%s ||| %s ||| 0.5 1e-3 %.3f 1 ||| 0-0 ||| 3 4 %d ||| |||\n"
        % (phrase(), phrase(), rng.random(), rng.integers(0, 5))
        for _ in range(n_rows)
    ]
    table = folder / "table"
    table.write_bytes(b"".join(rows + rows[100:300]))
    return table


def shortlists_of(pairs: Plain, n_words: int = 20) -> Shortlists:
    sides = (pairs.sources, pairs.targets)
    return Shortlists(*(Vocabulary.from_counts(count_words(side), n_words) for side in sides))


@pytest.mark.parametrize("max_pairs", [0, 90])
@pytest.mark.parametrize(
    ("weighting", "min_prob"), [("distinct", 0.0), ("count", 0.3), ("sqrt-count", 0.0)]
)
@pytest.mark.parametrize("run_numbers", [2**24, 2**12])
def test_one_pool_is_the_table_as_it_is_read_plainly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weighting: Weighting,
    min_prob: float,
    max_pairs: int,
    run_numbers: int,
) -> None:
    monkeypatch.setattr(record_spill, "RUN_NUMBERS", run_numbers)
    table = write_table(tmp_path)
    plain = read_plainly(table, weighting, min_prob)
    if max_pairs:
        plain = drawn_plainly(plain, max_pairs, seed=5)
    chosen = open_pairs(
        table, PairChoice(3, min_prob, weighting != "distinct"), 10_000, max_pairs, seed=5
    )
    for found, phrases in zip(chosen.word_counts(), (plain.sources, plain.targets), strict=True):
        counts = zip(found.words, found.counts.tolist(), strict=True)
        assert {word: n for word, n in counts if n} == count_words(phrases)
    shortlists = shortlists_of(plain)
    assert shortlists.source is not None
    data = PairPools(chosen, shortlists, weighting).load(0)
    expected = (
        *shortlists.source.encode_phrases(plain.sources),
        *shortlists.target.encode_phrases(plain.targets),
        plain.groups,
        plain.weights,
    )
    found_arrays = (data.sources, data.source_lens, data.targets, data.target_lens)
    for found, wanted in zip((*found_arrays, data.groups, data.weights), expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def phrases_of(files: Any, words: Any, lens: Any) -> list[bytes]:
    names = [*files.words]
    flat = [names[number] for number in words]
    cuts = np.cumsum([0, *lens])
    return [b" ".join(flat[first:end]) for first, end in itertools.pairwise(cuts)]


def pairs_in(chosen: ChosenPairs) -> list[Counter[tuple[bytes, bytes]]]:
    """The pairs of each pool."""
    pools = []
    for pool in range(len(chosen.sizes)):
        columns = chosen.columns(pool)
        sources = phrases_of(chosen.files, columns.source_words, columns.source_lens)
        targets = phrases_of(chosen.files, columns.target_words, columns.target_lens)
        groups = np.repeat(np.arange(len(sources)), columns.n_targets)
        pools.append(Counter(zip((sources[group] for group in groups), targets, strict=True)))
    return pools


def test_pools_have_every_pair_once_and_whole_sources(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    plain = read_plainly(table, "distinct", 0.0)
    chosen = ChosenPairs(stored_pairs(table, PairChoice(3), None), 60, 0, seed=1)
    pools = pairs_in(chosen)
    assert len(pools) > 4 and sum(chosen.sizes) == len(plain.targets)
    assert [sum(pool.values()) for pool in pools] == chosen.sizes
    sources = [plain.sources[group] for group in plain.groups]
    assert sum(pools, Counter()) == Counter(zip(sources, plain.targets, strict=True))
    homes = Counter(source for pool in pools for source in {source for source, _ in pool})
    assert set(homes.values()) == {1}


def test_pools_are_samples_of_the_whole_table(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"".join(b"s%d ||| t ||| 1\n" % number for number in range(20_000)))
    chosen = ChosenPairs(stored_pairs(table, PairChoice(), None), 5_000, 0, seed=1)
    middles = [chosen.columns(pool).first_rows.mean() for pool in range(len(chosen.sizes))]
    # The mean of 5,000 of 20,000 rows has a standard error of 71.
    assert np.abs(np.array(middles[:4]) - 9_999.5).max() < 300


@pytest.mark.parametrize("seed", [1, 2])
def test_a_draw_from_more_than_a_pool(tmp_path: Path, seed: int) -> None:
    files = stored_pairs(write_table(tmp_path), PairChoice(3), None)
    whole = sum(pairs_in(ChosenPairs(files, 60, 0, seed)), Counter())
    drawn = ChosenPairs(files, 60, 50, seed)
    pairs = sum(pairs_in(drawn), Counter())
    assert (sum(pairs.values()), drawn.sizes) == (50, [50])
    assert set(pairs.values()) == {1} and pairs < whole
    again = sum(pairs_in(ChosenPairs(files, 60, 50, seed)), Counter())
    other = sum(pairs_in(ChosenPairs(files, 60, 50, seed + 7)), Counter())
    assert again == pairs != other
    contents = {b"".join(ChosenPairs(files, 60, n, seed).content()) for n in (0, 50, 51)}
    assert len(contents) == 3


def test_pairs_need_source_words(tmp_path: Path) -> None:
    chosen = ChosenPairs(stored_pairs(write_table(tmp_path, 310), PairChoice(), None), 99, 0, 1)
    with pytest.raises(ValueError, match="source words"):
        PairPools(chosen, Shortlists(None, Vocabulary([b"x"])), "distinct")
