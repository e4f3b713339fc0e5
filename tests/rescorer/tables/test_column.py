from __future__ import annotations

import gzip
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.progress import LineProgress
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.scorer_choice import LengthScorer, RandomScorer
from rescorer.scorers.cslm import Cslm, CslmConfig, cslm_scorer
from rescorer.tables.column import Column, ColumnConfig, parse_columns
from rescorer.tables.record import Counts, RunRecord
from rescorer.tables.scored_table import Run, add_columns
from rescorer.tables.source_table import Shard

TABLE = b"""\
a b ||| x ||| 0.5 1 0.25 2.718 ||| 0-0 ||| 1 2 3 ||| |||
a b ||| x y z ||| 0.5 1 0.25 2.718\t||| 0-0 ||| 1 2 3 ||| |||\r
a c ||| \xa0\xc2\x85\xe2\x80\xa8 ||| 0.5 1 0.25 2.718
a c ||| ||| 0.5 1  0.25 2.718 ||| ||| ||| f 1
b|||y|||0.5 1 0.25 2.718|||0-0
"""
EXPECTED = b"""\
a b ||| x ||| 0.5 1 0.25 2.718 0.1353353 ||| 0-0 ||| 1 2 3 ||| |||
a b ||| x y z ||| 0.5 1 0.25 2.718 0.01831564\t||| 0-0 ||| 1 2 3 ||| |||\r
a c ||| \xa0\xc2\x85\xe2\x80\xa8 ||| 0.5 1 0.25 2.718 0.1353353
a c ||| ||| 0.5 1  0.25 2.718 0.3678794 ||| ||| ||| f 1
b|||y|||0.5 1 0.25 2.718 0.1353353|||0-0
"""


class AllButX(Vocabulary):
    """Every word is known that does not begin with "x"."""

    def n_unknown(self, phrases: Sequence[bytes]) -> NDArray[np.int64]:
        return np.array([sum(w.startswith(b"x") for w in t.split()) for t in phrases], np.int64)


class WordCount:
    """log p = -(words + 1); a word that begins with "x" is unknown."""

    shortlist = AllButX([])
    needs_links = False

    def __init__(self) -> None:
        self.n_calls = 0

    def values(self, batch: Batch) -> NDArray[np.float64]:
        self.n_calls += 1
        return np.array([-1.0 - len(target.split()) for target in batch.targets])


def word_count(name: str = "count") -> NamedScorer:
    return NamedScorer(name, WordCount(), "1")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(TABLE))
    return path


