"""Replacing columns, logarithms, malformed rows, shards: what a whole table needs besides scores."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer, Scorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.scorer_choice import LengthScorer, RandomScorer
from rescorer.scorers.cslm import Cslm, CslmConfig, cslm_scorer
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder, encdec_scorer
from rescorer.tables.column import ColumnConfig
from rescorer.tables.scored_table import Run, add_columns, score_table
from rescorer.tables.source_table import Shard, parse_shard

ROWS = [
    b"a b ||| x ||| 0.5 1 ||| 0-0 ||| 1 2 3",
    b"a b ||| x y z ||| 0.5  1\t||| 0-0 ||| 1 2 3\r",
    b"a c ||| \xa0 ||| 0.5 1",
    b"b|||y|||0.5 1|||0-0",
    b"c ||| y ||| 0.5 1 |||",
]
TABLE = b"\n".join(ROWS) + b"\n"
INI = b"""\
[feature]
PhraseDictionaryMemory name=TM num-features=2 path=table.gz

[weight]
TM= 0.20 0.1
"""
LENGTH = NamedScorer("length", LengthScorer(), "1")
NOISE = NamedScorer("noise", RandomScorer(1), "2")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return written(tmp_path / "table.gz", TABLE)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def text_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


@pytest.mark.parametrize("columns", [("sum",), ("sum", "per-word")])
def test_replacing_gives_what_adding_to_the_old_table_gives(
    table: Path, tmp_path: Path, columns: tuple[str, ...]
) -> None:
    first, second, direct = (tmp_path / f"{name}.gz" for name in ("first", "second", "direct"))
    config = ColumnConfig(columns=columns)  # type: ignore[arg-type]
    (tmp_path / "moses.ini").write_bytes(INI)
    inis = [tmp_path / name for name in ("moses.ini", "first.ini", "second.ini", "direct.ini")]
    score_table(str(table), str(first), [NOISE], config, ini=inis[0], ini_out=inis[1])
    lines = score_table(
        *(str(first), str(second), [LENGTH], ColumnConfig()),
        ini=inis[1],
        ini_out=inis[2],
        replace=True,
    )
    score_table(str(table), str(direct), [LENGTH], ColumnConfig(), ini=inis[0], ini_out=inis[3])
    assert text_of(second) == text_of(direct)
    assert inis[2].read_bytes().replace(b"second.gz", b"direct.gz") == inis[3].read_bytes()
    assert "3 scores each" in lines[0]


def test_nothing_is_replaced_in_a_table_that_is_not_ours(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table\.gz\.json: found .*expected a JSON file"):
        score_table(str(table), str(tmp_path / "o"), [LENGTH], ColumnConfig(), replace=True)


@pytest.mark.parametrize(
    ("sidecar", "message"),
    [
        ("{}", "the record of a run of `rescorer score`"),
        ("[1]", "the record of a run of `rescorer score`"),
        ("{", "a JSON file"),
    ],
)
def test_a_foreign_sidecar_is_refused(
    table: Path, tmp_path: Path, sidecar: str, message: str
) -> None:
    (tmp_path / "table.gz.json").write_text(sidecar)
    with pytest.raises(InputError, match=message):
        score_table(str(table), str(tmp_path / "o"), [LENGTH], ColumnConfig(), replace=True)


def test_a_table_that_changed_since_is_not_replaced(table: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.gz"
    score_table(str(table), str(first), [NOISE], ColumnConfig())
    written(first, TABLE)
    with pytest.raises(InputError, match=r"first\.gz:1: found 2 scores, expected 3"):
        score_table(str(first), str(tmp_path / "o"), [LENGTH], ColumnConfig(), replace=True)


def test_tables_of_logarithms(tmp_path: Path) -> None:
    table = written(tmp_path / "log.gz", TABLE.replace(b"0.5", b"-0.69"))

    class Deep:
        shortlist = None
        needs_links = False

        def values(self, batch: Batch) -> NDArray[np.float64]:
            return np.array([-2.5, -1e9, 0, -3, -4])

    config = ColumnConfig(column_format="log")
    lines = score_table(str(table), str(tmp_path / "o"), [NamedScorer("d", Deep(), "1")], config)
    rows = (tmp_path / "o").read_bytes().split(b"\n")[:-1]
    last = [float(row.split(b"|||")[2].split()[-1]) for row in rows]
    np.testing.assert_allclose(last, [-2.5, 30 * -np.log(10), 0, -3, -4], rtol=1e-6)
    assert "1 rows cut to the least or greatest score" in lines[1]
    assert not any("--log-prob" in line or "processPhraseTableMin" in line for line in lines)


def test_commands_of_a_table_of_probabilities(table: Path, tmp_path: Path) -> None:
    run = add_columns(Run.prepare(str(table), str(tmp_path / "new.gz"), [LENGTH], ColumnConfig()))
    compact, probing = dataclasses.replace(run, out="m/new.gz").binary_table_commands()
    assert compact == "processPhraseTableMin -in m/new.gz -out m/new -nscores 3 -rankscore 2"
    expected = "CreateProbingPT --input-pt m/new.gz --output-dir m/new.probing --num-scores 3"
    assert probing == f"{expected} --log-prob"


BAD_ROWS = [b"only ||| two", b"x ||| y ||| 0.5", b"x ||| y ||| nan 1", b" ||| y ||| 0.5 1"]


# the first row says how many scores there are, so a row of one score may be anywhere but there
@pytest.mark.parametrize(
    ("bad", "place"),
    [(bad, place) for bad in BAD_ROWS for place in (0, 1, 3, 5) if place or bad != BAD_ROWS[1]],
)
def test_a_malformed_row_goes_to_a_file_of_its_own(
    table: Path, tmp_path: Path, bad: bytes, place: int
) -> None:
    spoilt = written(
        tmp_path / "spoilt.gz", b"\n".join([*ROWS[:place], bad, *ROWS[place:]]) + b"\n"
    )
    config = ColumnConfig(block_rows=2, max_bad_rows=1)
    lines = score_table(str(spoilt), str(tmp_path / "new.gz"), [NOISE], config)
    add_columns(Run.prepare(str(table), str(tmp_path / "whole.gz"), [NOISE], ColumnConfig()))
    assert text_of(tmp_path / "new.gz") == text_of(tmp_path / "whole.gz")
    assert (tmp_path / "new.gz.bad").read_bytes() == bad + b"\n"
    assert any("new.gz.bad: 1 malformed row" in line for line in lines)
    assert json.loads((tmp_path / "new.gz.json").read_bytes())["n_bad_rows"] == 1


def test_a_malformed_first_row_may_be_left_out_where_an_ini_is_patched(tmp_path: Path) -> None:
    spoilt = written(tmp_path / "table.gz", BAD_ROWS[0] + b"\n" + TABLE)
    ini, ini_out = tmp_path / "moses.ini", tmp_path / "new.ini"
    ini.write_bytes(INI)
    out = str(tmp_path / "new.gz")
    score_table(str(spoilt), out, [NOISE], ColumnConfig(max_bad_rows=1), ini, ini_out)
    assert b"num-features=3 path=" in ini_out.read_bytes()


@pytest.mark.parametrize(("n_allowed", "line"), [(0, 2), (1, 4), (2, 5)])
def test_one_malformed_row_too_many(tmp_path: Path, n_allowed: int, line: int) -> None:
    rows = [ROWS[0], BAD_ROWS[0], ROWS[1], BAD_ROWS[1], BAD_ROWS[2], ROWS[2]]
    table = written(tmp_path / "spoilt.gz", b"\n".join(rows))
    with pytest.raises(InputError, match=rf"spoilt\.gz:{line}: "):
        score_table(
            *(str(table), str(tmp_path / "new.gz"), [LENGTH]), ColumnConfig(max_bad_rows=n_allowed)
        )
    assert not (tmp_path / "new.gz").exists()


WORDS = Vocabulary([b"w%d" % number for number in range(2000)])


def encoder_decoder() -> Scorer:
    network = EncoderDecoder(EncDecConfig(128, 50, 64), len(WORDS), len(WORDS))
    network.initialise(None)
    model = TrainedModel("encdec", network.eval(), Shortlists(WORDS, WORDS), {})
    return encdec_scorer(model, Compute(device="cpu"))


def language_model() -> Scorer:
    network = Cslm(CslmConfig(4, 32, 64, 48), len(WORDS))
    model = TrainedModel("cslm", network.eval(), Shortlists(None, WORDS), {})
    return cslm_scorer(model, Compute(device="cpu"))


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads; it is what it was afterwards."""
    n_threads = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(n_threads)


