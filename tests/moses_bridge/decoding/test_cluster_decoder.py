"""Texts decoded on a Ray cluster of this machine, against those of one process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.base.cluster import Cluster, open_cluster
from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.base.textio import read_lines
from moses_bridge.decoding.builtin_decoder import ClusterDecoder, PartTranslator
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import Decoder, DecoderConfig

# Each starts processes of Ray, or a cluster of them.
pytestmark = pytest.mark.slow

CONFIG = DecoderConfig(kind="builtin", stack_size=20, pop_limit=40, alignment=True)

NOBODY = Cluster(1)  # never used


@pytest.fixture(scope="module")
def cluster(ray_cluster: Any) -> Iterator[Cluster]:
    with open_cluster(ray_cluster.address) as cluster:
        yield cluster


@pytest.fixture
def system(small_golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a model whose ini has paths relative to it."""
    folder = tmp_path / "system"
    shutil.copytree(small_golden / "decode", folder)
    monkeypatch.chdir(folder)
    return folder


def decoded(decoder: Decoder, folder: Path) -> dict[str, list[bytes]]:
    """The lines of texts and lists under the weights of the ini, under others, and without a list."""
    source, out, nbest = folder / "input.en", folder / "out", folder / "list.gz"
    found = {}
    for name, weights in {"ini": None, "other": {"WordPenalty0": [-2.0]}}.items():
        decoder.decode(source, out, weights, nbest, 20)
        found |= {name: list(read_lines(out)), f"{name} list": list(read_lines(nbest))}
    decoder.decode(source, out, None, None, 1)
    return found | {"no list": list(read_lines(out))}


def test_texts_and_lists_are_those_of_one_process(system: Path, cluster: Cluster) -> None:
    with open_decoder(Path("moses.ini"), CONFIG, 1) as alone:
        expected = decoded(alone, system)
    with ClusterDecoder(Path("moses.ini"), CONFIG, cluster) as decoder:
        found = decoded(decoder, system)
    assert expected["ini"] == expected["no list"] != expected["other"]
    for name, lines in expected.items():
        different = [pair for pair in zip(found[name], lines, strict=True) if pair[0] != pair[1]]
        assert (name, different[:2]) == (name, [])  # two are enough to see the difference


def test_wrong_weights_are_reported_before_anybody_is_asked(system: Path) -> None:
    decoder = ClusterDecoder(Path("moses.ini"), CONFIG, NOBODY)
    with pytest.raises(ConfigError, match="WordPenalty0"):
        decoder.translations([b"a"], {"WordPenalty0": [1.0, 2.0]}, None)


def test_moses_decodes_on_no_cluster() -> None:
    with pytest.raises(ConfigError, match="by the built-in decoder alone"):
        ClusterDecoder(Path("moses.ini"), DecoderConfig(kind="moses"), NOBODY)


def test_a_machine_without_the_directory_is_reported() -> None:
    with pytest.raises(UserError, match=r"No such file.*needs the same directories on all"):
        PartTranslator("/no such directory", Path("moses.ini"), CONFIG)
