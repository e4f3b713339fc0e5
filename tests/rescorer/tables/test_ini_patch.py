from __future__ import annotations

import gzip
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.moses_ini import read_ini
from rescorer.contract.scorer import NamedScorer
from rescorer.models.scorer_choice import LengthScorer
from rescorer.tables.column import ColumnConfig
from rescorer.tables.ini_patch import IniPatch, initial_weights, table_feature
from rescorer.tables.record import Counts, RunRecord
from rescorer.tables.scored_table import Run, add_columns, score_table

TABLE = b"a b ||| x ||| 0.5 1 0.25 2.718 ||| 0-0\n"
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
LENGTH = NamedScorer("length", LengthScorer(), "1")
CONFIG = ColumnConfig(("sum", "unknown-words"))
RUN = RunRecord("table.gz", {}, "t.gz", (("rnn", "1"),), CONFIG, 4, True, Counts(1, (0, 0)))


def patch_ini(ini: Path, ini_out: Path, run: RunRecord) -> None:
    patch = IniPatch.of(read_ini(ini), ini_out, Path(run.path), Path(run.out))
    patch.write(run.n_old_scores, [column for column, _ in run.columns])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(TABLE))
    return path


def test_ini_goes_with_the_table(table: Path, tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_bytes(INI)
    out, ini_out = tmp_path / "new" / "out.gz", tmp_path / "new" / "moses.ini"
    config = ColumnConfig(columns=("sum", "per-word"))
    score_table(str(table), str(out), [LENGTH], config, ini=tmp_path / "moses.ini", ini_out=ini_out)
    ini = read_ini(ini_out)
    feature = ini.feature("TranslationModel0")
    assert feature.n_scores == 6 and feature.arguments["path"] == "out.gz"
    assert ini.weights["TranslationModel0"] == (0.2, 0.1, 0.2, -0.4, 0.04, 0.04)
    changed = [
        n for n, (a, b) in enumerate(zip(INI.split(b"\n"), ini.lines, strict=False)) if a != b
    ]
    assert changed == [3, 4, 7]
    assert ini.feature("LM0").arguments["path"] == "../lm.arpa"


@pytest.mark.parametrize(
    ("given", "working_directory", "new_ini", "expected"),
    [
        # Beside the ini: from the new directory, wherever the command runs.
        ("lm.arpa", "elsewhere", "new/moses.ini", "../model/lm.arpa"),
        ("./lm.arpa", "model", "new/moses.ini", "../model/lm.arpa"),
        (
            "sub/../lm",
            "elsewhere",
            "new/deep/moses.ini",
            "../../model/lm",
        ),  # lm.arpa, as Moses adds .gz
        # From the working directory alone, where Moses looks.
        ("model/lm.arpa", ".", "new/moses.ini", "model/lm.arpa"),
        # Spelt as it was beside the old ini, absolute if it was.
        ("./lm.arpa", "elsewhere", "model/new.ini", "./lm.arpa"),
        ("/far/lm.arpa", "elsewhere", "new/moses.ini", "/far/lm.arpa"),
        # Where nothing has the name, it is taken to be beside the ini.
        ("none.arpa", "elsewhere", "new/moses.ini", "../model/none.arpa"),
    ],
)
def test_paths_of_a_patched_ini(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    working_directory: str,
    new_ini: str,
    expected: str,
) -> None:
    for folder in ("model/sub", "elsewhere", "new/deep"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("table.gz", "lm.arpa"):
        (tmp_path / "model" / name).write_bytes(b"")
    (tmp_path / "model/moses.ini").write_bytes(
        INI.replace(b"path=lm.arpa", f"path={given}".encode())
    )
    monkeypatch.chdir(tmp_path / working_directory)
    ini_out = tmp_path / new_ini
    run = replace(RUN, path=str(tmp_path / "model/table.gz"), out=str(ini_out.with_name("t.gz")))
    patch_ini(tmp_path / "model/moses.ini", ini_out, run)
    ini = read_ini(ini_out)
    assert ini.feature("LM0").arguments["path"] == expected
    assert ini.feature("TranslationModel0").arguments["path"] == "t.gz"


def test_a_system_with_relative_paths_can_be_moved(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in ("model", "rnn"):
        (old / folder).mkdir(parents=True)
    for name in ("model/table.gz", "model/lm.arpa", "rnn/t.gz"):
        (old / name).write_bytes(b"")
    (old / "model/moses.ini").write_bytes(INI)
    run = replace(RUN, path=str(old / "model/table.gz"), out=str(old / "rnn/t.gz"))
    patch_ini(old / "model/moses.ini", old / "rnn/moses.ini", run)
    old.rename(new)
    found = {path.resolve() for path in read_ini(new / "rnn/moses.ini").files()}
    assert found == {new / "rnn/moses.ini", new / "rnn/t.gz", new / "model/lm.arpa"}


def test_an_absolute_table_path_stays_absolute(tmp_path: Path) -> None:
    ini, ini_out = tmp_path / "moses.ini", tmp_path / "new/moses.ini"
    ini_out.parent.mkdir()
    ini.write_bytes(INI.replace(b"path=table.gz", f"path={tmp_path}/table.gz".encode()))
    run = replace(RUN, path=str(tmp_path / "table.gz"), out=str(tmp_path / "new/t.gz"))
    patch_ini(ini, ini_out, run)
    path = read_ini(ini_out).feature("TranslationModel0").arguments["path"]
    assert path == str(tmp_path / "new/t.gz")


def test_ini_beside_the_old_one_keeps_other_paths(table: Path, tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_bytes(INI)
    ini_out = tmp_path / "rnn.ini"
    score_table(
        str(table),
        str(tmp_path / "out.gz"),
        [LENGTH],
        ColumnConfig(),
        ini=tmp_path / "moses.ini",
        ini_out=ini_out,
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
            str(table), str(out), [LENGTH], ColumnConfig(), ini=ini, ini_out=tmp_path / "new.ini"
        )
    assert not list(tmp_path.glob("*out*"))


def test_a_path_that_moses_cuts_is_refused_before_any_work(table: Path, tmp_path: Path) -> None:
    ini, out = tmp_path / "moses.ini", tmp_path / "a b.gz"
    ini.write_bytes(INI)
    with pytest.raises(InputError, match=r"a b\.gz"):
        score_table(
            str(table), str(out), [LENGTH], ColumnConfig(), ini=ini, ini_out=tmp_path / "new"
        )
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
    run = add_columns(Run.prepare(str(table), str(out), [LENGTH], ColumnConfig()))
    assert run.binary_table_commands() == [
        f"processPhraseTableMin -in {out} -out {tmp_path}/out -nscores 5 -rankscore 2",
        f"CreateProbingPT --input-pt {out} --output-dir {tmp_path}/out.probing"
        " --num-scores 5 --log-prob",
    ]


def test_a_table_without_links_is_told_to_the_binary_table() -> None:
    compact, _ = replace(RUN, has_alignment=False).binary_table_commands()
    assert compact.endswith("-nscores 6 -rankscore 2 -encoding None")


def test_names_with_blanks_are_quoted_and_other_suffixes_stay() -> None:
    compact, probing = replace(RUN, out="my tables/t.v2").binary_table_commands()
    assert shlex.split(compact)[2:5:2] == ["my tables/t.v2", "my tables/t.v2"]
    assert "my tables/t.v2.probing" in shlex.split(probing)


def test_replaced_columns_give_their_weights_up(tmp_path: Path) -> None:
    """Five scores in the old table, of which the fifth goes; two come."""
    text = INI.replace(b"num-features=4", b"num-features=5").replace(b"-0.4\n", b"-0.4 0.9\n")
    (tmp_path / "moses.ini").write_bytes(text)
    out, ini_out = tmp_path / "out.gz", tmp_path / "new.ini"
    run = replace(RUN, path=str(tmp_path / "table.gz"), out=str(out))
    patch_ini(tmp_path / "moses.ini", ini_out, run)
    ini = read_ini(ini_out)
    assert ini.feature("TranslationModel0").n_scores == 6
    assert ini.weights["TranslationModel0"] == (0.2, 0.1, 0.2, -0.4, 0.04, 0.0)
    assert (tmp_path / "moses.ini").read_bytes() == text


def test_a_fitting_ini_is_not_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_bytes(INI)
    new_ini, table, out = (tmp_path / name for name in ("new.ini", "table.gz", "out.gz"))
    IniPatch.of(read_ini(tmp_path / "moses.ini"), new_ini, table, out).check(4, "table.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["moses.ini"]


@pytest.mark.parametrize("n_tables", [0, 2])
def test_the_table_must_be_known_by_its_path_or_be_the_only_one(
    tmp_path: Path, n_tables: int
) -> None:
    ini = tmp_path / "moses.ini"
    lines = (b"PhraseDictionaryMemory name=T%d path=t%d num-features=1\n" % (n, n) for n in (1, 2))
    ini.write_bytes(b"[feature]\n" + b"".join([*lines][:n_tables]))
    with pytest.raises(InputError, match=f"found {n_tables} features.*none with path=.*other"):
        table_feature(read_ini(ini), tmp_path / "other")
