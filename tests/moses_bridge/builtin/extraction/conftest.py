"""Corpora of a few sentences, and what the definition of phrase pairs says of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moses_bridge.base.choices import Smoothing
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, read_aligned_corpus
from moses_bridge.builtin.extraction.lexical import lexical_table, pair_scorer
from moses_bridge.builtin.extraction.pair_counts import collected_pairs
from moses_bridge.builtin.extraction.table_output import write_table

Links = list[tuple[int, int]]
Sentence = tuple[list[bytes], list[bytes], Links]
Box = tuple[tuple[int, int], tuple[int, int]]


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[[list[Sentence]], AlignedCorpus]:
    """Makes a corpus of sentences: source words, target words, links."""

    def read(sentences: list[Sentence]) -> AlignedCorpus:
        paths = (tmp_path / "corpus.f", tmp_path / "corpus.e", tmp_path / "links")
        write_lines(paths[0], [b" ".join(source) for source, _, _ in sentences])
        write_lines(paths[1], [b" ".join(target) for _, target, _ in sentences])
        write_lines(paths[2], [b" ".join(b"%d-%d" % link for link in s[2]) for s in sentences])
        return read_aligned_corpus(*paths, tmp_path)

    return read


@pytest.fixture
def rows_of() -> Callable[..., list[bytes]]:
    """The rows of the phrase table of a corpus."""
    return _table_rows


def _table_rows(
    corpus: AlignedCorpus,
    out: Path,
    max_words: int = 7,
    smoothing: Smoothing = "none",
    occurrences_at_once: int = 1 << 20,
) -> list[bytes]:
    with collected_pairs(corpus, max_words, occurrences_at_once, out) as pairs:
        scorer = pair_scorer(corpus, pairs, lexical_table(corpus), smoothing, out.parent)
        write_table(out, corpus, pairs, scorer.scores, jobs=2, has_counts=True)
    return list(read_lines(out))


@pytest.fixture
def pairs_of() -> Callable[[Links, tuple[int, int], int], Iterator[Box]]:
    """The phrase pairs of a sentence by the definition itself: first and last word on either side."""
    return _consistent_pairs


def _consistent_pairs(links: Links, sizes: tuple[int, int], max_words: int) -> Iterator[Box]:
    for i, j in itertools.product(range(sizes[0]), range(sizes[1])):
        for k in range(i, min(i + max_words, sizes[0])):
            for m in range(j, min(j + max_words, sizes[1])):
                inside = [i <= s <= k and j <= t <= m for s, t in links]
                across = [(i <= s <= k) != (j <= t <= m) for s, t in links]
                if any(inside) and not any(across):
                    yield (i, k), (j, m)


@pytest.fixture
def random_sentences() -> Callable[[int, int, int], list[Sentence]]:
    """Sentences of few different words, so that phrases come back: seed, how many, longest."""
    return _random_sentences


def _random_sentences(seed: int, n_sentences: int, longest: int) -> list[Sentence]:
    draw = random.Random(seed)
    sentences: list[Sentence] = []
    for _ in range(n_sentences):
        n, m = draw.randint(0, longest), draw.randint(0, longest)
        cells = list(itertools.product(range(n), range(m)))
        links = sorted(draw.sample(cells, min(len(cells), draw.randint(0, longest))))
        source = [b"f%d" % draw.randint(0, 5) for _ in range(n)]
        sentences.append((source, [b"e%d" % draw.randint(0, 5) for _ in range(m)], links))
    return sentences


@pytest.fixture(scope="session")
def golden_corpus(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> AlignedCorpus:
    folder = golden / "extract"
    return read_aligned_corpus(
        folder / "corpus.en.gz",
        folder / "corpus.fr.gz",
        folder / "aligned.grow-diag-final-and.gz",
        tmp_path_factory.mktemp("corpus"),
    )
