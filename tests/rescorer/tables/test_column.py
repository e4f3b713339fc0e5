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
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.errors import ConfigError, InputError
from moses_bridge.formats.moses_ini import read_ini
from rescorer.controls import LengthScorer, RandomScorer
from rescorer.tables.column import (
    Column,
    ColumnOptions,
    NamedScorer,
    add_columns,
    moses_prob,
    parse_columns,
)
from rescorer.tables.ini_patch import binary_table_commands, initial_weights, table_feature
from rescorer.tables.rows import Shard
from rescorer.tables.scored_table import score_table

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
INI = b"""\
# a comment
[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path=table.gz input-factor=0
KENLM name=LM0 factor=0 path=lm.arpa order=5

[weight]
TranslationModel0= 0.2 0.1 0.2 -0.4
LM0= 0.5
UnknownWordPenalty0= 1
"""


class WordCount:
    """log p = -(words + 1); a word that begins with "x" is unknown."""

    def __init__(self) -> None:
        self.n_calls = 0

    def log_probs(self, sources: Sequence[bytes], targets: Sequence[bytes]) -> NDArray[np.float64]:
        self.n_calls += 1
        return np.array([-1.0 - len(target.split()) for target in targets])

    def n_unknown(self, targets: Sequence[bytes]) -> NDArray[np.int64]:
        return np.array([sum(w.startswith(b"x") for w in t.split()) for t in targets], np.int64)


def word_count(name: str = "count") -> NamedScorer:
    return NamedScorer(name, WordCount(), "1")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(TABLE))
    return path