def test_the_score_is_the_last_and_all_other_bytes_stay(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    add_columns(Run.prepare(str(table), str(out), [word_count()], ColumnConfig()))
    assert gzip.decompress(out.read_bytes()) == EXPECTED


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("block_rows", [1, 2, 100])
def test_every_compression_and_block_size(
    table: Path, tmp_path: Path, suffix: str, block_rows: int
) -> None:
    out = tmp_path / f"out{suffix}"
    add_columns(
        Run.prepare(
            str(table), str(out), [word_count()], ColumnConfig(block_rows=block_rows, jobs=2)
        )
    )
    tools = {"": "cat", ".gz": "zcat", ".bz2": "bzcat", ".xz": "xzcat", ".zst": "zstdcat"}
    try:
        text = subprocess.run([tools[suffix], out], capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip(f"no {tools[suffix]} here")
    assert text == EXPECTED


@pytest.mark.parametrize("name", ["phrase-table.gt.gz", "phrase-table.none.gz"])
def test_tables_of_moses_keep_their_bytes(golden: Path, tmp_path: Path, name: str) -> None:
    rows = gzip.decompress((golden / "extract" / name).read_bytes()).split(b"\n")[:-1][:20_000]
    table, out = tmp_path / name, tmp_path / "out.gz"
    table.write_bytes(gzip.compress(b"\n".join(rows) + b"\n", 1))
    scorer = NamedScorer("random", RandomScorer(1), "1")
    report = add_columns(
        Run.prepare(str(table), str(out), [scorer], ColumnConfig(block_rows=3000, jobs=2))
    )
    written = gzip.decompress(out.read_bytes()).split(b"\n")[:-1]
    assert report.counts.n_rows == len(written) == len(rows)
    for old, new in zip(rows, written, strict=True):
        old_columns, new_columns = old.split(b" ||| "), new.split(b" ||| ")
        assert new_columns[2].rsplit(b" ", 1)[0] == old_columns[2]
        assert -15.001 < math.log(float(new_columns[2].split()[-1])) <= 0
        assert new_columns[:2] + new_columns[3:] == old_columns[:2] + old_columns[3:]


@pytest.mark.parametrize(
    ("columns", "first_row", "second_row"),
    [
        (("sum",), [-2], [-4]),
        (("per-word",), [-1], [-1]),
        (("unknown-words",), [1], [1]),
        (("per-word", "unknown-words", "sum"), [-1, 1, -2], [-1, 1, -4]),
    ],
)
def test_columns(
    table: Path,
    tmp_path: Path,
    columns: tuple[Column, ...],
    first_row: list[float],
    second_row: list[float],
) -> None:
    out = tmp_path / "out"
    add_columns(Run.prepare(str(table), str(out), [word_count()], ColumnConfig(columns=columns)))
    for line, expected in zip(out.read_bytes().split(b"\n"), [first_row, second_row], strict=False):
        scores = [float(score) for score in line.split(b"|||")[2].split()]
        np.testing.assert_allclose(np.log(scores[4:]), expected, atol=1e-6)


def test_words_end_at_blanks_and_tabs_alone(tmp_path: Path) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_bytes(b"a ||| x\x0by\tz\x0c ||| 1\n")
    length = NamedScorer("length", LengthScorer(), "1")
    add_columns(
        Run.prepare(str(table), str(out), [length], ColumnConfig(columns=("sum", "per-word")))
    )
    scores = [float(score) for score in out.read_bytes().split(b"|||")[2].split()]
    np.testing.assert_allclose(np.log(scores), [0, -2, -2 / 3], atol=1e-6)


def test_two_models_count_unknown_words_once(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(columns=("sum", "unknown-words"))
    scorers = [word_count("one"), NamedScorer("two", LengthScorer(), "2")]
    report = add_columns(Run.prepare(str(table), str(tmp_path / "out"), scorers, config))
    assert report.columns == (("sum", "one"), ("unknown-words", "one"), ("sum", "two"))
    first = (tmp_path / "out").read_bytes().split(b"\n")[0].split(b"|||")[2].split()
    np.testing.assert_allclose(np.log([float(s) for s in first[4:]]), [-2, 1, -1], atol=1e-6)


def test_two_models_with_a_shortlist_count_unknown_words_once(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(columns=("sum", "unknown-words"))
    scorers = [word_count("one"), word_count("two")]
    add_columns(Run.prepare(str(table), str(tmp_path / "out"), scorers, config))
    first = (tmp_path / "out").read_bytes().split(b"\n")[0].split(b"|||")[2].split()
    np.testing.assert_allclose(np.log([float(s) for s in first[4:]]), [-2, 1, -2], atol=1e-6)


class Given:
    """Its values are given, by the target."""

    shortlist = None
    needs_links = False

    def __init__(self, **values: float) -> None:
        self.by_target = {target.encode(): value for target, value in values.items()}

    def values(self, batch: Batch) -> NDArray[np.float64]:
        return np.array([self.by_target[target] for target in batch.targets])


def test_values_outside_the_range_of_float32_are_cut_and_counted(tmp_path: Path) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"".join(b"a ||| %b ||| 1\n" % target for target in (b"x", b"y", b"z")))
    scorer = NamedScorer("given", Given(x=1e4, y=3.0, z=-1e4), "1")
    report = add_columns(Run.prepare(str(table), str(out), [scorer], ColumnConfig()))
    written = [float(row.split()[-1]) for row in out.read_bytes().splitlines()]
    np.testing.assert_allclose(written, [np.exp(88.0), np.exp(3.0), 1e-30], rtol=1e-6)
    assert report.counts.n_floored == (2,)


def test_a_logarithm_has_no_greatest_value_to_be_cut_to(tmp_path: Path) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"".join(b"a ||| %b ||| 1\n" % target for target in (b"x", b"y", b"z")))
    scorer = NamedScorer("given", Given(x=1e4, y=3.0, z=-1e4), "1")
    config = ColumnConfig(column_format="log")
    report = add_columns(Run.prepare(str(table), str(out), [scorer], config))
    written = [float(row.split()[-1]) for row in out.read_bytes().splitlines()]
    np.testing.assert_allclose(written, [1e4, 3.0, np.log(1e-30)], rtol=1e-6)
    assert report.counts.n_floored == (1,)


def test_values_at_the_ends_of_the_range_are_not_cut(tmp_path: Path) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"a ||| x ||| 1\na ||| y ||| 1\n")
    scorer = NamedScorer("given", Given(x=88.0, y=float(np.log(1e-30))), "1")
    report = add_columns(Run.prepare(str(table), str(out), [scorer], ColumnConfig()))
    assert report.counts.n_floored == (0,)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("columns", [("sum",), ("per-word",), ("unknown-words", "per-word")])
def test_the_first_value_that_is_not_finite_is_refused_with_model_and_pair(
    tmp_path: Path, value: float, columns: tuple[Column, ...]
) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"a ||| x ||| 1\na b ||| y \xff ||| 1\nc ||| z ||| 1\n")
    scorer = Given(x=-1.0, z=value)
    scorer.by_target[b"y \xff"] = value
    scorer.shortlist = AllButX([])  # type: ignore[assignment]
    found = rf"t:2: found the score {value} of 'a b \|\|\| y \ufffd'.*\(my model\)"
    with pytest.raises(InputError, match=found):
        add_columns(
            Run.prepare(
                str(table),
                str(out),
                [NamedScorer("my model", scorer, "1")],
                ColumnConfig(columns=columns),
            )
        )
    assert not out.exists()


