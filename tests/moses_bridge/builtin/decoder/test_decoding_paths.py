from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError
from moses_bridge.builtin.decoder.decoding_paths import decoding_paths
from moses_bridge.formats.moses_ini import MosesIni, parse_ini

TABLES = (
    "PhraseDictionaryMemory name=One path=a\nDistortion\nPhraseDictionaryMemory name=Two path=b\n"
)


def ini_of(sections: str, features: str = TABLES) -> MosesIni:
    text = f"{sections}\n[feature]\n{features}"
    return parse_ini(tuple(text.encode().split(b"\n")), Path("moses.ini"))


@pytest.mark.parametrize(
    ("sections", "paths"),
    [
        ("[mapping]\n0 T 0\n1 T 1", [("One", False), ("Two", False)]),
        ("[mapping]\n0 T 1\n1 T 0 # the general one", [("Two", False), ("One", False)]),
        ("[mapping]\nT 1\n1 T 0", [("Two", False), ("One", False)]),
        (
            "[mapping]\n0 T 0\n1 T 1\n[decoding-graph-backoff]\n0\n3",
            [("One", False), ("Two", True)],
        ),
        ("[mapping]\n0 T 0\n1 T 1\n[decoding-graph-backoff]\n0", [("One", False), ("Two", False)]),
        (
            "[mapping]\n0 T 0\n1 T 1\n[decoding-graph-backoff]\n0\n2\n3",
            [("One", False), ("Two", True)],
        ),
    ],
)
def test_paths_are_those_of_moses(sections: str, paths: list[tuple[str, bool]]) -> None:
    found = [(path.feature.name, path.for_unknown) for path in decoding_paths(ini_of(sections))]
    assert found == paths


@pytest.mark.parametrize(
    "sections", ["", "[mapping]\n# none", "[mapping]\nT 0", "[mapping]\n0 T 0"]
)
def test_one_table_needs_no_mapping(sections: str) -> None:
    paths = decoding_paths(ini_of(sections, "PhraseDictionaryMemory path=a"))
    assert [path.feature.name for path in paths] == ["PhraseDictionaryMemory0"]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ("", "Two is in 0 lines of .mapping."),
        ("[mapping]\n0 T 0\n1 T 0", "One is in 2 lines"),
        ("[mapping]\n0 T 0\n0 T 1", "the line '0 T 1'; .* one phrase table on each path: 1 T"),
        ("[mapping]\n0 T 0\n2 T 1", "the line '2 T 1'"),
        ("[mapping]\n0 T 0\n1 G 0", "the line '1 G 0'"),
        ("[mapping]\n0 One\n1 Two", "the line '0 One'"),
        ("[mapping]\n0 T 0\n1 T 2", "'1 T 2', but there are 2 phrase tables"),
        ("[mapping]\n0 T 0\n1 T x", "'x' in the place of a whole number"),
        ("[mapping]\n0 T 0\n1 T 1\n[decoding-graph-backoff]\n0\n-1", "backoff. has '-1'"),
        ("[mapping]\n0 T 0\n1 T 1\n[decoding-graph-backoff]\n2", "begins with 2; .* path has 0"),
    ],
)
def test_other_mappings_are_refused(sections: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decoding_paths(ini_of(sections))


def test_a_table_is_needed() -> None:
    with pytest.raises(ConfigError, match="no PhraseDictionaryMemory"):
        decoding_paths(ini_of("", "Distortion"))
