from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moses_bridge.base.array_file import ArrayFiles
from moses_bridge.builtin.extraction import pair_counts
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus
from moses_bridge.builtin.extraction.occurrences import NO_OCCURRENCES, Occurrences, extract
from moses_bridge.builtin.extraction.pair_counts import TargetCounts

Links = list[tuple[int, int]]
Sentence = tuple[list[bytes], list[bytes], Links]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ArrayFiles]:
    with ArrayFiles(tmp_path) as files:
        yield files


@pytest.mark.parametrize(("n_parts", "words_at_once"), [(1, 1 << 20), (5, 1 << 20), (5, 17)])
def test_a_phrase_counts_as_often_as_it_is_in_a_pair_of_the_corpus(
    n_parts: int,
    words_at_once: int,
    files: ArrayFiles,
    monkeypatch: pytest.MonkeyPatch,
    corpus_of: Callable[[list[Sentence]], AlignedCorpus],
    random_sentences: Callable[[int, int, int], list[Sentence]],
) -> None:
    monkeypatch.setattr(pair_counts, "WORDS_AT_ONCE", words_at_once)
    corpus = corpus_of(random_sentences(6, 60, 9))
    counter, expected, places = (
        TargetCounts(corpus.target, files, 7),
        Counter[tuple[int, ...]](),
        [],
    )
    (found,) = extract(corpus, 7)
    for start, length in zip(found.target_starts.tolist(), found.target_lens.tolist(), strict=True):
        phrase = tuple(corpus.target.words[start : start + length].tolist())
        expected[phrase] += 1
        places.append((start, length, phrase))
    bounds = [len(places) * part // n_parts for part in range(n_parts + 1)]
    for first, end in itertools.pairwise(bounds):
        counter.add(Occurrences(*(column[first:end] for column in found)))
    counter.add(NO_OCCURRENCES)
    counts = counter.finish()
    assert len(places) > 200
    for start, length, phrase in places:
        assert counts[start, length - 1] == expected[phrase]


def test_nothing_counted_is_0(
    corpus_of: Callable[[list[Sentence]], AlignedCorpus], files: ArrayFiles
) -> None:
    corpus = corpus_of([([b"a"], [b"x", b"y"], [])])
    assert TargetCounts(corpus.target, files, 7).finish().tolist() == [[0] * 7] * 2
    empty = corpus_of([([], [], [])])
    assert TargetCounts(empty.target, files, 12).finish().shape == (0, 12)