def phrase_rows(n_rows: int) -> list[bytes]:
    """Sources of 1 to 4 words, targets of 0 to 6, of which some begin alike; some words are unknown."""
    rng = np.random.default_rng(6)

    def phrase(least: int, most: int, n_words: int) -> bytes:
        return b" ".join(
            b"w%d" % word for word in rng.integers(0, n_words, rng.integers(least, most))
        )

    sources = [phrase(1, 5, 2100) for _ in range(n_rows // 8)]
    pairs = (
        (sources[row % len(sources)], phrase(0, 7, (5, 2100)[row % 2])) for row in range(n_rows)
    )
    return [b"%s ||| %s ||| 0.5 1" % pair for pair in pairs]


def written_logs(path: Path) -> dict[bytes, float]:
    """Logarithm of the last score of each pair."""
    rows = [row.split(b" ||| ") for row in text_of(path).splitlines()]
    return {source + b" ||| " + target: log(float(s.split()[-1])) for source, target, s in rows}


@pytest.mark.parametrize("make_scorer", [encoder_decoder, language_model])
def test_scores_do_not_depend_on_blocks_order_or_threads(
    tmp_path: Path, make_scorer: Callable[[], Scorer], threads: Callable[[int], None]
) -> None:
    torch.manual_seed(2)
    scorer = NamedScorer("network", make_scorer(), "1")
    rows = phrase_rows(600)
    expected: dict[bytes, float] = {}
    for number, (block_rows, jobs, n_threads) in enumerate(
        [(600, 1, 1), (1, 1, 1), (7, 3, 1), (64, 2, 2), (600, 1, 3), (8192, 4, 1)]
    ):
        order = np.random.default_rng(number).permutation(len(rows))
        table = written(tmp_path / "table.gz", b"".join(rows[row] + b"\n" for row in order))
        out = tmp_path / "new.gz"
        threads(n_threads)
        config = ColumnConfig(block_rows=block_rows, jobs=jobs)
        add_columns(Run.prepare(str(table), str(out), [scorer], config))
        found = written_logs(out)
        expected = expected or found
        assert found == pytest.approx(expected, abs=1e-5, rel=0)
    assert len(expected) > 500 and min(expected.values()) < -30


def test_options_that_do_not_fit(table: Path, tmp_path: Path) -> None:
    shard, out = parse_shard("2/2"), str(tmp_path / "o")
    (tmp_path / "moses.ini").write_bytes(INI)
    inis = {"ini": tmp_path / "moses.ini", "ini_out": tmp_path / "i"}
    with pytest.raises(ConfigError, match="rescorer merge"):
        score_table(str(table), out, [LENGTH], ColumnConfig(shard=shard), **inis)
    with pytest.raises(ConfigError, match="in shards: name a file"):
        score_table("-", out, [LENGTH], ColumnConfig(shard=shard))
    with pytest.raises(ConfigError, match="bad rows"):
        score_table(str(table), "-", [LENGTH], ColumnConfig(max_bad_rows=1))
    with pytest.raises(InputError, match="fewer shards"):
        score_table(str(table), out, [LENGTH], ColumnConfig(shard=Shard(1, 50)))
    with pytest.raises(ConfigError, match="--ini and --ini-out belong together"):
        score_table(str(table), out, [LENGTH], ColumnConfig(), ini=tmp_path / "moses.ini")


def test_columns_of_another_format_are_not_replaced(table: Path, tmp_path: Path) -> None:
    """Probabilities beside logarithms would be a table that nothing reads as it is meant."""
    first, second = tmp_path / "first.gz", str(tmp_path / "second.gz")
    score_table(str(table), str(first), [NOISE], ColumnConfig(column_format="log"))
    with pytest.raises(ConfigError, match=r"have the format 'log'.*score with --column-format log"):
        score_table(str(first), second, [LENGTH], ColumnConfig(), replace=True)
    assert not Path(second).exists()
    log_config = ColumnConfig(column_format="log")
    score_table(str(first), second, [LENGTH], log_config, replace=True)
    score_table(str(table), str(tmp_path / "direct.gz"), [LENGTH], log_config)
    assert text_of(Path(second)) == text_of(tmp_path / "direct.gz")


def test_input_is_never_overwritten(table: Path, tmp_path: Path) -> None:
    ini, new = tmp_path / "moses.ini", tmp_path / "new"
    ini.write_bytes(INI)
    for out, ini_out in ((table, new), (new, ini), (ini, new), (new, table), (new, new)):
        with pytest.raises(ConfigError, match="named twice: the input is never modified"):
            score_table(str(table), str(out), [LENGTH], ColumnConfig(), ini=ini, ini_out=ini_out)
    with pytest.raises(ConfigError, match="is a directory: name a file"):
        score_table(str(table), str(tmp_path), [LENGTH], ColumnConfig())
    assert ini.read_bytes() == INI
    assert not new.exists()


def test_a_pipe_is_not_read_twice(tmp_path: Path) -> None:
    """Its first rows would be missing, in silence."""
    pipe, out, ini = tmp_path / "pipe", str(tmp_path / "out"), tmp_path / "moses.ini"
    os.mkfifo(pipe)
    ini.write_bytes(INI)
    config = ColumnConfig()
    with pytest.raises(ConfigError, match="not for standard streams or pipes"):
        score_table(str(pipe), out, [LENGTH], config, ini=ini, ini_out=tmp_path / "new.ini")
    for table in (str(pipe), "-"):
        with pytest.raises(ConfigError, match="replaced only in a file"):
            score_table(table, out, [LENGTH], config, replace=True)
        with pytest.raises(ConfigError, match="cannot be scored in shards"):
            score_table(table, out, [LENGTH], ColumnConfig(shard=Shard(1, 2)))


@pytest.mark.parametrize("kind", ["a standard stream", "a pipe"])
def test_a_stream_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    out, path = str(tmp_path / "out"), "-"
    if kind == "a pipe":
        path = str(tmp_path / "pipe")
        os.mkfifo(path)  # nobody writes to it: it is refused before it is opened
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TABLE)))
    with pytest.raises(ConfigError, match="cannot be resumed"):
        score_table(path, out, [LENGTH], ColumnConfig(), resume=True)
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("place", [0, 3, 4])
@pytest.mark.parametrize("block_rows", [1, 100])
def test_a_negative_score_is_refused_as_by_check(
    tmp_path: Path, place: int, block_rows: int
) -> None:
    rows = [row.replace(b"0.5", b"-0.7") if row == ROWS[place] else row for row in ROWS]
    table = written(tmp_path / "table.gz", b"\n".join(rows) + b"\n")
    message = f"table.gz:{place + 1}: found the score '-0.7', expected a probability. Moses takes"
    with pytest.raises(InputError, match=message):
        score_table(
            str(table), str(tmp_path / "out.gz"), [LENGTH], ColumnConfig(block_rows=block_rows)
        )
    assert not (tmp_path / "out.gz").exists()
    score_table(str(table), str(tmp_path / "log.gz"), [LENGTH], ColumnConfig(column_format="log"))
    score_table(str(table), str(tmp_path / "out.gz"), [LENGTH], ColumnConfig(max_bad_rows=1))
    assert (tmp_path / "out.gz.bad").read_bytes() == rows[place] + b"\n"
