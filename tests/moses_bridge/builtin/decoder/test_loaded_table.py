from __future__ import annotations

import gzip
import math
from pathlib import Path

import kenlm
import numpy as np
import pytest

from moses_bridge.builtin.decoder.loaded_table import LoadedTable, load_table
from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.phrase_choice import choose
from moses_bridge.builtin.decoder.reordering_table import read_reordering
from moses_bridge.builtin.decoder.source_trie import longest_phrase
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model
from moses_bridge.compiled.lexicon import Lexicon
from moses_bridge.errors import ConfigError, InputError

ARPA = b"""\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-1.0\t</s>\t0
-0.7\ta\t-0.2
-0.9\tb\t-0.4

\\2-grams:
-0.2\t<s> a
-0.6\ta b
-0.1\tb </s>

\\end\\
"""
INI = """[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=table
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
TranslationModel0= 0.5 0.25
LM0= 0.5
"""


def write_model(folder: Path, table: bytes, reordering: bytes = b"", ini: str = INI) -> Path:
    (folder / "table").write_bytes(table)
    (folder / "reordering").write_bytes(reordering)
    (folder / "lm.arpa").write_bytes(ARPA)
    (folder / "moses.ini").write_text(ini)
    return folder / "moses.ini"


def read_pairs(folder: Path, table: bytes, n_scores: int = 2) -> tuple[LoadedTable, Lexicon]:
    (folder / "table").write_bytes(table)
    words = Lexicon([b"a", b"b"])
    return load_table(folder / "table", n_scores, words), words


def targets(pairs: LoadedTable, words: Lexicon) -> list[list[bytes]]:
    names, rows = words.words(), pairs.rows
    return [
        [names[i] for i in rows.words[rows.word_starts[k] : rows.word_starts[k + 1]]]
        for k in range(len(rows.nodes))
    ]


@pytest.mark.parametrize(
    ("line", "target", "scores", "links"),
    [
        (b"x ||| a ||| 1 0.5", [b"a"], [0.0, math.log(0.5)], b""),
        (b"x ||| a b ||| 2.718 1e-3 ||| 0-0 0-1", [b"a", b"b"], [0.999896, -6.907755], b"0-0 0-1"),
        (b"x\ty|||\ta   c|||0 1E+1|||0-0|||1 1 1|||", [b"a", b"c"], [-100.0, 2.302585], b"0-0"),
        (b"x ||| ||| 7.83046e-05 1e-60 ||| ||| |||\r", [], [-9.454904, -100.0], b""),
        (b"x ||| \xff\xa0 ||| .5 5. ||| 0-0", [b"\xff\xa0"], [-0.693147, 1.609438], b"0-0"),
    ],
)
def test_a_row_is_read_as_moses_reads_it(
    tmp_path: Path, line: bytes, target: list[bytes], scores: list[float], links: bytes
) -> None:
    pairs, words = read_pairs(tmp_path, line + b"\n")
    assert targets(pairs, words) == [target]
    assert pairs.rows.scores[0] == pytest.approx(scores, abs=1e-5)
    assert pairs.rows.links.tobytes().strip() == links


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"x ||| a", "3 columns"),
        (b"", "3 columns"),
        (b" ||| a ||| 1 1", "words in column 1"),
        (b"x ||| a ||| 1", "2 scores"),
        (b"x ||| a ||| 1 1 1", "2 scores"),
        (b"x ||| a ||| 1 -1", "NaN"),
        (b"x ||| a ||| 1 nan", "finite"),
        (b"x ||| a ||| 1 1e999", "finite"),
        (b"x ||| a ||| 1 0.5x", "finite"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, row: bytes, expected: str) -> None:
    with pytest.raises(InputError, match=f":2: .*{expected}"):
        read_pairs(tmp_path, b"x ||| a ||| 1 1\n" + row + b"\n")


def test_tables_grow(tmp_path: Path) -> None:
    rows = [b"s%d t%d ||| u%d v%d ||| 1 1" % (i, i, i, i % 7) for i in range(20000)]
    pairs, words = read_pairs(tmp_path, b"\n".join(rows))
    assert targets(pairs, words) == [[b"u%d" % i, b"v%d" % (i % 7)] for i in range(20000)]
    assert len(set(words.words())) == len(words) == 20009
    assert len(np.unique(pairs.rows.nodes)) == 20000
    assert longest_phrase(pairs.trie) == 2


def test_rows_of_a_source_need_not_stand_together(tmp_path: Path) -> None:
    pairs, _ = read_pairs(tmp_path, b"x ||| a ||| 1 1\ny z ||| a ||| 1 1\nx ||| b ||| 1 1\n")
    node = pairs.rows.nodes[0]
    rows = pairs.node_rows[pairs.node_starts[node] : pairs.node_starts[node + 1]]
    assert rows.tolist() == [0, 2]