def test_the_score_is_the_last_and_all_other_bytes_stay(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    add_columns(str(table), str(out), [word_count()], ColumnOptions())
    assert gzip.decompress(out.read_bytes()) == EXPECTED


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("block_rows", [1, 2, 100])
def test_every_compression_and_block_size(
    table: Path, tmp_path: Path, suffix: str, block_rows: int
) -> None:
    out = tmp_path / f"out{suffix}"
    add_columns(str(table), str(out), [word_count()], ColumnOptions(block_rows=block_rows, jobs=2))
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
    report = add_columns(str(table), str(out), [scorer], ColumnOptions(block_rows=3000, jobs=2))
    written = gzip.decompress(out.read_bytes()).split(b"\n")[:-1]
    assert report.n_rows == len(written) == len(rows)
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
    add_columns(str(table), str(out), [word_count()], ColumnOptions(columns=columns))
    for line, expected in zip(out.read_bytes().split(b"\n"), [first_row, second_row], strict=False):
        scores = [float(score) for score in line.split(b"|||")[2].split()]
        np.testing.assert_allclose(np.log(scores[4:]), expected, atol=1e-6)


def test_words_end_at_blanks_and_tabs_alone(tmp_path: Path) -> None:
    table, out = tmp_path / "table", tmp_path / "out"
    table.write_bytes(b"a ||| x\x0by\tz\x0c ||| 1\n")
    length = NamedScorer("length", LengthScorer(), "1")
    add_columns(str(table), str(out), [length], ColumnOptions(columns=("sum", "per-word")))
    scores = [float(score) for score in out.read_bytes().split(b"|||")[2].split()]
    np.testing.assert_allclose(np.log(scores), [0, -2, -2 / 3], atol=1e-6)


def test_two_models_count_unknown_words_once(table: Path, tmp_path: Path) -> None:
    options = ColumnOptions(columns=("sum", "unknown-words"))
    scorers = [word_count("one"), NamedScorer("two", LengthScorer(), "2")]
    report = add_columns(str(table), str(tmp_path / "out"), scorers, options)
    assert report.columns == (("sum", "one"), ("unknown-words", "one"), ("sum", "two"))
    first = (tmp_path / "out").read_bytes().split(b"\n")[0].split(b"|||")[2].split()
    np.testing.assert_allclose(np.log([float(s) for s in first[4:]]), [-2, 1, -1], atol=1e-6)


@pytest.mark.parametrize(
    ("log_value", "expected"),
    [
        (0.0, 1.0),
        (-1.0, 1 / math.e),
        (-69.0, math.exp(-69)),
        (-70.0, 1e-30),
        (-1e9, 1e-30),
        (2, math.e**2),
    ],
)
def test_moses_prob(log_value: float, expected: float) -> None:
    assert moses_prob(np.array([log_value]))[0] == pytest.approx(expected, rel=1e-12)


def test_floored_rows_are_counted(tmp_path: Path) -> None:
    table, out = tmp_path / "t", tmp_path / "out"
    table.write_bytes(b"".join(b"a ||| %s||| 1\n" % (b"w " * n) for n in (1, 67, 68, 69, 80)))
    report = add_columns(str(table), str(out), [word_count()], ColumnOptions(block_rows=1))
    assert report.n_floored == (2,)
    assert out.read_bytes().split(b"\n")[4].endswith(b"||| 1 1e-30")


class Stop(Exception):
    pass


@pytest.mark.parametrize("n_done", [0, 1, 3])
def test_a_stopped_run_continues_with_the_same_result(
    golden: Path, tmp_path: Path, n_done: int
) -> None:
    table = golden / "extract" / "phrase-table.gt.gz"
    n_rows = gzip.decompress(table.read_bytes()).count(b"\n")
    options = ColumnOptions(block_rows=n_rows // 8)
    add_columns(str(table), str(tmp_path / "whole.gz"), [word_count()], options)

    class Stopping(WordCount):
        def log_probs(
            self, sources: Sequence[bytes], targets: Sequence[bytes]
        ) -> NDArray[np.float64]:
            if self.n_calls == n_done:
                raise Stop
            return super().log_probs(sources, targets)

    out = tmp_path / "out.gz"
    with pytest.raises(Stop):
        add_columns(str(table), str(out), [NamedScorer("count", Stopping(), "1")], options)
    assert not out.exists()
    with (tmp_path / ".out.gz.partial").open("ab") as stream:
        stream.write(b"half a block")
    second = word_count()
    report = add_columns(str(table), str(out), [second], options, resume=True)
    assert out.read_bytes() == (tmp_path / "whole.gz").read_bytes()
    assert isinstance(second.scorer, WordCount)
    n_blocks = second.scorer.n_calls + n_done
    assert report.n_rows == n_rows and n_blocks > 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.gz",
        "out.gz.json",
        "whole.gz",
        "whole.gz.json",
    ]


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
    add_columns(str(table), str(out), [word_count()], ColumnOptions())
    settings = json.loads((tmp_path / "out.json").read_bytes())["settings"]
    state = {"settings": settings, "n_bytes": 3, "progress": {"rows": 5}}
    change(state)
    (tmp_path / ".out.partial").write_bytes(b"no!")
    (tmp_path / ".out.partial.json").write_text(json.dumps(state))
    add_columns(str(table), str(out), [word_count()], ColumnOptions(), resume=True)
    assert out.read_bytes() == EXPECTED


def test_sidecar_says_what_was_added(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/rescorer", "score", "a table"])
    out = tmp_path / "out"
    add_columns(str(table), str(out), [word_count("rnn")], ColumnOptions())
    sidecar = json.loads((tmp_path / "out.json").read_bytes())
    assert sidecar["columns"] == [{"column": "sum", "scorer": "rnn", "n_floored": 0}]
    assert (sidecar["n_rows"], sidecar["n_old_scores"], sidecar["n_scores"]) == (5, 4, 5)
    assert sidecar["command"] == "rescorer score 'a table'"
    assert sidecar["settings"]["table"]["path"] == str(table)


def test_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.TextIOWrapper):
        pass

    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", Stream(io.BytesIO(TABLE)))
    monkeypatch.setattr(sys, "stdout", Stream(output))
    add_columns("-", "-", [word_count()], ColumnOptions(block_rows=1))
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
        add_columns(str(table), str(out), [word_count()], ColumnOptions(block_rows=1))
    assert caught.value.line == line
    assert not out.exists()


@pytest.mark.parametrize(
    ("columns", "message"),
    [((), "no column"), (("sum", "sum"), "twice")],
)
def test_columns_that_make_no_sense(
    table: Path, tmp_path: Path, columns: tuple[Column, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        add_columns(str(table), str(tmp_path / "o"), [word_count()], ColumnOptions(columns=columns))


def test_controls_have_no_unknown_words(table: Path, tmp_path: Path) -> None:
    options = ColumnOptions(columns=("unknown-words",))
    with pytest.raises(ConfigError, match="no shortlist"):
        add_columns(
            str(table), str(tmp_path / "o"), [NamedScorer("l", LengthScorer(), "l")], options
        )


@pytest.mark.parametrize(
    ("names", "unknown_words", "expected"),
    [
        ("sum", False, ("sum",)),
        ("sum, per-word", True, ("sum", "per-word", "unknown-words")),
        ("unknown-words,sum", True, ("unknown-words", "sum")),
    ],
)
def test_parse_columns(names: str, unknown_words: bool, expected: tuple[str, ...]) -> None:
    assert parse_columns(names, unknown_words) == expected


def test_parse_unknown_column() -> None:
    with pytest.raises(ConfigError, match="'mean'"):
        parse_columns("sum,mean")


def test_random_control() -> None:
    sources = [b"s%d" % number for number in range(4000)]
    first = RandomScorer(1).log_probs(sources, sources)
    np.testing.assert_array_equal(
        RandomScorer(1).log_probs(sources[::-1], sources[::-1])[::-1], first
    )
    assert abs(first.mean() + 7.5) < 0.3 and abs(first.std() - 15 / math.sqrt(12)) < 0.2
    assert abs(np.corrcoef(first, RandomScorer(2).log_probs(sources, sources))[0, 1]) < 0.06


def test_ini_goes_with_the_table(table: Path, tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_bytes(INI)
    out, ini_out = tmp_path / "new" / "out.gz", tmp_path / "new" / "moses.ini"
    options = ColumnOptions(columns=("sum", "unknown-words"))
    score_table(str(table), str(out), [word_count()], options, tmp_path / "moses.ini", ini_out)
    ini = read_ini(ini_out)
    feature = ini.feature("TranslationModel0")
    assert feature.n_scores == 6 and feature.arguments["path"] == str(out)
    assert ini.weights["TranslationModel0"] == (0.2, 0.1, 0.2, -0.4, 0.04, 0.0)
    changed = [
        n for n, (a, b) in enumerate(zip(INI.split(b"\n"), ini.lines, strict=False)) if a != b
    ]
    assert changed == [3, 4, 7]
    assert ini.feature("LM0").arguments["path"] == str(tmp_path / "lm.arpa")


def test_ini_beside_the_old_one_keeps_other_paths(table: Path, tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_bytes(INI)
    ini_out = tmp_path / "rnn.ini"
    score_table(
        str(table),
        str(tmp_path / "out.gz"),
        [word_count()],
        ColumnOptions(),
        tmp_path / "moses.ini",
        ini_out,
    )
    assert read_ini(ini_out).feature("LM0").arguments["path"] == "lm.arpa"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"num-features=4", b"num-features=5", "num-features=5"),
        (b"PhraseDictionaryMemory", b"PhraseDictionaryCompact", "0 features"),
        (b"TranslationModel0= ", b"# ", "no weight line for TranslationModel0"),
    ],
)
def test_ini_of_another_table_is_refused_before_any_work(
    table: Path, tmp_path: Path, old: bytes, new: bytes, found: str
) -> None:
    ini = tmp_path / "moses.ini"
    text = INI.replace(old, new)
    ini.write_bytes(text.replace(b"-0.4", b"-0.4 0.1") if b"=5 path" in text else text)
    out = tmp_path / "out.gz"
    with pytest.raises(InputError, match=found):
        score_table(
            str(table), str(out), [word_count()], ColumnOptions(), ini, tmp_path / "new.ini"
        )
    assert not list(tmp_path.glob("*out*"))


def test_a_path_that_moses_cuts_is_refused_before_any_work(table: Path, tmp_path: Path) -> None:
    ini, out = tmp_path / "moses.ini", tmp_path / "a b.gz"
    ini.write_bytes(INI)
    with pytest.raises(InputError, match=r"a b\.gz"):
        score_table(str(table), str(out), [word_count()], ColumnOptions(), ini, tmp_path / "new")
    assert not list(tmp_path.glob("*a b*"))


def test_of_two_tables_the_one_that_moses_finds_with_gz(tmp_path: Path) -> None:
    """Moses opens path=one as one.gz where there is no file of that name."""
    ini = tmp_path / "moses.ini"
    ini.write_bytes(
        b"[feature]\nPhraseDictionaryMemory name=A path=one\nPhraseDictionaryMemory name=B path=two\n"
    )
    for name in ("one.gz", "two.gz"):
        (tmp_path / name).write_bytes(b"")
    assert table_feature(read_ini(ini), tmp_path / "two.gz").name == "B"


def test_input_is_never_overwritten(table: Path, tmp_path: Path) -> None:
    ini, new = tmp_path / "moses.ini", tmp_path / "new"
    ini.write_bytes(INI)
    for out, ini_out in ((table, new), (new, ini), (ini, new), (new, table), (new, new)):
        with pytest.raises(ConfigError, match="named twice: the input is never modified"):
            score_table(str(table), str(out), [word_count()], ColumnOptions(), ini, ini_out)
    with pytest.raises(ConfigError, match="is a directory: name a file"):
        score_table(str(table), str(tmp_path), [word_count()], ColumnOptions())
    assert ini.read_bytes() == INI
    assert not new.exists()


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ((0.2, 0.2), [0.02, 0.0]),
        ((0.01, -0.5), [0.05, 0.0]),
        ((), [0.02, 0.0]),
        ((0.0,), [0.02, 0.0]),
    ],
)
def test_initial_weights(old: tuple[float, ...], expected: list[float]) -> None:
    assert initial_weights(old, ["sum", "unknown-words"]) == pytest.approx(expected)


