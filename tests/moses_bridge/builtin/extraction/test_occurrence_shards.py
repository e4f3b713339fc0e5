"""Tables do not depend on how many occurrences of phrase pairs are sorted at once."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from moses_bridge.base.array_file import spilled_rows
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin import sorted_runs
from moses_bridge.builtin.build import BuildConfig, build_model
from moses_bridge.builtin.extraction import occurrences
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, read_aligned_corpus
from moses_bridge.builtin.extraction.occurrences import (
    NO_OCCURRENCES,
    Occurrences,
    OccurrenceShards,
    extract,
)

N_SENTENCES = 120
WORDS = [b"a", b"a\x01", b"a!", b"ab", b"}", b"}}}}", b"~", b"\xc3\xa9", b"{"]
TABLES = ("phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz")


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A text of few words, so that the same phrases come back in many sentences."""
    draw = random.Random(3)
    texts = (tmp_path / "train.en", tmp_path / "train.fr", tmp_path / "links")
    sides = [
        [b" ".join(draw.choices(WORDS, k=draw.randint(0, 9))) for _ in range(N_SENTENCES)]
        for _ in range(2)
    ]
    write_lines(texts[0], sides[0])
    write_lines(texts[1], sides[1])
    write_lines(texts[2], [_links(draw, *map(_n_words, pair)) for pair in zip(*sides, strict=True)])
    return texts


def _n_words(line: bytes) -> int:
    return len(line.split())


def _links(draw: random.Random, n: int, m: int) -> bytes:
    cells = list(itertools.product(range(n), range(m)))
    chosen = draw.sample(cells, min(len(cells), draw.randint(0, 8)))
    return b" ".join(b"%d-%d" % cell for cell in chosen)


@pytest.fixture
def corpus(paths: tuple[Path, Path, Path]) -> AlignedCorpus:
    return read_aligned_corpus(*paths, paths[0].parent)


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrences, "SENTENCES_AT_ONCE", 13)


def build(paths: tuple[Path, Path, Path], name: str, options: BuildConfig) -> list[bytes]:
    out = paths[0].parent / name
    build_model(paths[0].with_suffix(""), "en", "fr", out, options, paths[2])
    return [(out / table).read_bytes() for table in TABLES]


@pytest.mark.parametrize("at_once", [1, 7, 100, 5000])
@pytest.mark.parametrize("smoothing", ["good-turing", "none"])
def test_tables_are_the_same_bytes_whatever_the_shards(
    paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, at_once: int, smoothing: str
) -> None:
    settings = {"smoothing": smoothing, "lm_order": 2, "lm_prune": (0,)}
    whole = build(paths, "whole", BuildConfig(**settings))
    monkeypatch.setattr(occurrences, "SENTENCES_AT_ONCE", 13)
    assert build(paths, "parts", BuildConfig(**settings, occurrences_at_once=at_once)) == whole


def shards_of(corpus: AlignedCorpus, at_once: int, beside: Path) -> list[Occurrences]:
    with spilled_rows(beside, NO_OCCURRENCES) as rows:
        shards = OccurrenceShards(corpus.source, rows, at_once)
        for part in extract(corpus, 7):
            shards.add(part)
        return list(shards)


def phrases(corpus: AlignedCorpus, shard: Occurrences) -> list[bytes]:
    """The source phrases with what follows them in a row."""
    return [
        b" ".join(corpus.source.vocabulary[word] for word in corpus.source.words[start : start + n])
        + b" |||"
        for start, n in zip(shard.source_starts.tolist(), shard.source_lens.tolist(), strict=True)
    ]


def places(shard: Occurrences) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in shard), strict=True)


@pytest.mark.usefixtures("short_runs")
def test_shards_hold_each_occurrence_once_and_follow_each_other(
    corpus: AlignedCorpus, tmp_path: Path
) -> None:
    shards = [shard for shard in shards_of(corpus, 50, tmp_path / "t") if len(shard[0])]
    assert len(shards) > 20
    found = [place for part in extract(corpus, 7) for place in places(part)]
    assert sorted(found) == sorted(place for shard in shards for place in places(shard))
    for before, after in itertools.pairwise(shards):
        assert max(phrases(corpus, before)) < min(phrases(corpus, after))


@pytest.mark.usefixtures("short_runs")
def test_shards_are_about_as_large_as_asked(
    corpus: AlignedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_runs, "SAMPLES_OF_A_SHARD", 50)
    sizes = [len(shard.source_starts) for shard in shards_of(corpus, 400, tmp_path / "t")]
    phrase_counts = np.unique(
        [p for part in extract(corpus, 7) for p in phrases(corpus, part)], return_counts=True
    )[1]
    n_runs = -(-N_SENTENCES // 13)
    assert len(sizes) > 3
    assert max(sizes) <= 400 + n_runs * (400 // 50) + phrase_counts.max()


def test_nothing_is_left_beside_the_tables(paths: tuple[Path, Path, Path]) -> None:
    options = BuildConfig(lm_order=2, lm_prune=(0,), occurrences_at_once=100)
    out = paths[0].parent / "model"
    build(paths, "model", options)
    assert {p.name for p in out.iterdir() if not p.name.endswith(".settings")} == {
        *TABLES,
        *("lex.e2f", "lex.f2e", "lm.arpa.gz", "moses.ini"),
    }


def full_disk(dir: Path, buffering: int) -> BinaryIO:
    return open("/dev/full", "w+b")


def test_a_full_disk_is_told_with_the_name_of_the_table(
    corpus: AlignedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: .*phrase-table.gz"):
        shards_of(corpus, 50, tmp_path / "phrase-table.gz")


def test_shards_of_nothing_are_refused(paths: tuple[Path, Path, Path]) -> None:
    with pytest.raises(ConfigError, match="occurrences_at_once is 0; the smallest value is 1"):
        build(paths, "model", BuildConfig(occurrences_at_once=0))
