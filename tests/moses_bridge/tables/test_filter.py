from __future__ import annotations

import gzip
import itertools
import shutil
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.tables.filter import SourcePhrases, filter_model

INI = """\
# kept
[feature]
PhraseDictionaryMemory name=TM0 num-features=1 path=model/table
LexicalReordering name=LR0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=model/reordering
KENLM name=LM0 path=model/lm order=5
[weight]
TM0= 0.2
LR0= 1 1 1 1 1 1
LM0= 0.5
"""
TABLE = b"""\
a ||| 1 ||| 1
a b ||| 2 ||| 1\r
a  b ||| 3 ||| 1
b a ||| 4 ||| 1
a ||| \xe9 ||| 1
b c d e f g h i j ||| 5 ||| 1
b c d e f g h i j k ||| 6 ||| 1
"""
REORDERING = b"a|||1|||1 1 1 1 1 1\nb a ||| 4 ||| 1 1 1 1 1 1\n"
INPUT = b"  a b c\n\nx b c d e f g h i j\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose tables are named without their .gz, as train-model.perl does for one of them."""
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "moses.ini").write_text(INI)
    (model / "table.gz").write_bytes(gzip.compress(TABLE))
    (model / "reordering").write_bytes(REORDERING)
    (model / "lm").touch()
    (tmp_path / "input").write_bytes(INPUT)
    return tmp_path


def test_rows_that_the_input_can_use(folder: Path) -> None:
    out = folder / "out"
    filter_model(folder / "moses.ini", [folder / "input"], out)
    rows = TABLE.split(b"\n")
    assert list(read_lines(out / "table.gz")) == [*rows[:3], *rows[4:6]]
    assert list(read_lines(out / "reordering")) == [b"a|||1|||1 1 1 1 1 1"]
    changed = INI.replace("model/table", "table.gz").replace("model/reordering", "reordering")
    assert (out / "moses.ini").read_text() == changed.replace("model/lm", "../model/lm")
    assert sorted(path.name for path in out.iterdir()) == ["moses.ini", "reordering", "table.gz"]


@pytest.mark.parametrize("max_phrase_words", [1, 7, 20])
def test_long_phrases_are_found_whatever_the_first_length(max_phrase_words: int) -> None:
    sentences = [b"a b a c", b"c c"]
    phrases = SourcePhrases(sentences, max_phrase_words)
    expected = {
        tuple(words[start:end])
        for words in map(bytes.split, sentences)
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
    }
    asked = [
        words for n in range(1, 6) for words in itertools.product([b"a", b"b", b"c"], repeat=n)
    ]
    assert {words for words in asked if words in phrases} == expected


def test_tables_of_moses_keep_what_the_input_uses(golden: Path, tmp_path: Path) -> None:
    sentences = list(read_lines(golden / "decode" / "input.en"))[:20]
    write_lines(tmp_path / "input", sentences)
    filter_model(golden / "decode" / "moses.ini", [tmp_path / "input"], tmp_path / "out")
    text = b"".join(b" %s " % sentence for sentence in sentences)
    for name in ("phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz"):
        all_rows = read_lines(golden / "decode" / name)
        expected = [row for row in all_rows if b" %s " % row.split(b" ||| ")[0] in text]
        assert list(read_lines(tmp_path / "out" / name)) == expected
        assert expected


def test_filtered_tables_are_those_of_moses(small_golden: Path, tmp_path: Path) -> None:
    reordering = "reordering-table.wbe-msd-bidirectional-fe.gz"
    tables = {"phrase-table.gz": "phrase-table.gt.gz", reordering: reordering}
    for name, stored in tables.items():
        shutil.copy(small_golden / "extract" / stored, tmp_path / name)
    shutil.copy(small_golden / "decode" / "moses.ini", tmp_path)
    filter_model(tmp_path / "moses.ini", [small_golden / "decode" / "input.en"], tmp_path / "out")
    for name in tables:
        expected = list(read_lines(small_golden / "decode" / name))
        assert list(read_lines(tmp_path / "out" / name)) == expected


def test_filtering_what_is_filtered_changes_nothing(golden: Path, tmp_path: Path) -> None:
    original = golden / "decode"
    filter_model(original / "moses.ini", [original / "input.en"], tmp_path)
    ours, theirs = (path / "phrase-table.gz" for path in (tmp_path, original))
    assert list(read_lines(ours)) == list(read_lines(theirs))
    weights = read_ini(tmp_path / "moses.ini").weights
    assert weights == read_ini(original / "moses.ini").weights