def test_commands_for_binary_tables_name_the_number_of_scores(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    report = add_columns(str(table), str(out), [word_count()], ColumnOptions())
    assert binary_table_commands(out, report) == [
        f"processPhraseTableMin -in {out} -out {tmp_path}/out -nscores 5 -rankscore 2",
        f"CreateProbingPT --input-pt {out} --output-dir {tmp_path}/out.probing"
        " --num-scores 5 --log-prob",
    ]


def test_a_pipe_is_written_to_and_stays_a_pipe(table: Path, tmp_path: Path) -> None:
    """As a device would: a new file in its place would break whoever else uses it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        add_columns(str(table), str(pipe), [word_count()], ColumnOptions())
        assert read.result(timeout=60) == EXPECTED
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "table.gz"]
    with pytest.raises(ConfigError, match="a pipe or a device cannot be resumed"):
        add_columns(str(table), str(pipe), [word_count()], ColumnOptions(), resume=True)


def test_a_link_is_followed(table: Path, tmp_path: Path) -> None:
    link, real = tmp_path / "link", tmp_path / "folder" / "real"
    link.symlink_to(real)
    add_columns(str(table), str(link), [word_count()], ColumnOptions())
    assert link.is_symlink()
    assert real.read_bytes() == EXPECTED


def test_a_pipe_is_not_read_twice(tmp_path: Path) -> None:
    """Its first rows would be missing, in silence."""
    pipe, out, ini = tmp_path / "pipe", str(tmp_path / "out"), tmp_path / "moses.ini"
    os.mkfifo(pipe)
    ini.write_bytes(INI)
    options = ColumnOptions()
    with pytest.raises(ConfigError, match="not for standard streams or pipes"):
        score_table(str(pipe), out, [word_count()], options, ini, tmp_path / "new.ini")
    for table in (str(pipe), "-"):
        with pytest.raises(ConfigError, match="replaced in a file only"):
            score_table(table, out, [word_count()], options, replace=True)
        with pytest.raises(ConfigError, match="cannot be scored in shards"):
            add_columns(table, out, [word_count()], ColumnOptions(shard=Shard(1, 2)))
        with pytest.raises(ConfigError, match="cannot be resumed"):
            add_columns(table, out, [word_count()], options, resume=True)