class LinkCount:
    """The number of links."""

    shortlist = None
    needs_links = True

    def values(self, batch: Batch) -> NDArray[np.float64]:
        assert batch.links is not None
        return np.array([-float(len(links.split())) for links in batch.links])


def test_a_scorer_gets_the_links_that_it_needs(tmp_path: Path) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"a ||| x ||| 1 ||| 0-0 0-1 ||| 1 1 1\na ||| y ||| 1 ||| \nb ||| x ||| 1\n")
    named = NamedScorer("links", LinkCount(), "1")
    config = ColumnConfig(column_format="log", block_rows=1)
    add_columns(Run.prepare(str(table), str(out), [named], config))
    rows = [row.split(b"|||")[2].split() for row in out.read_bytes().splitlines()]
    assert [float(row[1]) for row in rows] == [-2, 0, 0]


def test_a_table_without_links_is_refused_where_they_are_needed(tmp_path: Path) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"a ||| x ||| 1\n")
    scorers = [word_count(), NamedScorer("my links", LinkCount(), "1")]
    with pytest.raises(InputError, match=r"found no word links.*which my links needs"):
        add_columns(Run.prepare(str(table), str(out), scorers, ColumnConfig()))
    assert not list(tmp_path.glob("*out*"))


class OneWord:
    """A model of single words."""

    shortlist = None
    needs_links = False

    def values(self, batch: Batch) -> NDArray[np.float64]:
        for row, target in enumerate(batch.targets):
            if len(target.split()) > 1:
                raise UnscorablePair(row, batch, "target", "too many words", "one", "Cut it")
        return np.zeros(len(batch))


class LettersOfFewWords:
    """Minus the number of letters; nan for "bad", and no value for more than two words."""

    shortlist = None
    needs_links = False

    def values(self, batch: Batch) -> NDArray[np.float64]:
        for row, target in enumerate(batch.targets):
            if len(target.split()) > 2:
                raise UnscorablePair(row, batch, "target", "3 words", "two", "Cut it")
        each = [np.nan if target == b"bad" else -len(target) for target in batch.targets]
        return np.array(each, dtype=np.float64)


