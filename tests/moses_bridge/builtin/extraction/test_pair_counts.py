from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus

Box = tuple[tuple[int, int], tuple[int, int]]


Links = list[tuple[int, int]]


Sentence = tuple[list[bytes], list[bytes], Links]


@pytest.mark.parametrize(("seed", "longest", "max_words"), [(1, 6, 7), (2, 9, 3), (3, 14, 12)])
def test_pairs_and_frequencies_agree_with_the_definition(
    tmp_path: Path,
    seed: int,
    longest: int,
    max_words: int,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    rows_of: Callable[..., list[bytes]],
    random_sentences: Callable[[int, int, int], list[Sentence]],
    pairs_of: Callable[[Links, tuple[int, int], int], Iterator[Box]],
) -> None:
    sentences = random_sentences(seed, 25, longest)
    counts: Counter[tuple[bytes, bytes]] = Counter()
    for source, target, links in sentences:
        for (i, k), (j, m) in pairs_of(links, (len(source), len(target)), max_words):
            counts[b" ".join(source[i : k + 1]), b" ".join(target[j : m + 1])] += 1
    by_source: Counter[bytes] = Counter()
    by_target: Counter[bytes] = Counter()
    for (source_phrase, target_phrase), count in counts.items():
        by_source[source_phrase] += count
        by_target[target_phrase] += count
    corpus = corpus_of(sentences)
    found = {}
    for row in rows_of(corpus, tmp_path / "table", max_words):
        source_phrase, target_phrase, scores, _, occurrences, _ = row.split(b" ||| ", 5)
        found[source_phrase, target_phrase] = (scores.split(b" ")[::2], occurrences)
    assert found == {
        (f, e): (
            [b"%g" % (count / by_target[e]), b"%g" % (count / by_source[f])],
            b"%d %d %d" % (by_target[e], by_source[f], count),
        )
        for (f, e), count in counts.items()
    }


@pytest.mark.parametrize(
    ("alignments", "expected"),
    [
        ([[(0, 0), (1, 1)], [(0, 0), (1, 1)], [(0, 1), (1, 0)]], b"0-0 1-1"),
        # Once each: {1}{0} is greater than {0}{1}, as C++ compares vectors of sets.
        ([[(0, 0), (1, 1)], [(0, 1), (1, 0)]], b"1-0 0-1"),
        # {0, 1} stands between {0} and {1}.
        ([[(0, 0), (1, 1)], [(0, 0), (1, 0), (1, 1)]], b"0-0 1-0 1-1"),
        ([[(1, 0), (0, 1)], [(0, 0), (1, 0), (1, 1)]], b"1-0 0-1"),
    ],
)
def test_most_frequent_alignment_is_printed(
    tmp_path: Path,
    alignments: list[Links],
    expected: bytes,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    rows_of: Callable[..., list[bytes]],
) -> None:
    sentences: list[Sentence] = [([b"f", b"g"], [b"d", b"e"], links) for links in alignments]
    corpus = corpus_of(sentences)
    rows = [row for row in rows_of(corpus, tmp_path / "t") if row.startswith(b"f g ||| d e |")]
    assert [row.split(b" ||| ")[3] for row in rows] == [expected]


@pytest.mark.parametrize("n_words", [7, 8, 12])
def test_the_alignment_of_a_long_phrase_is_the_most_frequent_and_of_equal_ones_the_greatest(
    n_words: int,
    tmp_path: Path,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    rows_of: Callable[..., list[bytes]],
) -> None:
    """They differ in the last words; Python compares tuples as C++ compares vectors of sets."""
    draw = random.Random(n_words)
    source, target = ([b"%c%d" % (side, i) for i in range(n_words)] for side in b"fe")
    same = [(i, i) for i in range(n_words - 2)]
    corner = [(i, j) for i in (n_words - 2, n_words - 1) for j in (n_words - 2, n_words - 1)]
    for trial in range(20):
        given = [sorted(same + draw.sample(corner, draw.randint(1, 4))) for _ in range(6)]
        by_target = Counter(
            tuple(tuple(i for i, j in links if j == word) for word in range(n_words))
            for links in given
        )
        best = max(by_target, key=lambda alignment: (by_target[alignment], alignment))
        rows = rows_of(corpus_of([(source, target, links) for links in given]), tmp_path / "t", 12)
        whole = b" ".join(source) + b" ||| " + b" ".join(target) + b" ||| "
        (found,) = [row.split(b" ||| ")[3] for row in rows if row.startswith(whole)]
        expected = [b"%d-%d" % (i, j) for j, sources in enumerate(best) for i in sources]
        assert found.split() == expected, trial
