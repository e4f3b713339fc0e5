"""Pools of the files written by Moses's extractor: their faults, and optimising on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from tuning.optimisers.by_name import load_optimizer
from tuning.optimisers.contract import OptimizerConfig
from tuning.optimisers.moses_files import optimize_files, read_moses_pool, read_start

FEATURES = b"FEATURES_TXT_BEGIN_0 0 1 2 A_0 B_0\n1 2\nFEATURES_TXT_END_0\n"
SCORES = b"SCORES_TXT_BEGIN_0 0 1 9 BLEU\n1 2 3 4 5 6 7 8 9\nSCORES_TXT_END_0\n"


def check_refused(folder: Path, features: bytes, scores: bytes, message: str) -> None:
    (folder / "f").write_bytes(features)
    (folder / "s").write_bytes(scores)
    with pytest.raises(InputError, match=message):
        read_moses_pool([folder / "f"], [folder / "s"])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            FEATURES + FEATURES.replace(b"B_0", b"C_0"),
            r"f:4: found the features A_0 C_0, expected A_0 B_0",
        ),
        (
            FEATURES + b"FEATURES_TXT_BEGIN_0 1 1 3 A_0 B_0 B_1\n1 2 3\nFEATURES_TXT_END_0\n",
            r"f:4: found the features A_0 B_0 B_1, expected A_0 B_0",
        ),
        (FEATURES.replace(b" B_0", b""), r"f:1: found 1 names of 2 columns, expected as m"),
        (FEATURES.replace(b"_TXT_", b"_BIN_"), r"f:1: found 'FEATURES_BIN_.* Only the text"),
        (FEATURES.replace(b"0 0 1", b"0 x 1"), r"f:1: found .*, expected FEATURES_TXT_BEGI"),
        (FEATURES.replace(b"1 2\n", b"nan 2\n"), r"f:2: found a value that is not finite"),
        (FEATURES.replace(b"1 2\n", b"1,0 2\n"), r"f:2: found could not convert .*'1,0'"),
        (FEATURES.replace(b"1 2\n", b"1\n"), r"f:2: found 1 values, expected 2"),
        (FEATURES.replace(b"1 2\n", b"1 2 3\n"), r"f:2: found 3 values, expected 2"),
        (FEATURES.replace(b"1 2\n", b""), r"f:2: found 1 values, expected 2"),
        (FEATURES[:-19], r"f:3: found the end .*, expected FEATURES_TXT_END_0 after 1 row"),
        (FEATURES * 2, r"f:4: found sentence 0, expected one that .*s has, and once"),
    ],
)
def test_faults_of_features(tmp_path: Path, features: bytes, message: str) -> None:
    check_refused(tmp_path, features, SCORES, message)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (SCORES.replace(b"0 0 1", b"0 3 1"), r"f:1: found sentence 0, expected one that"),
        (SCORES * 2, r"s:4: found sentence 0 again, expected each sentence once"),
        (
            SCORES + SCORES.replace(b"0 0 1", b"0 3 1"),
            r"s:4: found scores of sentence 3, expected none, as in .*f",
        ),
        (
            SCORES.replace(b"0 0 1", b"0 0 2").replace(b"9\nS", b"9\n1 2 3 4 5 6 7 8 9\nS"),
            r"s:1: found 2 rows for sentence 0, expected 1, as in .*f:1",
        ),
        (SCORES.replace(b"BLEU", b"TER"), r"s:1: found 9 numbers of TER, expected 9 of B"),
        (
            SCORES.replace(b"1 9 BLEU", b"1 8 BLEU").replace(b" 9\n", b"\n"),
            r"s:1: found 8 numbers of BLEU, expected 9 of BLEU",
        ),
        (SCORES.replace(b"1 2 3", b"1 2.5 3"), r"s:2: found the counts 1 2\.5 3 .* whole"),
        (SCORES.replace(b"1 2 3", b"1 -1 3"), r"s:2: found the counts 1 -1 3 .* whole nu"),
        (SCORES.replace(b" 9\n", b" 9 x=1\n"), r"s:1: found 9 numbers of BLEU"),
    ],
)
def test_faults_of_scores(tmp_path: Path, scores: bytes, message: str) -> None:
    check_refused(tmp_path, FEATURES, scores, message)


def test_empty_files_are_refused(tmp_path: Path) -> None:
    check_refused(tmp_path, b"", b"", r"f: found no sentence")


def test_the_first_line_that_is_no_count_is_named(tmp_path: Path) -> None:
    rows = [b"1 2 3 4 5 6 7 8 9", b"0 2 0 4 0 6 0 8.5 9", b"0 2 0 4 0 6 0 8 -9"]
    block = b"SCORES_TXT_BEGIN_0 1 3 9 BLEU\n%s\nSCORES_TXT_END_0\n" % b"\n".join(rows)
    (tmp_path / "f").write_bytes(FEATURES)
    (tmp_path / "s").write_bytes(SCORES + block)
    with pytest.raises(InputError, match=r"s:6: found the counts 0 2 0 4 0 6 0 8\.5 9"):
        read_moses_pool([tmp_path / "f"], [tmp_path / "s"])


def test_scores_belong_to_sentences_in_whatever_order_and_file(tmp_path: Path) -> None:
    """Two iterations, two sentences, the second file of scores turned round; one hypothesis comes twice."""

    def block(kind: bytes, sentence: int, names: bytes, rows: list[bytes]) -> bytes:
        width = len(rows[0].split())
        begin = b"%s_TXT_BEGIN_0 %d %d %d %s\n" % (kind, sentence, len(rows), width, names)
        return begin + b"".join(row + b"\n" for row in rows) + b"%s_TXT_END_0\n" % kind

    def counts(number: int) -> bytes:
        return b"%d 9 0 8 0 7 0 6 9" % number

    features = [
        block(b"FEATURES", 5, b"A_0", [b"1", b"2"]) + block(b"FEATURES", 3, b"A_0", [b"3"]),
        block(b"FEATURES", 3, b"A_0", [b"4"]) + block(b"FEATURES", 5, b"A_0", [b"2", b"6"]),
    ]
    scores = [
        block(b"SCORES", 5, b"BLEU", [counts(1), counts(2)])
        + block(b"SCORES", 3, b"BLEU", [counts(3)]),
        block(b"SCORES", 5, b"BLEU", [counts(2), counts(6)])
        + block(b"SCORES", 3, b"BLEU", [counts(4)]),
    ]
    for number in (0, 1):
        (tmp_path / f"f{number}").write_bytes(features[number])
        (tmp_path / f"s{number}").write_bytes(scores[number])
    pool = read_moses_pool([tmp_path / "f0", tmp_path / "f1"], [tmp_path / "s0", tmp_path / "s1"])
    assert pool.sentence_ids.tolist() == [3, 5]
    assert pool.offsets.tolist() == [0, 2, 5]
    assert pool.features[:, 0].tolist() == [3, 4, 1, 2, 6]
    assert pool.statistics[:, 0].tolist() == [3, 4, 1, 2, 6]


def test_sparse_features_belong_to_their_rows(tmp_path: Path) -> None:
    row = b"1 2 3 4 5 6 7 8 9\n"
    features = FEATURES.replace(b"0 0 1", b"0 0 3").replace(b"1 2\n", b"1 2\n3 4 S_x=0.5\n5 6 \n")
    (tmp_path / "f").write_bytes(features)
    (tmp_path / "s").write_bytes(SCORES.replace(b"0 0 1", b"0 0 3").replace(row, 3 * row))
    pool = read_moses_pool([tmp_path / "f"], [tmp_path / "s"])
    assert pool.names == ("A_0", "B_0", "S_x_0")
    assert pool.features.tolist() == [[1, 2, 0], [3, 4, 0.5], [5, 6, 0]]


def test_files_that_are_not_as_many_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(FEATURES)
    (tmp_path / "s").write_bytes(SCORES)
    with pytest.raises(ValueError, match="shorter"):
        read_moses_pool([tmp_path / "f", tmp_path / "f"], [tmp_path / "s"])


def test_a_start_of_another_width_is_refused(tmp_path: Path) -> None:
    for name, content in (("f", FEATURES), ("s", SCORES), ("init.opt", b"1\n0\n1\n")):
        (tmp_path / name).write_bytes(content)
    pool = read_moses_pool([tmp_path / "f"], [tmp_path / "s"])
    with pytest.raises(InputError, match=r"init\.opt:1: found 1 weights, expected 2, one for each"):
        read_start(tmp_path / "init.opt", pool)


def test_each_features_file_has_its_scores_file(tmp_path: Path) -> None:
    one, two = [tmp_path / "features.dat"], [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(ConfigError, match="1 --features and 2 --scores; they go in pairs"):
        optimize_files(one, two, tmp_path / "init.opt", "kbmira", OptimizerConfig())


def test_files_of_moses_are_optimised_on_as_their_pool(golden: Path) -> None:
    folder = golden / "mert"
    features, scores = [folder / "run1.features.dat.gz"], [folder / "run1.scores.dat.gz"]
    init, config = folder / "run1.init.opt", OptimizerConfig(frozen=("LM0_0",))
    pool = read_moses_pool(features, scores)
    start = read_start(init, pool)
    found = optimize_files(features, scores, init, "kbmira", config, 3, 2)
    assert found == load_optimizer("kbmira")(pool, start[None], config, 3, 1)
    assert found == optimize_files(features, scores, init, "kbmira", config, seed=3)
    assert found != optimize_files(features, scores, init, "kbmira", config)
    assert "LM0_0" in found.frozen
