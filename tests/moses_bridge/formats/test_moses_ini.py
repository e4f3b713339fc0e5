from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.moses_ini import (
    MIXTURE_KIND,
    Feature,
    first_line,
    limit_of,
    member_names,
    read_ini,
)
from moses_bridge.formats.moses_ini_edits import (
    format_weight,
    new_ini,
    with_added_scores,
    with_path,
    with_weights,
    write_ini,
)

INI = b"""\
# all of it [feature]

[input-factors]
0
[distortion-limit]
6   # words
[feature]
KENLM factor=0 path=lm.arpa order=5
KENLM factor=0 path=lm2.arpa order=3
\tPhraseDictionaryMemory  name=TM path=table.gz num-features=2 table-limit=20 # path=old num-features=7
Distortion\r
[weight]
KENLM0= 0.5
KENLM1= 0.25
 TM=  0.2 -1e-2\t # tuned
Distortion0= 0.3\r
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "moses.ini"
    path.write_bytes(INI)
    return path


def test_what_is_read(path: Path) -> None:
    ini = read_ini(path)
    assert [(feature.kind, feature.name) for feature in ini.features] == [
        ("KENLM", "KENLM0"),
        ("KENLM", "KENLM1"),
        ("PhraseDictionaryMemory", "TM"),
        ("Distortion", "Distortion0"),
    ]
    assert ini.feature("TM").arguments == {
        "path": "table.gz",
        "num-features": "2",
        "table-limit": "20",
    }
    assert [feature.n_scores for feature in ini.features] == [1, 1, 2, 1]
    assert ini.of_kind("KENLM") == ini.features[:2]
    assert ini.weights == {
        "KENLM0": (0.5,),
        "KENLM1": (0.25,),
        "TM": (0.2, -0.01),
        "Distortion0": (0.3,),
    }
    assert ini.settings == {"input-factors": ("0",), "distortion-limit": ("6",)}


def test_names_that_are_not_given_are_counted_alone(tmp_path: Path) -> None:
    """As moses/FF/FeatureFunction.cpp does: a feature with a name of its own is not counted."""
    path = tmp_path / "moses.ini"
    path.write_text("[feature]\nA name=first\nA\nB\nA\n")
    assert [feature.name for feature in read_ini(path).features] == ["first", "A0", "B0", "A1"]


def test_the_ini_of_moses(golden: Path) -> None:
    ini = read_ini(golden / "decode" / "moses.ini")
    assert [feature.name for feature in ini.features] == [
        "UnknownWordPenalty0",
        "WordPenalty0",
        "PhrasePenalty0",
        "TranslationModel0",
        "LexicalReordering0",
        "Distortion0",
        "LM0",
    ]
    assert ini.weights["TranslationModel0"] == (0.0944023, 0.0077096, 0.0588454, 0.013491)
    assert set(ini.weights) == {feature.name for feature in ini.features}
    assert ini.settings["mapping"] == ("0 T 0",)


def test_the_ini_of_moses_comes_back(golden: Path, tmp_path: Path) -> None:
    original = golden / "decode" / "moses.ini"
    write_ini(read_ini(original), tmp_path / "moses.ini")
    assert (tmp_path / "moses.ini").read_bytes() == original.read_bytes()


def changed(path: Path, *edits: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    text = path.read_bytes()
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return tuple(text.split(b"\n")[:-1])


def test_weights_change_and_nothing_else(path: Path) -> None:
    ini = with_weights(read_ini(path), {"TM": (1, 1 / 3), "Distortion0": [0], "KENLM0": [-1e-9]})
    assert ini.lines == changed(
        path,
        (b"TM=  0.2 -1e-2\t", b"TM= 1 0.3333333\t"),
        (b"Distortion0= 0.3", b"Distortion0= 0"),
        (b"KENLM0= 0.5", b"KENLM0= -0.000000001000"),
    )
    assert ini.weights["TM"] == (1, 0.3333333)


@pytest.mark.parametrize(
    ("weights", "found"),
    [({"LM7": [1.0]}, "no weight line for LM7"), ({"TM": [1.0]}, "2 weights of TM, expected 1")],
)
def test_weights_that_do_not_fit(path: Path, weights: dict[str, list[float]], found: str) -> None:
    with pytest.raises(InputError, match=found):
        with_weights(read_ini(path), weights)


def test_added_scores_change_three_places(path: Path) -> None:
    ini = with_added_scores(read_ini(path), "TM", Path("/new/table.gz"), [0.02, 0])
    assert ini.lines == changed(
        path,
        (b"path=table.gz num-features=2", b"path=/new/table.gz num-features=4"),
        (b"0.2 -1e-2", b"0.2 -1e-2 0.02 0"),
    )
    assert ini.feature("TM").n_scores == 4
    assert ini.weights["TM"] == (0.2, -0.01, 0.02, 0)


def test_num_features_is_written_where_it_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "moses.ini"
    path.write_text("[feature]\nPhraseDictionaryMemory path=t # one\n[weight]\n")
    with path.open("a") as stream:
        stream.write("PhraseDictionaryMemory0= 1\n")
    ini = with_added_scores(read_ini(path), "PhraseDictionaryMemory0", Path("u"), [0.5])
    assert ini.lines[1] == b"PhraseDictionaryMemory path=u num-features=2 # one"
    assert ini.lines[3] == b"PhraseDictionaryMemory0= 1 0.5"


def test_a_group_of_tables_changes_with_its_table(tmp_path: Path) -> None:
    """One score of the second table is replaced by two, so the last but one of the group's, too."""
    path = tmp_path / "moses.ini"
    path.write_text(
        "[feature]\nPhraseDictionaryMemory name=A num-features=1\n"
        "PhraseDictionaryMemory name=B num-features=2 path=b\n"
        "PhraseDictionaryGroup name=G members=A,B num-features=4 default-scores=0,1,2,3\n"
        "[weight]\nA= 1\nG= 0.10 2  3 4 # tuned\nB= 5 6\n"
    )
    lines = with_added_scores(read_ini(path), "B", Path("new"), [0.5, 0], n_replaced=1).lines
    assert lines[2] == b"PhraseDictionaryMemory name=B num-features=3 path=new"
    assert lines[3].endswith(b"num-features=5 default-scores=0,1,0,0,3")
    assert lines[5:8] == (b"A= 1", b"G= 0.10 2 0.5 0 4 # tuned", b"B= 5 0.5 0")


