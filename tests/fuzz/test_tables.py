"""Damaged phrase tables: no traceback, no lost row, no changed byte, and the right line in a refusal.

What is right is told here by patterns of its own, written from how Moses reads a row
(moses/TranslationModel/RuleTable/LoaderStandard.cpp:181-209), not by the readers under test.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xopen import xopen

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.tables.check.table import check_table
from moses_bridge.tables.filter import SourcePhrases, usable_rows
from rescorer.contract.scorer import NamedScorer
from rescorer.models.scorer_choice import RandomScorer
from rescorer.tables.column import ColumnConfig
from rescorer.tables.scored_table import score_table
from tests.fuzz.conftest import N_TABLES, in_time

BATCHES = 6
# Begin compressed data and no text: gzip, xz and Zstandard.
SIGNATURES = (b"\x1f\x8b", b"\xfd7zXZ\0", b"(\xb5/\xfd")
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
LABEL = re.compile(rb"\[.*\]", re.DOTALL)
RANDOM = [NamedScorer("random", RandomScorer(1), "1")]
ROWS = [
    b"&apos; , ||| &apos; , par ||| 0.118631 0.421017 0.00118631 1 ||| 0-0 1-1 ||| 1 100 1 ||| |||",
    b"&apos; , ||| &quot; , ||| 0.00698157 1e-05 0.0196182 0.0140089 ||| 0-0 1-1 ||| 2 1 3 ||| |||",
    b"a ||| \xc3\xa0 la ||| 0.5 0.25 0.125 2.718 ||| 0-0 0-1",
    b"a b ||| c ||| 1 1 1 1 ||| 0-0 1-0 ||| 3 3 3 ||| dom_x 1 ||| {{Counts 1 2}}",
    b"a|N b|V ||| c|N ||| 0.1 0.2 0.3 0.4 ||| 1-0",
    b"d\xe9j\xe0\xa0 ||| \xc2\xa0 \xe2\x80\xa8 ||| 0 1 1 1",
    b"z ||| y ||| 1 1 1 1 \r",
    b"z ||| x ||| 1e-30 .5 5. 1E0\r",
]


def first_fault(lines: list[bytes]) -> int | None:
    """1-based line of the first row that must be refused."""
    n_scores = None
    for number, line in enumerate(lines, start=1):
        columns = line.split(b"|||")
        if len(columns) < 3 or not columns[0].strip(b" \t") or is_rule(columns):
            return number
        scores = [token for token in re.split(rb"[ \t]+", columns[2].rstrip(b"\r")) if token]
        if not all(NUMBER.fullmatch(score) and 0 <= float(score) < 1e308 for score in scores):
            return number
        if len(scores) != (n_scores or len(scores)) or not scores:
            return number
        n_scores = len(scores)
    return None


def is_rule(columns: list[bytes]) -> bool:
    """A label ends the source, and it is [X], or one ends the target too behind a non-terminal."""
    *_, label = re.split(rb"[ \t]+", columns[0].strip(b" \t"))
    *_, target_label = re.split(rb"[ \t]+", columns[1].strip(b" \t"))
    if not LABEL.fullmatch(label):
        return False
    return label == b"[X]" or bool(LABEL.fullmatch(target_label) and b"][" in columns[0])


def assert_sound(text: bytes, suffix: str, folder: Path) -> str:
    """Read a table in all ways; what became of it."""
    table = folder / f"table{suffix}"
    with xopen(table, "wb", threads=0) as stream:
        stream.write(text)
    before = table.read_bytes()
    with in_time(text):
        outcome = assert_sound_table(table, text, folder / f"out{suffix}")
    assert table.read_bytes() == before
    return outcome


def assert_sound_table(table: Path, text: bytes, out: Path) -> str:
    if not table.suffix and text.startswith(SIGNATURES):
        with pytest.raises(InputError, match=":1: found damaged data"):
            list(read_lines(table))
        return "refused: damaged data"
    lines = text.split(b"\n")[: None if text and not text.endswith(b"\n") else -1]
    assert list(read_lines(table)) == lines
    expected = first_fault(lines) if lines else None
    report = check_table(table)
    assert report.n_rows == len(lines)
    assert all(1 <= (fault.line or 0) <= len(lines) for fault in report.faults)
    # A row that is refused for its number of scores may be right by the first good row.
    assert expected is None or min(fault.line or 0 for fault in report.faults) <= expected
    assert all(isinstance(line, str) for line in report.summary())
    assert_filtered(table, lines)
    try:
        score_table(str(table), str(out), RANDOM, ColumnConfig(block_rows=2))
    except InputError as fault:
        assert fault.line == expected and not out.exists()
        return "empty" if not lines else f"refused: {fault.expected}"
    assert expected is None
    scored = list(read_lines(out))
    assert len(scored) == len(lines)
    for old, new in zip(lines, scored, strict=True):
        assert_one_score_added(old, new)
    out.unlink()
    return "scored"


def assert_one_score_added(old: bytes, new: bytes) -> None:
    differing = (place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    n_same = next(differing, len(old))
    n_added = len(new) - len(old)
    assert new[:n_same] + new[n_same + n_added :] == old
    assert n_added > 1 and not new[n_same : n_same + n_added].strip(b" 0123456789.e-\t")
    before, after = (
        re.split(rb"[ \t]+", row.split(b"|||")[2].strip(b" \t\r")) for row in (old, new)
    )
    assert after[:-1] == before and 0 < float(after[-1]) <= 1


def assert_filtered(table: Path, lines: list[bytes]) -> None:
    sources = [
        b" ".join(re.split(rb"[ \t]+", line.split(b"|||")[0].strip(b" \t"))) for line in lines
    ]
    wanted = {source for source in sources[::2] if source}
    try:
        kept = list(usable_rows(table, SourcePhrases(wanted), 3))
    except InputError as fault:
        row = lines[(fault.line or 0) - 1].split(b"|||")
        assert len(row) < 3 or is_rule(row)
        return
    padded = b"".join(b" %s \n" % sentence for sentence in wanted)
    pairs = zip(lines, sources, strict=True)
    assert kept == [line for line, source in pairs if source and b" %s " % source in padded]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutated_rows(
    batch: int,
    mutator: Any,
    tell: Callable[[str, int], None],
    tmp_path: Path,
    small_golden: Path,
) -> None:
    rows = ROWS
    if batch % 2:
        table = small_golden / "extract" / "phrase-table.gt.gz"
        rows = list(islice(read_lines(table), 2000, 2200))
    rng = mutator.rng
    rng.seed(batch)
    outcomes: Counter[str] = Counter()
    for _ in range(-(-N_TABLES // BATCHES)):
        start = rng.randrange(len(rows))
        chosen = rows[start : start + rng.randint(1, 6)]
        suffix = rng.choice(("", "", "", "", ".gz", ".zst", ".bz2", ".xz"))
        outcomes[assert_sound(mutator.mutated(chosen), suffix, tmp_path)] += 1
    assert outcomes["scored"] > N_TABLES // BATCHES // 10
    tell("tables", outcomes.total())
    assert len(outcomes) >= 3, outcomes


PARTS = st.binary(max_size=4) | st.sampled_from(
    [b" ", b"  ", b"\t", b"\r", b"|", b"[X]", b"[a]", b"a", b"\xe9", b"\xc2\xa0", b"\xe2\x80\xa8"]
)
PHRASES = st.lists(PARTS, max_size=4).map(b" ".join)
SCORES = st.lists(
    st.sampled_from([b"0.5", b"1", b"0", b"1e-5", b"-1", b"nan", b"2.718"]) | PARTS, max_size=3
).map(b" ".join)
TABLE_ROWS = st.builds(
    lambda source, target, scores, others, bar: bar.join([source, target, scores, *others]),
    PHRASES,
    PHRASES,
    SCORES | st.just(b"1 0.5"),
    st.lists(st.sampled_from([b"", b"0-0", b"1 2 1", b"f 1", b"{{Tree a}}"]) | PHRASES, max_size=5),
    st.sampled_from([b" ||| ", b" ||| ", b"|||", b"\t|||\t"]),
)


@given(
    st.lists(TABLE_ROWS | st.just(b"a ||| b ||| 1 0.5"), max_size=5),
    st.sampled_from(["", ".gz"]),
    st.booleans(),
)
@settings(
    max_examples=max(50, N_TABLES // 10),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_invented_rows(
    tmp_path_factory: pytest.TempPathFactory,
    tell: Callable[[str, int], None],
    rows: list[bytes],
    suffix: str,
    has_end: bool,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "invented"
    folder.mkdir(exist_ok=True)
    assert_sound(b"\n".join(rows) + (b"\n" if has_end and rows else b""), suffix, folder)
    tell("tables", 1)


def test_damaged_compression(
    mutator: Any, tell: Callable[[str, int], None], tmp_path: Path
) -> None:
    lines = [row + b" %d" % number for number, row in enumerate(ROWS * 20)]
    whole = gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)
    table = tmp_path / "table.gz"
    for _ in range(N_TABLES // 4):
        damage = mutator.damaged(whole)
        table.write_bytes(damage)
        read: list[bytes] = []
        try:
            with in_time(damage):
                for line in read_lines(table):
                    read.append(line)
        except InputError as fault:
            is_cut = whole.startswith(table.read_bytes())
            assert fault.line == len(read) + 1
            assert not is_cut or read == lines[: len(read)]
        else:
            assert read == lines or not table.read_bytes()
    tell("tables", N_TABLES // 4)


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_golden_tables_come_back(golden: Path, tmp_path: Path, suffix: str, n_cases: int) -> None:
    """All rows under `make fuzz`, some of them otherwise."""
    for name in ("decode/phrase-table.gz", "extract/phrase-table.none.gz"):
        n_rows = None if n_cases >= 20_000 else 3000
        with gzip.open(golden / name) as stream:
            text = b"".join(islice(stream, n_rows))
        with xopen(tmp_path / f"table{suffix}", "wb", threads=0) as stream:
            stream.write(text)
        write_lines(tmp_path / f"out{suffix}", read_lines(tmp_path / f"table{suffix}"))
        with xopen(tmp_path / f"out{suffix}", "rb", threads=0) as stream:
            assert stream.read() == text
