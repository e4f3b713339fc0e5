"""Phrase tables against real Moses outputs, brute force and values worked out by hand."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.builtin.extraction.aligned_corpus import (
    AlignedCorpus,
    read_aligned_corpus,
    read_text,
)
from moses_bridge.builtin.extraction.lexical import lexical_table, write_lexical_tables
from moses_bridge.builtin.extraction.pair_counts import collected_pairs
from moses_bridge.builtin.extraction.phrase_scores import (
    Smoothing,
    good_turing_discounts,
    pair_scorer,
)
from moses_bridge.builtin.extraction.row_writer import put_number
from moses_bridge.builtin.extraction.table_output import write_phrase_table
from moses_bridge.errors import InputError
from moses_bridge.textio import read_lines, write_lines

Links = list[tuple[int, int]]
Sentence = tuple[list[bytes], list[bytes], Links]


def write_corpus(folder: Path, sentences: list[Sentence]) -> tuple[Path, Path, Path]:
    paths = (folder / "corpus.f", folder / "corpus.e", folder / "links")
    write_lines(paths[0], [b" ".join(source) for source, _, _ in sentences])
    write_lines(paths[1], [b" ".join(target) for _, target, _ in sentences])
    write_lines(paths[2], [b" ".join(b"%d-%d" % link for link in s[2]) for s in sentences])
    return paths


def table_rows(
    corpus: AlignedCorpus,
    out: Path,
    max_words: int = 7,
    smoothing: Smoothing = "none",
    occurrences_at_once: int = 1 << 20,
) -> list[bytes]:
    with collected_pairs(corpus, max_words, occurrences_at_once, out) as pairs:
        scorer = pair_scorer(corpus, pairs, lexical_table(corpus), smoothing)
        write_phrase_table(out, corpus, pairs, scorer.scores, jobs=2)
    return list(read_lines(out))


def consistent_pairs(links: Links, sizes: tuple[int, int], max_words: int) -> Iterator[Links]:
    """Boxes (first and last source word, first and last target word) by the definition itself."""
    for i, j in itertools.product(range(sizes[0]), range(sizes[1])):
        for k in range(i, min(i + max_words, sizes[0])):
            for m in range(j, min(j + max_words, sizes[1])):
                inside = [i <= s <= k and j <= t <= m for s, t in links]
                across = [(i <= s <= k) != (j <= t <= m) for s, t in links]
                if any(inside) and not any(across):
                    yield [(i, k), (j, m)]


def random_sentences(seed: int, n_sentences: int, longest: int) -> list[Sentence]:
    draw = random.Random(seed)
    sentences: list[Sentence] = []
    for _ in range(n_sentences):
        n, m = draw.randint(0, longest), draw.randint(0, longest)
        cells = list(itertools.product(range(n), range(m)))
        links = sorted(draw.sample(cells, min(len(cells), draw.randint(0, longest))))
        source = [b"f%d" % draw.randint(0, 5) for _ in range(n)]
        sentences.append((source, [b"e%d" % draw.randint(0, 5) for _ in range(m)], links))
    return sentences


@pytest.fixture(scope="module")
def golden_corpus(golden: Path) -> AlignedCorpus:
    folder = golden / "extract"
    return read_aligned_corpus(
        folder / "corpus.en.gz",
        folder / "corpus.fr.gz",
        folder / "aligned.grow-diag-final-and.gz",
    )


@pytest.mark.parametrize(
    ("smoothing", "name", "occurrences_at_once"),
    [
        ("none", "phrase-table.none.gz", 1 << 20),
        ("good-turing", "phrase-table.gt.gz", 1 << 20),
        ("good-turing", "phrase-table.gt.gz", 1000),
    ],
)
def test_table_is_that_of_moses_byte_for_byte(
    golden: Path,
    golden_corpus: AlignedCorpus,
    tmp_path: Path,
    smoothing: Smoothing,
    name: str,
    occurrences_at_once: int,
) -> None:
    out = tmp_path / "table.gz"
    rows = table_rows(golden_corpus, out, 7, smoothing, occurrences_at_once)
    assert rows == list(read_lines(golden / "extract" / name))


def test_lexical_tables_have_the_rows_of_moses(
    golden: Path, golden_corpus: AlignedCorpus, tmp_path: Path
) -> None:
    table = lexical_table(golden_corpus)
    write_lexical_tables(golden_corpus, table, tmp_path / "lex.e2f", tmp_path / "lex.f2e")
    for name in ("lex.e2f", "lex.f2e"):
        expected = sorted(read_lines(golden / "extract" / f"{name}.gz"))
        assert sorted(read_lines(tmp_path / name)) == expected


@pytest.mark.parametrize(("seed", "longest", "max_words"), [(1, 6, 7), (2, 9, 3), (3, 10, 7)])
def test_pairs_and_frequencies_agree_with_the_definition(
    tmp_path: Path, seed: int, longest: int, max_words: int
) -> None:
    sentences = random_sentences(seed, 25, longest)
    counts: Counter[tuple[bytes, bytes]] = Counter()
    for source, target, links in sentences:
        for (i, k), (j, m) in consistent_pairs(links, (len(source), len(target)), max_words):
            counts[b" ".join(source[i : k + 1]), b" ".join(target[j : m + 1])] += 1
    by_source: Counter[bytes] = Counter()
    by_target: Counter[bytes] = Counter()
    for (source_phrase, target_phrase), count in counts.items():
        by_source[source_phrase] += count
        by_target[target_phrase] += count
    corpus = read_aligned_corpus(*write_corpus(tmp_path, sentences))
    found = {}
    for row in table_rows(corpus, tmp_path / "table", max_words):
        source_phrase, target_phrase, scores, _, occurrences, _ = row.split(b" ||| ", 5)
        found[source_phrase, target_phrase] = (scores.split(b" ")[::2], occurrences)
    assert found == {
        (f, e): (
            [b"%g" % (count / by_target[e]), b"%g" % (count / by_source[f])],
            b"%d %d %d" % (by_target[e], by_source[f], count),
        )
        for (f, e), count in counts.items()
    }


def test_rows_stand_as_sort_puts_them(tmp_path: Path) -> None:
    words = [b"a", b"a\x01", b"a!", b"ab", b"|", b"||", b"||||", b"~", b"\xff", b"\xc3\xa9", b"{"]
    draw = random.Random(5)
    sentences: list[Sentence] = [
        (
            [draw.choice(words) for _ in range(6)],
            [draw.choice(words) for _ in range(6)],
            [(i, i) for i in range(6)],
        )
        for _ in range(60)
    ]
    corpus = read_aligned_corpus(*write_corpus(tmp_path, sentences))
    rows = table_rows(corpus, tmp_path / "table.gz")
    assert len(rows) > 1000
    assert rows == sorted(rows)


def test_lexical_weights_by_hand(tmp_path: Path) -> None:
    # x is linked once to A, once to B; y once to B; B's second sentence has C without link.
    sentences: list[Sentence] = [
        ([b"x"], [b"A"], [(0, 0)]),
        ([b"x", b"y"], [b"B", b"C"], [(0, 0), (1, 0)]),
    ]
    corpus = read_aligned_corpus(*write_corpus(tmp_path, sentences))
    rows = {tuple(row.split(b" ||| ")[:2]): row for row in table_rows(corpus, tmp_path / "table")}
    # p(B|x) = 1/2, p(B|y) = 1: B is explained by their mean; p(C|NULL) = 1; p(x|B) = p(y|B) = 1/2.
    assert rows[b"x y", b"B C"] == (
        b"x y ||| B C ||| 1 0.25 0.5 0.75 ||| 0-0 1-0 ||| 1 2 1 ||| |||"
    )
    assert rows[b"x y", b"B"] == b"x y ||| B ||| 1 0.25 0.5 0.75 ||| 0-0 1-0 ||| 1 2 1 ||| |||"


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
    tmp_path: Path, alignments: list[Links], expected: bytes
) -> None:
    sentences: list[Sentence] = [([b"f", b"g"], [b"d", b"e"], links) for links in alignments]
    corpus = read_aligned_corpus(*write_corpus(tmp_path, sentences))
    rows = [row for row in table_rows(corpus, tmp_path / "t") if row.startswith(b"f g ||| d e |")]
    assert [row.split(b" ||| ")[3] for row in rows] == [expected]


def test_discounts_by_hand() -> None:
    n = np.array([0, 100, 40, 30, 1, 5, 5, 5, 5, 5, 5])
    # d_1 = 2 * 40.1 / 100.1; d_2 = 1.5 * 30.1 / 40.1; d_3 = 4/3 * 1.1 / 30.1 is below d_2 and
    # raised to it; d_4 = 1.25 * 5.1 / 1.1 is above 1; from there on nothing falls below 1.
    expected = [0.01, 0.8011988, 1.1259352, 1, 1, 1, 1, 1, 1, 1]
    expected[2] = min(expected[2], 1.0)
    np.testing.assert_allclose(good_turing_discounts(n), expected, rtol=1e-6)


def printed(number: float) -> bytes:
    out = np.zeros(64, np.uint8)
    return out[: put_number(out, 0, number)].tobytes()


def test_numbers_are_printed_as_c_prints_them() -> None:
    draw = np.random.default_rng(1)
    numbers = [0.0, 1.0, 0.1, 2.718, 10.0, 99999.96, 999999.6, 1e6, 123456789.0, 9.9999951e-5, 1e-4]
    numbers += [2.0**-k for k in range(60)] + list(np.exp(-40 * draw.random(20000)))
    numbers += list(np.float32(draw.random(20000)).astype(float))
    assert [printed(number) for number in numbers] == [b"%g" % number for number in numbers]


def test_order_of_the_vocabulary_holds_with_the_bar(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", [b"{ a \x01", b"", b"z\ta"])
    text = read_text(tmp_path / "text")
    assert text.vocabulary == [b"\x01", b"a", b"z", b"{", b"|||"]
    assert [text.words[a:b].tolist() for a, b in itertools.pairwise(text.starts)] == [
        [3, 1, 0],
        [],
        [2, 1],
    ]


def test_empty_corpus_gives_an_empty_table(tmp_path: Path) -> None:
    corpus = read_aligned_corpus(*write_corpus(tmp_path, [([], [], []), ([b"a"], [], [])]))
    assert table_rows(corpus, tmp_path / "table.gz") == []


@pytest.mark.parametrize(
    ("source", "target", "links", "message"),
    [
        ([b"a b", b"c"], [b"x", b"y"], [b"0-0", b"1-0"], r"links:2: found the link 1-0"),
        ([b"a", b"c"], [b"x", b"y"], [b"0-0", b"0-1"], r"links:2: found the link 0-1"),
        ([b"a"], [b"x"], [b"0:0"], r"links:1: found the link .*0:0"),
        ([b"a", b"b"], [b"x", b"y"], [b"0-0"], r"links:2: found the end of the file"),
        ([b"a"], [b"x"], [b"0-0", b""], r"links:2: found a line, expected 1 lines"),
        ([b"a", b"b"], [b"x"], [b"0-0"], r"corpus.e:2: found the end of the file"),
        ([b"a", b"b ||| c"], [b"x", b"y"], [b"", b""], r"corpus.f:2: found the word '\|\|\|'"),
    ],
)
def test_faults_are_told_with_their_line(
    tmp_path: Path, source: list[bytes], target: list[bytes], links: list[bytes], message: str
) -> None:
    paths = (tmp_path / "corpus.f", tmp_path / "corpus.e", tmp_path / "links")
    for path, lines in zip(paths, (source, target, links), strict=True):
        write_lines(path, lines)
    with pytest.raises(InputError, match=message):
        read_aligned_corpus(*paths)


def test_lexical_tables_by_hand(tmp_path: Path) -> None:
    sentences: list[Sentence] = [([b"x", b"y"], [b"A", b"B"], [(0, 0)])]
    corpus = read_aligned_corpus(*write_corpus(tmp_path, sentences))
    write_lexical_tables(corpus, lexical_table(corpus), tmp_path / "e2f", tmp_path / "f2e")
    rows = {name: set(read_lines(tmp_path / name)) for name in ("e2f", "f2e")}
    assert rows == {
        "e2f": {b"x A 1.0000000", b"y NULL 1.0000000", b"NULL B 1.0000000"},
        "f2e": {b"A x 1.0000000", b"NULL y 1.0000000", b"B NULL 1.0000000"},
    }


def test_scores_are_distributions(tmp_path: Path) -> None:
    corpus = read_aligned_corpus(*write_corpus(tmp_path, random_sentences(7, 40, 8)))
    sums: defaultdict[bytes, float] = defaultdict(float)
    for row in table_rows(corpus, tmp_path / "table"):
        source, _, scores, _ = row.split(b" ||| ", 3)
        sums[source] += float(scores.split()[2])
    assert set(np.round(list(sums.values()), 3)) == {1.0}