@pytest.mark.parametrize("name", ["a b", "a#b", "a\tb"])
def test_paths_that_moses_would_cut_are_refused(path: Path, name: str) -> None:
    ini = read_ini(path)
    with pytest.raises(InputError, match="which Moses cuts"):
        with_added_scores(ini, "TM", Path(name), [0.1])
    with pytest.raises(InputError, match="which Moses cuts"):
        with_path(ini, "TM", Path(name))
    with pytest.raises(InputError, match="which Moses cuts"):
        new_ini(Path("t"), Path(name), Path("lm"), 5)


def test_another_path(path: Path) -> None:
    ini = with_path(read_ini(path), "KENLM1", Path(r"/a\1/lm"))
    assert ini.lines == changed(path, (b"path=lm2.arpa", rb"path=/a\1/lm"))


def test_features_that_are_not_there(path: Path) -> None:
    ini = read_ini(path)
    for call in (ini.feature, lambda name: with_path(ini, name, Path("x"))):
        with pytest.raises(InputError, match="no feature TN, expected one of KENLM0, KENLM1, TM"):
            call("TN")


def test_scores_cannot_be_added_where_there_are_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "moses.ini"
    path.write_text("[feature]\nPhraseDictionaryMemory name=TM path=t num-features=4\n")
    with pytest.raises(InputError, match="no weight line for TM"):
        with_added_scores(read_ini(path), "TM", Path("u"), [0.1])


@pytest.mark.parametrize(
    ("old", "new", "line", "found"),
    [
        (b"[feature]\nKENLM", b"[ttable-file]\nKENLM", 7, "version 1"),
        (b"num-features=2", b"num-features=two", 10, "num-features=two"),
        (b"path=table.gz", b"path=", 10, "path= without a path, expected path=FILE"),
        (b"lm2.arpa", b"my lm2.arpa", 9, "'lm2.arpa', expected key=value"),
        (b"name=TM ", b"name=KENLM1 ", 10, "a second feature KENLM1"),
        (b"KENLM1= 0.25", b"KENLM1 0.25", 14, "'KENLM1'"),
        (b"KENLM1= 0.25", b"KENLM1=0.25", 14, "'KENLM1=0.25'"),
        (b"KENLM1= 0.25", b"KENLM1= x", 14, "'x'"),
        (b"KENLM1= 0.25", b"KENLM1= nan", 14, "the weight 'nan'"),
        (b"KENLM1= 0.25", b"KENLM1= 1_0", 14, "the weight '1_0'"),
        (b"KENLM1= 0.25", b"\xc2\xa0", 14, "expected Name= and its weights"),
        (b"KENLM1= 0.25", b"KENLM0= 0.25", 14, "KENLM0 again"),
        (b"0.2 -1e-2", b"0.2", None, "1 weights of TM, expected 2"),
    ],
)
def test_faulty_inis(path: Path, old: bytes, new: bytes, line: int | None, found: str) -> None:
    text = path.read_bytes()
    assert text.count(old) == 1
    path.write_bytes(text.replace(old, new))
    with pytest.raises(InputError, match=found) as error:
        read_ini(path)
    assert error.value.line == line


