from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder.loaded_table import LoadedTable, TableFile, load_tables
from moses_bridge.builtin.decoder.options import Options, no_costs
from moses_bridge.builtin.decoder.word_places import check_links, option_places, path_places

Places = Callable[[Sequence[tuple[int, int]], int, int], list[int]]


def table_of(path: Path, rows: list[str]) -> LoadedTable:
    path.write_text("".join(f"{row}\n" for row in rows))
    return load_tables([TableFile(path, 1)], Lexicon())


def random_links(generator: np.random.Generator, n_source: int, n_target: int) -> str:
    """Links in any order: none, several of a word, or one twice."""
    pairs = [(s, t) for s in range(n_source) for t in range(n_target)]
    chosen = generator.integers(0, len(pairs), generator.integers(0, 2 * n_target)) if pairs else []
    return " ".join("{}-{}".format(*pairs[i]) for i in chosen)


def options_of(table: LoadedTable, rows: list[int], starts: list[int], ends: list[int]) -> Options:
    """Options from rows of a table, -1 for a copied word."""
    words = [
        table.rows.words[table.rows.word_starts[row] : table.rows.word_starts[row + 1]]
        if row >= 0
        else np.zeros(1, np.int32)
        for row in rows
    ]
    none = np.zeros(len(rows))
    return Options(
        n_words=max(ends),
        max_words=9,
        span_starts=np.zeros(1, np.int32),
        rows=np.array(rows, np.int64),
        starts=np.array(starts, np.int32),
        ends=np.array(ends, np.int32),
        stateless_scores=none,
        estimates=none,
        reordering=np.zeros((len(rows), 6)),
        between=np.zeros(max(ends) + 1),
        word_starts=np.cumsum([0, *map(len, words)]).astype(np.int32),
        words=np.concatenate(words),
        lm_words=np.zeros(0, np.int32),
        suffix_scores=none,
        context_sizes=np.zeros(0, np.int32),
        future_costs=no_costs(0),
    )


def test_places_are_those_of_the_definition(tmp_path: Path, places_by_definition: Places) -> None:
    generator = np.random.default_rng(3)
    sizes = generator.integers(1, 6, (200, 2)).tolist()
    links = [random_links(generator, n, k) for n, k in sizes]
    rows = [
        f"{'f ' * n}||| {'e ' * k}||| 0.5 ||| {text} ||| 1 1 1"
        for (n, k), text in zip(sizes, links, strict=True)
    ]
    table = table_of(tmp_path / "table", rows)
    check_links(table)
    for _ in range(50):
        chosen = generator.integers(-1, len(rows), 4).tolist()
        lengths = [sizes[row][0] if row >= 0 else 1 for row in chosen]
        order = generator.permutation(4)
        starts = np.zeros(4, int)
        starts[order] = np.cumsum([0, *(lengths[i] for i in order)])[:-1]
        ends = [int(start) + length for start, length in zip(starts, lengths, strict=True)]
        options = options_of(table, chosen, starts.tolist(), ends)
        places = option_places(table.rows, options)
        expected: list[int] = []
        pairs: list[tuple[int, int]] = []
        n_words = 0
        for row, start, length in zip(chosen, starts.tolist(), lengths, strict=True):
            text = links[row] if row >= 0 else "0-0"
            of_row = [(int(link.split("-")[0]), int(link.split("-")[1])) for link in text.split()]
            n_target = sizes[row][1] if row >= 0 else 1
            alone = places_by_definition(of_row, length, n_target)[:-1]
            expected += [start + place for place in alone]
            pairs += [(start + source, n_words + target) for source, target in of_row]
            n_words += n_target
        assert places.in_phrase.tolist() == expected
        path, phrases = np.array([0, 4], np.int64), np.arange(4, dtype=np.int32)
        found = path_places(path, phrases, places.linked, options)
        assert found.tolist() == places_by_definition(pairs, sum(lengths), n_words)


def test_places_of_an_unlinked_phrase_and_of_ties(tmp_path: Path) -> None:
    rows = ["f f f f ||| e e ||| 0.5 |||", "f f f ||| a b c d e ||| 0.5 ||| 2-3 0-1 1-3 2-3 0-3"]
    table = table_of(tmp_path / "table", rows)
    places = option_places(table.rows, options_of(table, [0, 1], [3, 0], [7, 3]))
    assert places.linked.tolist() == [-1, -1, -1, 0, -1, 1, -1]
    assert places.in_phrase.tolist() == [3, 5, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("links", "fault"),
    [
        ("0-0 2-0", "'2-0', expected SOURCE-TARGET within 2 source and 1 target words"),
        ("0-1", "'0-1'"),
        ("0-0 1", "'1'"),
        ("0--0", "'0--0'"),
        ("a-0", "'a-0'"),
        ("99999999999-0", "'99999999999-0'"),
    ],
)
def test_a_link_that_leaves_its_pair_is_reported_with_its_line(
    tmp_path: Path, links: str, fault: str
) -> None:
    table = table_of(tmp_path / "table", ["u ||| a ||| 1 ||| 0-0", f"u v ||| a ||| 1 ||| {links}"])
    with pytest.raises(InputError) as caught:
        check_links(table)
    assert f"table:2: found the link {fault}" in str(caught.value)


@pytest.mark.parametrize("row", ["u ||| a ||| 1", "u ||| a ||| 1 ||| ||| 1 1 1"])
def test_a_table_without_links_is_reported(tmp_path: Path, row: str) -> None:
    path = tmp_path / "table.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(f"{row}\n".encode() * 3)
    table = load_tables([TableFile(path, 1)], Lexicon())
    with pytest.raises(
        InputError, match=r"table\.gz:1: found no word links.*leave the feature out"
    ):
        check_links(table)


def test_a_table_without_rows_has_no_bad_links(tmp_path: Path) -> None:
    check_links(table_of(tmp_path / "table", []))
