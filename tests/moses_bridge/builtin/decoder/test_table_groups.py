from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder.decoding_paths import decoding_paths, table_group
from moses_bridge.builtin.decoder.feature_slices import check_features
from moses_bridge.formats.moses_ini import MosesIni, parse_ini

TABLES = (
    "PhraseDictionaryMemory name=One num-features=4\nPhraseDictionaryMemory name=Two num-features=5"
)


def ini_of(arguments: str, sections: str = "[mapping]\n0 T 2") -> MosesIni:
    text = f"[feature]\n{TABLES}\nPhraseDictionaryGroup name=Both {arguments}\n{sections}"
    return parse_ini(tuple(text.encode().split(b"\n")), Path("moses.ini"))


def test_members_keep_their_order_and_counts_follow_their_scores() -> None:
    ini = ini_of(
        "members=Two,One num-features=16 phrase-counts=yes word-counts=1 model-bitmap-counts=TRUE"
    )
    (path,) = decoding_paths(ini)
    assert [table.name for table in path.tables] == ["Two", "One"]
    assert path.feature.name == "Both"
    assert path.group is not None
    assert (path.group.n_table_scores, path.group.n_scores) == (9, 9 + 2 + 2 + 3)
    assert path.group.defaults == (0,) * 16
    check_features(ini)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("num-features=9", "the names of 0 tables, expected 1 to 16 names"),
        ("members=One,Three num-features=9", "'Three' among .* PhraseDictionaryMemory: One, Two"),
        ("members=One,Two num-features=8", "num-features=8, expected num-features=9, the scores"),
        ("members=One,Two num-features=9 restrict=2", "restrict=2, expected true or false"),
        ("members=One,Two num-features=9 restricted=true", "the argument restricted, expected one"),
        (
            "members=One,Two num-features=9 default-average-others=true",
            "different numbers of scores, expected tables with equally many",
        ),
        (
            "members=One,Two num-features=9 default-scores=0,0",
            "default-scores=0,0, expected 9 numbers",
        ),
        ("members=One num-features=4 default-scores=0,0,0,inf", "expected 4 numbers"),
    ],
)
def test_a_faulty_group_is_refused_with_its_line(arguments: str, message: str) -> None:
    ini = ini_of(arguments)
    with pytest.raises(InputError, match=f"^moses.ini:4: found Both with .*{message}"):
        table_group(ini, ini.feature("Both"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("mode=all", "mode=all, expected mode=interpolate, or a PhraseDictionaryGroup"),
        ("mode=interpolate components=One lambda=1 num-features=5", "4 and 5 scores, expected"),
        (
            "mode=interpolate components=One lambda=1,2 num-features=4",
            "lambda=1,2, expected a number",
        ),
        ("mode=interpolate components=One num-features=4", "lambda=, expected a number from 0"),
        ("mode=interpolate components=One lambda=0 num-features=4", "only shares of 0 for a score"),
        ("members=One", "the argument members, expected one of components"),
    ],
)
def test_a_faulty_mixture_is_refused_with_its_line(arguments: str, message: str) -> None:
    text = f"[feature]\n{TABLES}\nPhraseDictionaryMultiModel name=Both {arguments}"
    ini = parse_ini(tuple(text.encode().split(b"\n")), Path("moses.ini"))
    with pytest.raises(InputError, match=f"^moses.ini:4: found Both with .*{message}"):
        table_group(ini, ini.feature("Both"))


@pytest.mark.parametrize(
    ("arguments", "sections", "message"),
    [
        ("members=One num-features=4", "[mapping]\n0 T 2", "Two is in 0 lines of .mapping.;"),
        (
            "members=One,Two num-features=9",
            "[mapping]\n0 T 2\n1 T 0",
            "One is in 1 lines of .mapping. and 1 times in a group of tables",
        ),
        (
            "members=One num-features=4",
            "[mapping]\n0 T 1\n1 T 2\n[decoding-graph-backoff]\n0\n1",
            ".decoding-graph-backoff. has 1 for Both; .* has 0",
        ),
    ],
)
def test_a_table_is_in_one_place(arguments: str, sections: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decoding_paths(ini_of(arguments, sections))