def test_paths_are_sought_here_and_next_to_the_ini(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = path.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    ini = read_ini(path)
    assert ini.resolve("lm.arpa") == path.parent / "lm.arpa"
    (here / "lm.arpa").touch()
    assert ini.resolve("lm.arpa") == Path("lm.arpa")
    assert ini.resolve("/lm.arpa") == Path("/lm.arpa")


def test_a_new_ini_is_train_models(tmp_path: Path) -> None:
    ini = new_ini(Path("/m/t.gz"), Path("/m/r.gz"), Path("/m/lm.gz"), 5, 5, 8)
    write_ini(ini, tmp_path / "moses.ini")
    again = read_ini(tmp_path / "moses.ini")
    assert again.lines == ini.lines
    assert again.weights == {
        "UnknownWordPenalty0": (1,),
        "WordPenalty0": (-1,),
        "PhrasePenalty0": (0.2,),
        "TranslationModel0": (0.2,) * 5,
        "LexicalReordering0": (0.3,) * 6,
        "Distortion0": (0.3,),
        "LM0": (0.5,),
    }
    assert again.settings["distortion-limit"] == ("8",)
    assert again.feature("TranslationModel0").arguments["path"] == "/m/t.gz"
    assert again.feature("LexicalReordering0").arguments["path"] == "/m/r.gz"
    assert again.feature("LM0").arguments == {"factor": "0", "path": "/m/lm.gz", "order": "5"}
    assert {feature.name for feature in again.features} == set(again.weights)


def test_names_outside_utf8_are_written_as_they_are() -> None:
    table, other = (Path(os.fsdecode(name)) for name in (b"a\xff.gz", b"\xfe"))
    ini = new_ini(table, None, Path("lm"), 5)
    assert any(b" path=a\xff.gz " in line for line in ini.lines)
    assert any(b" path=\xfe " in line for line in with_path(ini, "TranslationModel0", other).lines)


def test_a_new_ini_without_a_reordering_table_has_no_reordering() -> None:
    whole = new_ini(Path("t"), Path("r"), Path("lm"), 5)
    ini = new_ini(Path("t"), None, Path("lm"), 5)
    names = {feature.name for feature in whole.features} - {"LexicalReordering0", "Distortion0"}
    assert {feature.name for feature in ini.features} == set(ini.weights) == names
    assert ini.settings["distortion-limit"] == ("0",)


def test_a_new_ini_has_the_features_of_moses(golden: Path) -> None:
    theirs = read_ini(golden / "decode" / "moses.ini")
    ours = new_ini(
        Path("phrase-table.gz"),
        Path("reordering-table.wbe-msd-bidirectional-fe.gz"),
        Path("lm.arpa.gz"),
        5,
    )
    assert ours.features == theirs.features
    assert ours.settings == theirs.settings


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (0, b"0"),
        (1, b"1"),
        (-1 / 3, b"-0.3333333"),
        (1e-9, b"0.000000001000"),
        (2e7, b"20000000.000000000000"),
    ],
)
def test_weights_have_no_exponent(weight: float, text: bytes) -> None:
    assert format_weight(weight) == text


def test_members_of_groups_and_components_of_mixtures() -> None:
    group = Feature("PhraseDictionaryGroup", "G0", {"members": "A,,B", "components": "C"})
    assert member_names(group) == ["A", "B"]
    assert member_names(replace(group, kind=MIXTURE_KIND)) == ["C"]
    assert member_names(replace(group, arguments={})) == []


def test_a_limit_is_in_the_first_line_with_a_text_of_its_section(tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text("[mapping]\n0 T 0\n[distortion-limit]\n\n# a\n6\n7\n")
    assert first_line(read_ini(tmp_path / "moses.ini"), "distortion-limit") == (6, "6")
    (tmp_path / "moses.ini").write_text("[mapping]\n0 T 0\n[distortion-limit]\n# a\nx\n")
    with pytest.raises(InputError, match=r"moses\.ini:5: found distortion-limit: 'x'"):
        limit_of(read_ini(tmp_path / "moses.ini"), "distortion-limit")
