from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus
from moses_bridge.builtin.extraction.occurrences import MONOTONE, OTHER, SWAP, extract

Links = list[tuple[int, int]]
Sentence = tuple[list[bytes], list[bytes], Links]
Box = tuple[tuple[int, int], tuple[int, int]]


def found_in(corpus: AlignedCorpus, max_words: int) -> list[tuple[int, ...]]:
    parts = extract(corpus, max_words)
    return [place for part in parts for place in zip(*(c.tolist() for c in part), strict=True)]


@pytest.mark.parametrize(
    ("seed", "longest", "max_words"), [(1, 6, 7), (2, 9, 3), (3, 12, 7), (4, 5, 1)]
)
def test_all_phrase_pairs_of_the_definition_and_no_others(
    seed: int,
    longest: int,
    max_words: int,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    random_sentences: Callable[[int, int, int], list[Sentence]],
    pairs_of: Callable[[Links, tuple[int, int], int], Iterator[Box]],
) -> None:
    sentences = random_sentences(seed, 40, longest)
    expected, first_source, first_target = [], 0, 0
    for source, target, links in sentences:
        for (i, k), (j, m) in pairs_of(links, (len(source), len(target)), max_words):
            expected.append((first_source + i, first_target + j, k - i + 1, m - j + 1))
        first_source, first_target = first_source + len(source), first_target + len(target)
    found = [place[:4] for place in found_in(corpus_of(sentences), max_words)]
    assert sorted(found) == sorted(expected)
    assert len(found) > 5


@pytest.mark.parametrize(
    ("links", "orientations"),
    [
        ([(0, 0), (1, 1), (2, 2)], (MONOTONE, MONOTONE)),
        ([(0, 2), (1, 1), (2, 0)], (SWAP, SWAP)),
        ([(0, 0), (1, 1)], (MONOTONE, OTHER)),
        ([(1, 1)], (OTHER, OTHER)),
    ],
)
def test_orientations_are_told_by_the_links_at_the_corners(
    links: Links,
    orientations: tuple[int, int],
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
) -> None:
    words = [b"a", b"b", b"c"]
    (middle,) = [
        place
        for place in found_in(corpus_of([(words, words, links)]), 7)
        if place[:4] == (1, 1, 1, 1)
    ]
    assert divmod(middle[4], 3) == orientations


def test_sentences_are_taken_part_by_part(
    corpus_of: Callable[[list[Sentence]], AlignedCorpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    from moses_bridge.builtin.extraction import occurrences

    corpus = corpus_of([([b"a"], [b"x"], [(0, 0)])] * 7)
    whole = found_in(corpus, 7)
    monkeypatch.setattr(occurrences, "SENTENCES_AT_ONCE", 2)
    assert found_in(corpus, 7) == whole == [(i, i, 1, 1, 0) for i in range(7)]
    monkeypatch.setattr(occurrences, "FIRST_ROOM", 50)
    assert [len(part.source_starts) for part in extract(corpus, 7)] == [2, 2, 2, 1]
