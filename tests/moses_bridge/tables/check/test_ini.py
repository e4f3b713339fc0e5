from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import InputError
from moses_bridge.cli import main
from moses_bridge.tables.check.ini import ini_faults
from moses_bridge.tables.check.table import check_table

V2 = """\
[input-factors]
0
[feature]
UnknownWordPenalty
KENLM name=LM0 factor=0 path=lm order=3   # the order
PhraseDictionaryMemory name=TM0 num-features=2 path=table.gz input-factor=0 output-factor=0
PhraseDictionaryMemory num-features=1 path=other # one more
[weight]
# tuned
LM0= 0.5
UnknownWordPenalty0= 1
TM0= 0.2 -1e-2
PhraseDictionaryMemory0= 1
"""
V1 = """\
# version 1
[ttable-file]
0 0 0 2 table
0 0 0 1 other

[lmodel-file]
8 0 3 lm
[weight-t]
0.2
0.1 # second
1
[weight-l]
0.5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "table.gz").write_bytes(b"")
    (tmp_path / "table").write_bytes(b"a ||| b ||| 1 0.5\nc ||| d ||| 1 1\n")
    (tmp_path / "other").write_bytes(b"x ||| y ||| 1\n")
    return tmp_path


def faults(
    folder: Path, ini: str, rows: bytes | None = None, table: str = "table"
) -> list[tuple[int | None, str]]:
    (folder / "moses.ini").write_text(ini)
    if rows is not None:
        (folder / table).write_bytes(rows)
    report = check_table(folder / table)
    return [(fault.line, fault.found) for fault in ini_faults(folder / "moses.ini", report)]


def test_weights_of_sparse_features_are_no_fault(folder: Path) -> None:
    """A name is that of a feature up to its first "_" (StaticData::CheckWeights)."""
    assert faults(folder, V2.replace("LM0= 0.5", "LM0= 0.5\nTM0_rare= 0.1"), table="table.gz") == []
    found = faults(folder, V2.replace("LM0= 0.5", "LM0= 0.5\nTM9_rare= 0.1"), table="table.gz")
    assert found == [(11, "weights of TM9_rare")]


@pytest.mark.parametrize("ini", [V2.replace("table.gz", "table"), V1])
def test_inis_that_fit(folder: Path, ini: str) -> None:
    assert faults(folder, ini) == []


def test_comments_are_no_paths(folder: Path) -> None:
    ini = V2.replace("table.gz", "table").replace("path=other # one", "path=other\t# see /a#b, one")
    assert faults(folder, ini) == []


def test_a_name_without_its_gz(folder: Path) -> None:
    (folder / "table.gz").rename(folder / "big.gz")
    assert faults(folder, V2.replace("table.gz", "big"), table="big.gz") == []


@pytest.mark.parametrize(
    ("old", "new", "line", "found"),
    [
        ("num-features=2", "num-features=3", 12, "2 weights of TM0"),
        ("num-features=2", "num-features=many", 6, "'many' scores"),
        ("TM0= 0.2 -1e-2", "TM0= 0.2", 12, "1 weights of TM0"),
        ("TM0= 0.2", "TM0 0.2", 12, "'TM0'"),
        ("TM0= 0.2", "TM0=0.2", 12, "'TM0=0.2'"),
        ("TM0= 0.2", "TM0= x", 12, "the weight 'x'"),
        ("TM0= 0.2", "TM0= inf", 12, "the weight 'inf'"),
        ("TM0= 0.2 -1e-2", "TM7= 0.2", 12, "weights of TM7"),
        ("TM0= 0.2 -1e-2", "", 6, "no weights of TM0"),
        ("LM0= 0.5", "LM0= 0.5\nLM0= 0.5", 11, "weights of LM0 again"),
        ("path=table ", "path=my table ", 6, "'table'"),
        ("path=table ", "path=/a/b#c/table ", 6, "'path=/a/b', all that is left before a '#'"),
        ("num-features=1", "num-features=1 table-limit=-1", 7, "table-limit: '-1'"),
        ("num-features=1", "num-features=1 table-limit=1_0", 7, "table-limit: '1_0'"),
        ("path=other", "path=nowhere", 7, "the path 'nowhere', where there is no file"),
        ("path=other", "", 7, "no path of PhraseDictionaryMemory0"),
        ("name=TM0", "name=LM0", 6, "a second feature LM0"),
        ("[input-factors]", "[ttable-file]", 1, "a section of a version 1 ini beside [feature]"),
    ],
)
def test_faults_of_version_2(folder: Path, old: str, new: str, line: int, found: str) -> None:
    ini = V2.replace("table.gz", "table")
    assert ini.count(old) == 1
    told = faults(folder, ini.replace(old, new))
    assert any(place == line and what.startswith(found) for place, what in told), told


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("[distortion-limit]\n-2", "distortion-limit: '-2'"),
        ("[distortion-limit]\n# of words\n\u0663", "distortion-limit: '\u0663'"),
        ("[max-phrase-length]\n0", "max-phrase-length: '0'"),
    ],
)
def test_limits_that_are_none(folder: Path, section: str, found: str) -> None:
    line = 1 + section.count("\n")
    ini = V2.replace("table.gz", "table")
    assert faults(folder, f"{section}\n{ini}") == [(line, found)]


@pytest.mark.parametrize(
    ("old", "new", "line", "found"),
    [
        ("0 0 0 2 table", "0 0 0 2 my table", 3, "6 words"),
        ("0 0 0 2 table", "0 0 0 2 /a/my#table", 3, "'/a/my', all that is left before a '#'"),
        ("0 0 0 2 table", "0 0 0 x table", 3, "'x' scores"),
        ("0.2\n", "", 4, "0 weights left in [weight-t] for table 2"),
        ("0.2\n", "0.2\n0.3\n", 4, "2 weights left in [weight-t] for table 2"),
        ("8 0 3 lm", "8 0 3 /b/lm#3", 7, "'/b/lm', all that is left before a '#'"),
        ("0.2\n", "nan\n", 9, "the weight 'nan'"),
    ],
)
def test_faults_of_version_1(folder: Path, old: str, new: str, line: int, found: str) -> None:
    told = faults(folder, V1.replace(old, new, 1))
    assert any(place == line and what.startswith(found) for place, what in told), told


@pytest.mark.parametrize("ini", [V2.replace("table.gz", "table"), V1])
def test_another_number_of_scores(folder: Path, ini: str) -> None:
    told = faults(folder, ini, b"a ||| b ||| 1 0.5 1\n")
    assert [what.split(" of ")[0] for _, what in told] == ["2 scores"]


@pytest.mark.parametrize(
    ("factors", "rows", "expected"),
    [
        ("0", [b"a ||| b"], []),
        ("0,1", [b"a|N ||| b"], []),
        ("0", [b"a ||| b", b"a|N ||| b"], [(2, "2 factors of source words in 1 rows")]),
        ("0,1", [b"a ||| b", b"a|N ||| b"], [(None, "1 factors of source words in 1 rows")]),
        ("0,1", [b"a|N b ||| c"], [(1, "a mixture of factors of source words in 1 rows")]),
    ],
)
def test_factors(
    folder: Path, factors: str, rows: list[bytes], expected: list[tuple[int | None, str]]
) -> None:
    ini = V2.replace("table.gz", "table").replace("input-factor=0 ", f"input-factor={factors} ")
    assert faults(folder, ini, b"".join(row + b" ||| 1 1\n" for row in rows)) == expected


def test_a_table_that_the_ini_does_not_name(folder: Path) -> None:
    (folder / "third").write_bytes(b"a ||| b ||| 1 1\n")
    (what,) = [what for _, what in faults(folder, V2, table="third")]
    assert what == "phrase tables: TM0 with table.gz, PhraseDictionaryMemory0 with other"
    assert len(faults(folder, "[distortion-limit]\n6\n", table="third")) == 1


def test_the_ini_of_moses_fits_its_table(golden: Path) -> None:
    report = check_table(golden / "decode" / "phrase-table.gz")
    assert ini_faults(golden / "decode" / "moses.ini", report) == []


def test_an_ini_that_is_not_there(folder: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        ini_faults(folder / "nowhere", check_table(folder / "table"))


def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    Path("moses.ini").write_text(V1.replace("0.2\n", ""))
    result = CliRunner().invoke(main, ["check", "table", "--ini", "moses.ini"])
    assert result.exit_code == 1
    assert result.output.startswith("moses.ini:4: found 0 weights left in [weight-t]")
    assert "faults: 1\n" in result.output