def test_rows_without_a_value_get_the_least_of_their_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Per word a long row would be the best one; a source with no value takes the least of its block."""
    path, out = tmp_path / "table", tmp_path / "out"
    rows = b"a ||| x ||| 1\na ||| xyz ||| 1\na ||| x y z ||| 1\nb ||| bad ||| 1\nc ||| bad ||| 1\n"
    path.write_bytes(rows)
    named = [NamedScorer("few", LettersOfFewWords(), "1"), word_count()]
    config = ColumnConfig(("sum", "per-word"), block_rows=4, max_bad_rows=2)
    with pytest.raises(InputError, match=r"the score nan of 'c .* bad'.*\(few\); with --skip-bad"):
        add_columns(Run.prepare(str(path), str(out), named, config))
    config = replace(config, max_bad_rows=3)  # goes on after the first block
    run = Run.prepare(str(path), str(out), named, config, resume=True)
    assert add_columns(run).counts == Counts(5, (0, 0, 0, 0), 0, 3)
    values = [
        [float(x) for x in row.split(b"|||")[2].split()] for row in out.read_bytes().splitlines()
    ]
    lowest = -30 * np.log(10)
    expected = [[-1, -0.5], [-3, -1.5], [-3, -1.5], [-3, -1.5], [lowest, lowest]]
    np.testing.assert_allclose(np.log(values)[:, 1:3], expected, rtol=1e-6)
    notes = capsys.readouterr().err
    assert notes.count("note: ") == 3
    assert "found 3 words on the target side of 'a ||| x y z', expected two" in notes
    assert RunRecord.read(str(out)).summary()[-1] == (
        f"note: {out}: 3 values that no scorer gave are the least of their source phrase"
    )


@pytest.mark.parametrize("columns", [("sum",), ("per-word",)])
def test_a_row_without_a_value_is_named(columns: tuple[Column, ...], tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"a ||| x ||| 0.5\nb ||| x y ||| 0.5\nc ||| y z ||| 0.5\n")
    named = NamedScorer("one", OneWord(), "1")
    message = (
        r"table:2: found too many words on the target side of 'b \|\|\| x y', expected one. Cut it"
    )
    with pytest.raises(InputError, match=message):
        add_columns(
            Run.prepare(
                str(path),
                str(tmp_path / "out"),
                [named],
                ColumnConfig(columns),
            )
        )
    assert not (tmp_path / "out").exists()


def test_scores_that_are_not_there_cannot_be_replaced(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(n_replaced=4)
    with pytest.raises(InputError, match="found 4 scores, expected more than the 4 to replace"):
        add_columns(Run.prepare(str(table), str(tmp_path / "o"), [word_count()], config))


def test_the_last_scores_are_replaced(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = ColumnConfig(n_replaced=3)
    report = add_columns(Run.prepare(str(table), str(out), [word_count()], config))
    assert report.n_old_scores == 1
    rows = [row.split(b"|||")[2].split() for row in out.read_bytes().splitlines()]
    expected = [row.split(b"|||")[2].split() for row in EXPECTED.splitlines()]
    assert rows == [[row[0], row[-1]] for row in expected]


def test_unknown_words_of_a_language_model_are_counted(table: Path, tmp_path: Path) -> None:
    """It has a shortlist as any network has: words outside x, y are counted."""
    words = Vocabulary([b"x", b"y"])
    network = Cslm(CslmConfig(2, 4, 4, 4), len(words))
    model = TrainedModel("cslm", network.eval(), Shortlists(None, words), {})
    named = NamedScorer("cslm", cslm_scorer(model, Compute(device="cpu")), "1")
    out, config = tmp_path / "out", ColumnConfig(columns=("unknown-words",))
    add_columns(Run.prepare(str(table), str(out), [named], config))
    last = [row.split(b"|||")[2].split()[-1] for row in out.read_bytes().splitlines()]
    np.testing.assert_allclose(np.log([float(x) for x in last]), [0, 1, 1, 0, 0], atol=1e-6)


def test_unknown_words_alone_are_counted_without_the_network(table: Path, tmp_path: Path) -> None:
    scorer = Given()  # which has a value of no pair
    scorer.shortlist = AllButX([])  # type: ignore[assignment]
    named, config = NamedScorer("counts", scorer, "1"), ColumnConfig(columns=("unknown-words",))
    out = tmp_path / "out"
    add_columns(Run.prepare(str(table), str(out), [named], config))
    last = [row.split(b"|||")[2].split()[-1] for row in out.read_bytes().splitlines()]
    np.testing.assert_allclose(np.log([float(x) for x in last]), [1, 1, 0, 0, 0], atol=1e-6)


def test_floored_rows_are_counted(tmp_path: Path) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"".join(b"a ||| %s||| 1\n" % (b"w " * n) for n in (1, 67, 68, 69, 80)))
    report = add_columns(
        Run.prepare(str(table), str(out), [word_count()], ColumnConfig(block_rows=1))
    )
    assert report.counts.n_floored == (2,)
    assert out.read_bytes().split(b"\n")[4].endswith(b"||| 1 1e-30")


@pytest.mark.parametrize(("shard", "expected"), [(None, 6), (Shard(2, 3), 2)])
def test_progress_is_told_of_the_rows_of_the_shard(
    tmp_path: Path, shard: Shard | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, totals = tmp_path / "table", list[int | None]()
    table.write_bytes(b"".join(b"%d ||| x ||| 1\n" % number for number in range(6)))

    def enter(progress: LineProgress) -> LineProgress:
        totals.append(progress.total)
        return progress

    monkeypatch.setattr(LineProgress, "__enter__", enter)
    config = ColumnConfig(shard=shard)
    add_columns(Run.prepare(str(table), str(tmp_path / "out"), [word_count()], config))
    assert totals[-1] == expected  # the one before is of counting


class Stop(Exception):
    pass


@pytest.mark.parametrize("n_done", [0, 1, 3])
def test_a_stopped_run_continues_with_the_same_result(
    golden: Path, tmp_path: Path, n_done: int
) -> None:
    table = golden / "extract" / "phrase-table.gt.gz"
    n_rows = gzip.decompress(table.read_bytes()).count(b"\n")
    config = ColumnConfig(block_rows=n_rows // 8)
    add_columns(Run.prepare(str(table), str(tmp_path / "whole.gz"), [word_count()], config))

    class Stopping(WordCount):
        def values(self, batch: Batch) -> NDArray[np.float64]:
            if self.n_calls == n_done:
                raise Stop
            return super().values(batch)

    out = tmp_path / "out.gz"
    with pytest.raises(Stop):
        add_columns(
            Run.prepare(str(table), str(out), [NamedScorer("count", Stopping(), "1")], config)
        )
    assert not out.exists()
    with (tmp_path / ".out.gz.partial").open("ab") as stream:
        stream.write(b"half a block")
    second = word_count()
    report = add_columns(Run.prepare(str(table), str(out), [second], config, resume=True))
    assert out.read_bytes() == (tmp_path / "whole.gz").read_bytes()
    assert isinstance(second.scorer, WordCount)
    n_blocks = second.scorer.n_calls + n_done
    assert report.counts.n_rows == n_rows and n_blocks > 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.gz",
        "out.gz.json",
        "whole.gz",
        "whole.gz.json",
    ]


def test_a_run_that_was_stopped_after_one_row_continues_with_the_next(tmp_path: Path) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_bytes(b"a ||| x ||| 1\nb ||| x ||| 1\nc ||| x ||| 1\n")

    class Stopping(WordCount):
        def values(self, batch: Batch) -> NDArray[np.float64]:
            if batch.sources[0] != b"a":
                raise Stop
            return super().values(batch)

    config = ColumnConfig(block_rows=1)
    stopping = NamedScorer("count", Stopping(), "1")
    with pytest.raises(Stop):
        add_columns(Run.prepare(str(table), str(out), [stopping], config))
    second = word_count()
    add_columns(Run.prepare(str(table), str(out), [second], config, resume=True))
    assert [row[:1] for row in out.read_bytes().splitlines()] == [b"a", b"b", b"c"]
    assert isinstance(second.scorer, WordCount)
    assert second.scorer.n_calls == 2


@pytest.mark.parametrize("row", [0, 2])
def test_a_table_changed_meanwhile_is_scored_anew(tmp_path: Path, row: int) -> None:
    """Its size and time are those of before."""
    table, out = tmp_path / "table", tmp_path / "out"
    rows = [b"a ||| x ||| 1", b"b ||| x ||| 1", b"c ||| x ||| 1"]
    table.write_bytes(b"\n".join(rows) + b"\n")

    class Stopping(WordCount):
        def values(self, batch: Batch) -> NDArray[np.float64]:
            if batch.sources[0] != b"a":
                raise Stop
            return super().values(batch)

    config = ColumnConfig(block_rows=1)
    with pytest.raises(Stop):
        add_columns(
            Run.prepare(str(table), str(out), [NamedScorer("count", Stopping(), "1")], config)
        )
    time = table.stat().st_mtime_ns
    rows[row] = rows[row].replace(b"1", b"2")
    table.write_bytes(b"\n".join(rows) + b"\n")
    os.utime(table, ns=(time, time))
    add_columns(Run.prepare(str(table), str(out), [word_count()], config, resume=True))
    assert [line[: len(rows[0])] for line in out.read_bytes().splitlines()] == rows


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.update(n_bytes=10**9),
        lambda state: state["settings"].update(columns=["per-word"]),
        lambda state: state.pop("settings"),
    ],
)
def test_progress_that_does_not_fit_is_not_used(
    table: Path, tmp_path: Path, change: Callable[[dict[str, object]], None]
) -> None:
    out = tmp_path / "out"
    add_columns(Run.prepare(str(table), str(out), [word_count()], ColumnConfig()))
    settings = json.loads((tmp_path / "out.json").read_bytes())["settings"]
    state = {"settings": settings, "n_bytes": 3, "progress": {"rows": 5}}
    change(state)
    (tmp_path / ".out.partial").write_bytes(b"no!")
    (tmp_path / ".out.partial.json").write_text(json.dumps(state))
    add_columns(Run.prepare(str(table), str(out), [word_count()], ColumnConfig(), resume=True))
    assert out.read_bytes() == EXPECTED


def test_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.TextIOWrapper):
        pass

    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", Stream(io.BytesIO(TABLE)))
    monkeypatch.setattr(sys, "stdout", Stream(output))
    add_columns(Run.prepare("-", "-", [word_count()], ColumnConfig(block_rows=1)))
    assert output.getvalue() == EXPECTED


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (b"a ||| b ||| 1\na ||| b\n", 2, "2 columns"),
        (b"a ||| b ||| 1\n\n", 2, "1 column"),
        (b"a ||| b ||| 1\n ||| b ||| 1\n", 2, "empty source"),
        (b"a ||| b ||| 1\na [X] ||| b [X] ||| 1\n", 2, "hierarchical"),
        (b"a ||| b |||\n", 1, "0 scores, expected at least 1"),
        (b"", None, "no row to score"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, content: bytes, line: int | None, found: str) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_bytes(content)
    with pytest.raises(InputError, match=found) as caught:
        add_columns(Run.prepare(str(table), str(out), [word_count()], ColumnConfig(block_rows=1)))
    assert caught.value.line == line
    del caught  # and the frames in it, so that the file in them is closed now
    assert not out.exists()


@pytest.mark.parametrize(("columns", "message"), [((), "no column"), (("sum", "sum"), "twice")])
def test_columns_that_make_no_sense(
    table: Path, tmp_path: Path, columns: tuple[Column, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        add_columns(
            Run.prepare(
                str(table), str(tmp_path / "o"), [word_count()], ColumnConfig(columns=columns)
            )
        )


def test_controls_have_no_unknown_words(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(columns=("unknown-words",))
    scorers = [NamedScorer("length", LengthScorer(), "l"), word_count()]
    with pytest.raises(ConfigError, match=r"^length has no shortlist"):
        add_columns(Run.prepare(str(table), str(tmp_path / "o"), scorers, config))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("sum", ("sum",)),
        ("sum, per-word", ("sum", "per-word")),
        ("unknown-words,sum", ("unknown-words", "sum")),
    ],
)
def test_parse_columns(names: str, expected: tuple[str, ...]) -> None:
    assert parse_columns(names) == expected


@pytest.mark.parametrize(
    ("name", "fault"),
    [("mean", "no column 'mean'; there"), ("residual", "no column 'residual' any more; there are")],
)
def test_parse_unknown_column(name: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse_columns(f"sum,{name}")


def test_a_pipe_is_written_to_and_stays_a_pipe(table: Path, tmp_path: Path) -> None:
    """As a device would: a new file in its place would break whoever else uses it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        add_columns(Run.prepare(str(table), str(pipe), [word_count()], ColumnConfig()))
        assert read.result(timeout=60) == EXPECTED
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "table.gz"]
    with pytest.raises(ConfigError, match="a pipe or a device cannot be resumed"):
        add_columns(Run.prepare(str(table), str(pipe), [word_count()], ColumnConfig(), resume=True))


def test_a_link_is_followed(table: Path, tmp_path: Path) -> None:
    link, real = tmp_path / "link", tmp_path / "folder" / "real"
    link.symlink_to(real)
    add_columns(Run.prepare(str(table), str(link), [word_count()], ColumnConfig()))
    assert link.is_symlink()
    assert real.read_bytes() == EXPECTED
