"""Forms of a column against sums by hand, and in whole tables."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.textio import write_lines
from moses_bridge.formats.phrase_table import Block, read_rows
from rescorer.contract.batch import Batch
from rescorer.contract.scorer import NamedScorer
from rescorer.models.scorer_choice import RandomScorer
from rescorer.tables.column import ColumnConfig, over_targets, parse_columns, per_word
from rescorer.tables.merging import in_order, merged
from rescorer.tables.scored_table import Run, add_columns
from rescorer.tables.source_table import Shard

NOISE = NamedScorer("noise", RandomScorer(3), "noise 3")
ALL_FORMS = parse_columns("sum,per-word,over-targets")


def known(sources: list[bytes], targets: list[bytes]) -> Block:
    return Block([b""] * len(sources), sources, targets)


def test_per_word_counts_the_end_of_the_phrase() -> None:
    rows = known([b"a", b"a"], [b"x y", b""])
    assert per_word(rows, np.array([-6.0, -6.0])).tolist() == [-2.0, -6.0]


def test_over_targets_is_a_probability_among_those_of_the_table() -> None:
    rows = known([b"a", b"a", b"b", b"c", b"c", b"c"], [b"x"] * 6)
    values = np.log([0.1, 0.3, 1e-9, 0.2, 0.2, 0.4])
    expected = [0.25, 0.75, 1.0, 0.25, 0.25, 0.5]
    np.testing.assert_allclose(np.exp(over_targets(rows, values)), expected)
    first = known([b"a", b"a"], [b"x"] * 2)
    np.testing.assert_allclose(np.exp(over_targets(first, values[:2])), expected[:2])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = []
    for number in range(60):
        source = b" ".join(b"s%d" % number for _ in range(rng.integers(1, 4)))
        for target in range(rng.integers(1, 6)):
            words = b" ".join(b"t%d" % target for _ in range(rng.integers(1, 5)))
            scores = b" ".join(b"%.6g" % score for score in rng.uniform(1e-6, 1, 4))
            lines.append(b" ||| ".join([source, words, scores, b"0-0"]))
    write_lines(tmp_path / "table", lines)
    return tmp_path / "table"


def scored(table: Path, out: Path, config: ColumnConfig, shard: Shard | None = None) -> Path:
    add_columns(Run.prepare(str(table), str(out), [NOISE], replace(config, shard=shard)))
    return out


def logs(table: Path) -> NDArray[np.float64]:
    return np.log([row.scores for row in read_rows(table)])


def test_all_forms_in_one_table(table: Path, tmp_path: Path) -> None:
    out = scored(table, tmp_path / "out", ColumnConfig(ALL_FORMS, block_rows=10))
    rows = [*read_rows(table)]
    values = NOISE.scorer.values(Batch([row.source for row in rows], [row.target for row in rows]))
    added = logs(out)[:, 4:]
    np.testing.assert_allclose(added[:, 0], values, rtol=1e-5)
    n_steps = [len(row.target.split()) + 1 for row in rows]
    np.testing.assert_allclose(added[:, 1], values / n_steps, rtol=1e-5)
    for source in {row.source for row in rows}:
        places = [place for place, row in enumerate(rows) if row.source == source]
        assert math.isclose(np.exp(added[places, 2]).sum(), 1.0, rel_tol=1e-5)


def test_shards_have_the_forms_of_the_whole_table(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(ALL_FORMS)
    whole = scored(table, tmp_path / "whole", config)
    parts = [
        scored(table, tmp_path / f"part{number}", config, Shard(number, 3)) for number in (3, 1, 2)
    ]
    merged(in_order(parts), tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == whole.read_bytes()


class StopsOnce:
    """Noise that stops in its second call."""

    shortlist = None
    needs_links = False

    def __init__(self) -> None:
        self.n_calls = 0

    def values(self, batch: Batch) -> NDArray[np.float64]:
        self.n_calls += 1
        if self.n_calls == 2:
            raise KeyboardInterrupt
        return NOISE.scorer.values(batch)


def test_an_interrupted_table_is_continued_with_all_forms(table: Path, tmp_path: Path) -> None:
    config = ColumnConfig(ALL_FORMS, block_rows=40)
    out, stopping = tmp_path / "out", StopsOnce()
    named = NamedScorer("noise", stopping, "noise 3")
    with pytest.raises(KeyboardInterrupt):
        add_columns(Run.prepare(str(table), str(out), [named], config))
    n_begun = stopping.n_calls  # another block may have begun when one stops
    add_columns(Run.prepare(str(table), str(out), [named], config, resume=True))
    n_resumed = stopping.n_calls - n_begun
    whole = tmp_path / "whole"
    add_columns(Run.prepare(str(table), str(whole), [named], config))
    n_whole = stopping.n_calls - n_begun - n_resumed
    assert n_resumed == n_whole - 1  # not the block that was done
    assert out.read_bytes() == whole.read_bytes()


def test_a_table_that_was_begun_with_other_blocks_is_not_continued(
    table: Path, tmp_path: Path
) -> None:
    out, config = tmp_path / "out", ColumnConfig(ALL_FORMS, block_rows=40)
    named = NamedScorer("noise", StopsOnce(), "noise 3")
    with pytest.raises(KeyboardInterrupt):
        add_columns(Run.prepare(str(table), str(out), [named], replace(config, block_rows=50)))
    add_columns(Run.prepare(str(table), str(out), [named], config, resume=True))
    assert out.read_bytes() == scored(table, tmp_path / "whole", config).read_bytes()


def test_a_table_that_was_begun_with_a_former_column_is_not_continued(
    table: Path, tmp_path: Path
) -> None:
    """Its state names what is no longer made: the run begins anew, without a traceback."""
    out, config = tmp_path / "out", ColumnConfig(ALL_FORMS, block_rows=40)
    named = NamedScorer("noise", StopsOnce(), "noise 3")
    with pytest.raises(KeyboardInterrupt):
        add_columns(Run.prepare(str(table), str(out), [named], config))
    path = tmp_path / ".out.partial.json"
    state = json.loads(path.read_text())
    state["settings"] |= {"columns": ["residual"], "predictions": [{"n_rows": 7}]}
    path.write_text(json.dumps(state))
    add_columns(Run.prepare(str(table), str(out), [named], config, resume=True))
    assert out.read_bytes() == scored(table, tmp_path / "whole", config).read_bytes()