def test_reordering_rows_find_their_pairs(tmp_path: Path) -> None:
    pairs, words = read_pairs(
        tmp_path, b"x ||| a ||| 1 1\nx ||| b ||| 1 1\nx y ||| a b ||| 1 1\nx ||| a ||| 1 1\n"
    )
    (tmp_path / "reordering").write_bytes(
        b"x y ||| a b ||| .1 .2 .3 .4 .5 0\n"
        b"unknown ||| a ||| 1 1 1 1 1 1\n"
        b"x ||| a b ||| 1 1 1 1 1 1\n"
        b"x ||| a ||| .5 .5 .5 .5 .5 .5\n"
    )
    scores = read_reordering(tmp_path / "reordering", pairs, words.tables)
    half = [math.log(0.5)] * 6
    assert scores[0] == pytest.approx(half) and scores[3] == pytest.approx(half)
    assert scores[1].tolist() == [0.0] * 6
    assert scores[2] == pytest.approx([math.log(p) for p in (0.1, 0.2, 0.3, 0.4, 0.5)] + [-100.0])


@pytest.mark.parametrize("row", [b"x ||| .5", b"x ||| a ||| 1 1 1", b"x ||| a ||| 1 1 1 1 1 -1"])
def test_a_faulty_reordering_row_is_named(tmp_path: Path, row: bytes) -> None:
    pairs, words = read_pairs(tmp_path, b"x ||| a ||| 1 1\n")
    (tmp_path / "reordering").write_bytes(row)
    with pytest.raises(InputError, match="reordering:1: "):
        read_reordering(tmp_path / "reordering", pairs, words.tables)


def test_table_limit_cuts_by_weighted_score_with_the_language_model(tmp_path: Path) -> None:
    phrases = [b"a", b"b", b"a b", b"b a", b"c a b", b"b b b"]
    scores = [(0.3, 0.2), (0.3, 0.9), (0.9, 0.01), (0.5, 0.5), (0.9, 0.9), (0.99, 0.99)]
    rows = [b"x ||| %b ||| %g %g" % (t, *s) for t, s in zip(phrases, scores, strict=True)]
    ini = write_model(tmp_path, b"\n".join(rows))
    model = load_model(ini, 4, None)
    weights = model.weight_vector({"WordPenalty0": [-0.3], "LM0": [0.7], "PhrasePenalty0": [2]})
    weighted = make_weighted_model(model, np.full(len(rows), np.nan, np.float32), weights)
    node = int(model.table.rows.nodes[0])
    choose(node, weighted)
    kenlm_model = kenlm.Model(str(tmp_path / "lm.arpa"))

    def estimate(row: int) -> float:
        words = phrases[row].decode()
        lm = kenlm_model.score(words, bos=False, eos=False) * math.log(10)
        own = 0.5 * math.log(scores[row][0]) + 0.25 * math.log(scores[row][1])
        return own + 0.7 * lm + 0.3 * len(words.split())

    expected = sorted(range(len(phrases)), key=estimate, reverse=True)[:4]
    begin, end = weighted.choices.starts[node : node + 2]
    assert weighted.choices.rows[begin:end].tolist() == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Distortion\n", "Distortion\nOpSequenceModel\n", "no feature OpSequenceModel"),
        ("Distortion\n", "Distortion\nKENLM name=LM1 path=lm.arpa\n", "2 features of kind KENLM"),
        ("msd-bidirectional-fe-allff", "mslr-fe", "type=wbe-mslr-fe"),
        ("factor=0", "factor=1", "factor=1"),
        ("[weight]", "[weight]\nLM7= 1", "LM7"),
        ("LM0= 0.5", "LM0= 0.5 0.5", "LM0"),
        ("LM0= 0.5", "LM0= nan", "finite"),
        ("]\n6", "]\nsix", "'six'"),
        (" path=table", "", "no path="),
    ],
)
def test_what_the_decoder_cannot_do_is_said(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    ini = write_model(tmp_path, b"x ||| a ||| 1 1\n", ini=INI.replace(old, new, 1))
    with pytest.raises((ConfigError, InputError), match=message):
        load_model(ini, None, None).weight_vector(None)


def test_a_table_is_needed(tmp_path: Path) -> None:
    ini = write_model(tmp_path, b"")
    ini.write_text("[feature]\nWordPenalty\n")
    with pytest.raises(ConfigError, match="no PhraseDictionaryMemory"):
        load_model(ini, None, None)


def test_real_tables(golden: Path) -> None:
    folder = golden / "decode"
    words = Lexicon()
    pairs = load_table(folder / "phrase-table.gz", 4, words)
    reordering = read_reordering(
        folder / "reordering-table.wbe-msd-bidirectional-fe.gz", pairs, words.tables
    )
    names, rows = words.words(), pairs.rows
    with (
        gzip.open(folder / "phrase-table.gz") as table,
        gzip.open(folder / "reordering-table.wbe-msd-bidirectional-fe.gz") as other,
    ):
        for row, (line, reordering_line) in enumerate(zip(table, other, strict=True)):
            if row % 50 == 0:
                columns = [column.split() for column in line.split(b"|||")]
                ids = rows.words[rows.word_starts[row] : rows.word_starts[row + 1]]
                assert [names[i] for i in ids] == columns[1]
                logs = np.log([float(score) for score in columns[2]])
                assert rows.scores[row] == pytest.approx(logs, abs=1e-5)
                logs = np.log([float(score) for score in reordering_line.split(b"|||")[2].split()])
                assert reordering[row] == pytest.approx(logs, abs=1e-5)
    assert row + 1 == len(rows.nodes)