def test_reordering_by_source_alone_has_two_columns(folder: Path) -> None:
    ini = INI.replace("wbe-msd-bidirectional-fe-allff", "wbe-msd-bidirectional-f-allff")
    (folder / "moses.ini").write_text(ini)
    (folder / "model" / "reordering").write_bytes(b"a ||| 1 1 1\nz ||| 1 1 1\n")
    filter_model(folder / "moses.ini", [folder / "input"], folder / "out")
    assert (folder / "out" / "reordering").read_bytes() == b"a ||| 1 1 1\n"


def test_words_end_at_blanks_and_tabs_alone(folder: Path) -> None:
    (folder / "input").write_bytes(b"a\x0bb\tc\xc2\xa0d\n")
    table = b"a ||| 1 ||| 1\na\x0bb ||| 2 ||| 1\nc\xc2\xa0d ||| 3 ||| 1\n"
    (folder / "model" / "table.gz").write_bytes(gzip.compress(table))
    filter_model(folder / "moses.ini", [folder / "input"], folder / "out")
    assert list(read_lines(folder / "out" / "table.gz")) == table.split(b"\n")[1:3]


def test_a_text_of_another_editor_keeps_the_same_rows(folder: Path) -> None:
    (folder / "input").write_bytes(b"\xef\xbb\xbfa\r\nc j\r\nx b a\r\n")
    filter_model(folder / "moses.ini", [folder / "input"], folder / "out")
    rows = TABLE.split(b"\n")
    assert list(read_lines(folder / "out" / "table.gz")) == [rows[0], rows[3], rows[4]]


def test_two_tables_of_one_name(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "table.gz").write_bytes(gzip.compress(b"b ||| 7 ||| 1\n"))
    line = "PhraseDictionaryMemory name=TM1 num-features=1 path=other/table.gz\nLex"
    (folder / "moses.ini").write_text(INI.replace("Lex", line, 1))
    filter_model(folder / "moses.ini", [folder / "input"], folder / "out")
    assert len(list(read_lines(folder / "out" / "TM0.table.gz"))) == 5
    assert list(read_lines(folder / "out" / "TM1.table.gz")) == [b"b ||| 7 ||| 1"]


def test_what_is_no_text_table_by_source_stays(folder: Path) -> None:
    ini = INI.replace("bidirectional-fe", "bidirectional-e")
    (folder / "moses.ini").write_text(ini.replace("PhraseDictionaryMemory", "ProbingPT"))
    filter_model(folder / "moses.ini", [folder / "input"], folder / "out")
    assert [path.name for path in (folder / "out").iterdir()] == ["moses.ini"]
    assert "path=../model/reordering\n" in (folder / "out" / "moses.ini").read_text()


def test_a_table_never_overwrites_itself(folder: Path) -> None:
    with pytest.raises(ConfigError, match="would be overwritten"):
        filter_model(folder / "moses.ini", [folder / "input"], folder / "model")
    assert gzip.decompress((folder / "model" / "table.gz").read_bytes()) == TABLE


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        (
            "model/reordering",
            b"a ||| 1 ||| 1\n\n",
            "reordering:2: found 1 column, expected at least 3",
        ),
        ("model/reordering", b"a ||| 1 ||| 1\na ||| 1\n", "reordering:2: found 2 columns"),
        (
            "model/reordering",
            b"b ||| 1 ||| 1\na [X] ||| b [X] ||| 1\n",
            "reordering:2: found a hier",
        ),
        ("moses.ini", b"[ttable-file]\n0 0 0 5 x\n", "moses.ini:2: found 0 weights left"),
        ("moses.ini", b"[feature]\nPhraseDictionaryMemory path=nowhere\n", "nowhere"),
    ],
)
def test_faulty_models(folder: Path, name: str, content: bytes, found: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=found):
        filter_model(folder / "moses.ini", [folder / "input"], folder / "out")
    assert not (folder / "out" / "moses.ini").exists()


def test_a_place_with_a_blank_is_refused_before_any_work(folder: Path) -> None:
    ini = folder / "moses.ini"
    ini.write_text(ini.read_text().replace("path=", f"path={folder}/"))
    with pytest.raises(InputError, match="which Moses cuts"):
        filter_model(ini, [folder / "input"], folder / "my model")
    assert not (folder / "my model").exists()
