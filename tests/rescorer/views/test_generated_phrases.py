from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.target_generation import GenerationConfig
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import generator_of_model, save_model, scorer_of_model
from rescorer.scorers.cslm import Cslm, CslmConfig
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.scorers.rnn_lm import RnnLm, RnnLmConfig
from rescorer.tries.generation import Generator
from rescorer.views.generated_phrases import generate_phrases, table_targets

SOURCE, TARGET = Vocabulary([b"a", b"b"]), Vocabulary([b"x", "é".encode()])
COMPUTE = Compute(device="cpu")
CONFIG = GenerationConfig(n=3, max_words=4)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescorer.views.generated_phrases.BLOCK_ROWS", 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    encdec = EncoderDecoder(EncDecConfig(8, 4, 4), len(SOURCE), len(TARGET))
    save_model(tmp_path / "rnn", "encdec", encdec, encdec.config, Shortlists(SOURCE, TARGET), {})
    lm = RnnLm(RnnLmConfig("lstm", 6, 4, 4), len(TARGET))
    save_model(tmp_path / "lm", "rnn_lm", lm, lm.config, Shortlists(None, TARGET), {})
    cslm = Cslm(CslmConfig(2, 4, 4, 4), len(TARGET))
    save_model(tmp_path / "cslm", "cslm", cslm, cslm.config, Shortlists(None, TARGET), {})
    (tmp_path / "phrases").write_bytes(b"a  b\nb\n\xff\n")
    return tmp_path


def generator(folder: Path, name: str) -> Generator[Any, Any, Any, Any]:
    return generator_of_model(folder / name, COMPUTE)


def test_text_and_json_say_the_same(folder: Path) -> None:
    paths = [str(folder / name) for name in ("phrases", "text.gz", "json")]
    assert generate_phrases(generator(folder, "rnn"), paths[0], CONFIG, paths[1]) == 9
    assert generate_phrases(generator(folder, "rnn"), paths[0], CONFIG, paths[2], "json") == 9
    rows = [
        line.split(b" ||| ") for line in gzip.decompress(Path(paths[1]).read_bytes()).splitlines()
    ]
    scorer = scorer_of_model(folder / "rnn", COMPUTE).scorer
    forced = scorer.values(Batch([row[0] for row in rows], [row[1] for row in rows]))
    np.testing.assert_allclose([float(row[2]) for row in rows], forced, atol=1e-5)
    assert [row[0] for row in rows] == [b"a b"] * 3 + [b"b"] * 3 + [b"\xff"] * 3
    lines = Path(paths[2]).read_text().splitlines()
    objects = [json.loads(line) for line in lines]
    assert [entry["source"] for entry in objects] == ["a b", "b", "\ufffd"]
    targets = [one for entry in objects for one in entry["targets"]]
    assert [one["target"].encode() for one in targets] == [row[1] for row in rows]
    assert [f"{one['log_prob']:.6f}".encode() for one in targets] == [row[2] for row in rows]
    assert all("in_table" not in one for one in targets)


def test_the_table_is_looked_into(folder: Path) -> None:
    (folder / "table").write_bytes(
        "a b ||| x ||| 1\nb ||| x  é ||| 1\nb ||| é ||| 1\nc ||| x ||| 1\n".encode()
    )
    found = table_targets(folder / "table", frozenset([b"b", b"zebra"]))
    assert found == {b"b": {"x é".encode(), "é".encode()}}
    out = str(folder / "out")
    config = GenerationConfig(n=40, beam=40, max_words=2, max_ratio=0)
    table = folder / "table"
    generate_phrases(generator(folder, "rnn"), str(folder / "phrases"), config, out, "text", table)
    rows = [line.split(b" ||| ") for line in Path(out).read_bytes().splitlines()]
    inside = {(row[0], row[1]) for row in rows if row[4] == b"in table"}
    assert inside == {(b"a b", b"x"), (b"b", "x é".encode()), (b"b", "é".encode())}
    assert {row[4] for row in rows} == {b"in table", b"not in table"}


def test_a_language_model_continues_lines(folder: Path) -> None:
    (folder / "begun").write_bytes(b"x zebra\n\n")
    config = GenerationConfig(n=4, sample=True, max_words=3)
    generate_phrases(generator(folder, "lm"), str(folder / "begun"), config, str(folder / "out"))
    rows = [line.split(b" ||| ") for line in (folder / "out").read_bytes().splitlines()]
    assert len(rows) == 8 and all(row[1].startswith(b"x zebra") for row in rows[:4])
    scorer = scorer_of_model(folder / "lm", COMPUTE).scorer
    forced = scorer.values(Batch([b""] * 8, [row[1] for row in rows]))
    np.testing.assert_allclose([float(row[2]) for row in rows], forced, atol=1e-5)


def test_a_language_model_has_no_table(folder: Path) -> None:
    with pytest.raises(ConfigError, match="leave --table out"):
        generate_phrases(
            generator(folder, "lm"), str(folder / "phrases"), CONFIG, str(folder / "o"), "text",
            folder / "phrases",
        )  # fmt: skip
    assert not (folder / "o").exists()


def test_a_malformed_table_leaves_no_file(folder: Path) -> None:
    with pytest.raises(InputError, match="found 1 column"):
        generate_phrases(
            generator(folder, "rnn"), str(folder / "phrases"), CONFIG, str(folder / "o"), "text",
            folder / "phrases",
        )  # fmt: skip
    assert not (folder / "o").exists()


def test_a_network_over_windows_generates_nothing(folder: Path) -> None:
    with pytest.raises(InputError, match="'cslm', which cannot generate"):
        generator(folder, "cslm")
