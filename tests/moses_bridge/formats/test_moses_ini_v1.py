from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.moses_ini import MosesIni, limit_of, parse_ini
from moses_bridge.formats.moses_ini_edits import with_weights

V1 = """[ttable-file]
0 0 0 2 model/table
0 0,1 0 1 other # a comment
[ttable-limit]
30
[lmodel-file]
8 0 5 lm.arpa
[distortion-file]
0-0 msd-bidirectional-fe 6 moves.gz
[distortion-limit]
7
[weight-l]
0.5
[weight-d]
0.3
0.1
0.2
0.3
0.4
0.5
0.6
[weight-t]
0.01
0.02
1e-2
[weight-w]
-1
"""


def read(text: str) -> MosesIni:
    return parse_ini(tuple(text.encode().split(b"\n")), Path("moses.ini"))


def test_version_1_is_read_as_moses_converts_it() -> None:
    ini = read(V1)
    assert {feature.name: feature.arguments for feature in ini.features} == {
        "KENLM0": {"factor": "0", "order": "5", "num-features": "1", "path": "lm.arpa"},
        "Distortion0": {},
        "LexicalReordering0": {
            **{"type": "msd-bidirectional-fe", "input-factor": "0", "output-factor": "0"},
            **{"num-features": "6", "path": "moves.gz"},
        },
        "WordPenalty0": {},
        "UnknownWordPenalty0": {},
        "PhraseDictionaryMemory0": {
            **{"input-factor": "0", "output-factor": "0", "num-features": "2"},
            **{"path": "model/table", "table-limit": "30"},
        },
        "PhraseDictionaryMemory1": {
            **{"input-factor": "0,1", "output-factor": "0", "num-features": "1"},
            **{"path": "other", "table-limit": "30"},
        },
    }
    assert ini.weights == {
        "WordPenalty0": (-1.0,),
        "KENLM0": (0.5,),
        "Distortion0": (0.3,),
        "LexicalReordering0": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
        "PhraseDictionaryMemory0": (0.01, 0.02),
        "PhraseDictionaryMemory1": (0.01,),
    }


def test_it_is_written_as_version_2() -> None:
    ini = with_weights(read(V1), {"KENLM0": [0.7]})
    assert b"KENLM0= 0.7" in ini.lines
    assert parse_ini(ini.lines, Path("moses.ini")) == ini
    assert limit_of(ini, "distortion-limit") == 7


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "0 0 0 2 model/table",
            "9 0 0 2 model/table",
            ":2: found the kind 9, expected one of 0, 1",
        ),
        ("0 0 0 2 model/table", "0 0 2 table", ":2: found '0 0 2 table', expected kind, factors"),
        ("0 0 0 2 model/table", "0 0 0 two table", ":2: found 'two' scores, expected a whole"),
        ("8 0 5", "3 0 5", ":7: found the kind 3, expected one of 0, 1, 8, 9"),
        ("1e-2\n", "", ":3: found 0 weights left in .weight-t., expected 1"),
        ("1e-2\n", "1e-2\n5\n", ":26: found one more weight, 5"),
        ("-1", "x", ":27: found the weight 'x', expected a finite number"),
        ("30\n", "30\n20\n10\n", None),
        ("[weight-w]\n-1", "[weight]\nWordPenalty0= -1", ":1: found the section .ttable-file."),
    ],
)
def test_faults_are_reported_with_their_line(old: str, new: str, message: str | None) -> None:
    assert V1.count(old) >= 1
    text = V1.replace(old, new, 1)
    if message is None:
        assert read(text).features[-1].arguments["table-limit"] == "20"
        return
    with pytest.raises(InputError, match=message):
        read(text)
