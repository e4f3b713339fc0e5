"""Sparse features: kept as columns from both kinds of file, tuned by the optimisers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.formats.tuning_data import read_features
from tuning.metrics.bleu import References
from tuning.optimisers.contract import OptimizerConfig
from tuning.optimisers.moses_files import read_moses_pool, read_start
from tuning.optimisers.nbest_pool import (
    MAX_FEATURES,
    NBestPool,
    is_sparse,
    merge_pools,
    with_sparse,
)
from tuning.optimisers.pool_reader import read_pool
from tuning.optimisers.pro import optimize_pro

NBEST = b"""\
0 ||| a b  ||| LM0= -1 -2 WT_b~c= 1 ||| 0
0 ||| a c  ||| LM0= -1 -3 ||| 0
1 ||| a  ||| WT_a~b= 0.5 LM0= -2 -2 WT_b~c= -1 ||| 0
"""
FEATURES = b"""\
FEATURES_TXT_BEGIN_0 0 2 2 LM0_0 LM0_1 \n-1 -2 WT_b~c=1 \n-1 -3 \nFEATURES_TXT_END_0
FEATURES_TXT_BEGIN_0 1 1 2 LM0_0 LM0_1 \n-2 -2 WT_a~b=0.5 WT_b~c=-1 \nFEATURES_TXT_END_0
"""
SCORES = b"""\
SCORES_TXT_BEGIN_0 0 2 9 BLEU\n2 2 1 1 0 0 0 0 2\n1 2 0 1 0 0 0 0 2\nSCORES_TXT_END_0
SCORES_TXT_BEGIN_0 1 1 9 BLEU\n1 1 0 0 0 0 0 0 1\nSCORES_TXT_END_0
"""
NAMES = ("LM0_0", "LM0_1", "WT_a~b_0", "WT_b~c_0")
VALUES = [[-1, -2, 0, 1], [-1, -3, 0, 0], [-2, -2, 0.5, -1]]


@pytest.fixture
def references() -> References:
    return References([[b"a b"], [b"a"]])


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def moses_pool(folder: Path, features: bytes = FEATURES, scores: bytes = SCORES) -> NBestPool:
    return read_moses_pool([written(folder / "f", features)], [written(folder / "s", scores)])


def test_nbest_list_and_mosess_files_have_the_same_columns(
    tmp_path: Path, references: References
) -> None:
    for pool in (read_pool([written(tmp_path / "n", NBEST)], references), moses_pool(tmp_path)):
        assert pool.names == NAMES
        assert pool.features.tolist() == VALUES
        assert pool.statistics[:, 0].tolist() == [2, 1, 1]


def test_sparse_features_of_features_dat_are_behind_the_columns(tmp_path: Path) -> None:
    blocks = list(read_features(written(tmp_path / "f", FEATURES)))
    assert [block.sparse for block in blocks] == [
        ((0, "WT_b~c", 1.0),),
        ((0, "WT_a~b", 0.5), (0, "WT_b~c", -1.0)),
    ]


def test_a_sparse_feature_may_be_in_one_iteration_alone(
    tmp_path: Path, references: References
) -> None:
    first, second = NBEST.splitlines(keepends=True)[:2], NBEST.splitlines(keepends=True)[2:]
    paths = [
        written(tmp_path / name, b"".join(part)) for name, part in (("1", first), ("2", second))
    ]
    merged = merge_pools(*(read_pool([path], references) for path in paths))
    for pool in (merged, read_pool(paths, references)):
        assert (pool.names, pool.features.tolist()) == (NAMES, VALUES)


def test_sparse_features_start_at_0_and_are_tuned(tmp_path: Path) -> None:
    right, wrong = b"5 5 4 4 3 3 2 2 5", b"3 5 1 4 1 3 1 2 5"
    scores = SCORES.replace(b"2 2 1 1 0 0 0 0 2", right).replace(b"1 2 0 1 0 0 0 0 2", wrong)
    pool = moses_pool(tmp_path, scores=scores.replace(b"1 1 0 0 0 0 0 0 1", right))
    start = read_start(written(tmp_path / "init.opt", b"0.1 -0.9\n0 0\n1 1\n"), pool)
    assert start.tolist() == [0.1, -0.9, 0, 0]
    result = optimize_pro(pool, start[None], OptimizerConfig(), 1, 1)
    assert result.frozen == ("LM0_0", "WT_a~b_0")
    assert result.weights["WT_b~c_0"] > 0


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (b"WT_b~c= 1 2", r":1: found 2 values of WT_b~c, expected 1\. Moses takes .* sparse"),
        (b"WT_b~c=", r":1: found 0 values of WT_b~c, expected 1"),
        (b"WT_b~c= x", r":1: found the value 'x', expected a finite number"),
        (b"WT_b~c= inf", r":1: found the value 'inf', expected a finite number"),
        (b"WT_b~c= 1 WT_b~c= 1", r":1: found WT_b~c twice, expected each feature once"),
    ],
)
def test_malformed_sparse_features_of_a_list(
    tmp_path: Path, references: References, features: bytes, message: str
) -> None:
    nbest = written(tmp_path / "n", NBEST.replace(b"WT_b~c= 1 |||", features + b" |||"))
    with pytest.raises(InputError, match=message):
        read_pool([nbest], references)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"WT_b~c=x", r"f:2: found could not convert .*, expected numbers"),
        (b"WT_b~c=nan", r"f:2: found a value that is not finite"),
        (b"WT_b~c", r"f:2: found 3 values, expected 2"),
    ],
)
def test_malformed_sparse_features_of_features_dat(
    tmp_path: Path, value: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        moses_pool(tmp_path, FEATURES.replace(b"WT_b~c=1", value))


@pytest.mark.parametrize(
    ("column", "found"), [("WT_le~the_0", True), ("LM0_0", False), ("a_b_c_1", True), ("x", False)]
)
def test_a_sparse_feature_has_a_further_underscore(column: str, found: bool) -> None:
    assert is_sparse(column) == found


def test_too_many_sparse_features_are_refused() -> None:
    sparse = [(0, f"WT_{number}", 1.0) for number in range(MAX_FEATURES + 1)]
    names, values = with_sparse(("LM0_0",), np.ones((1, 1)), sparse[1:], "list")
    assert (len(names), values.shape) == (1001, (1, 1001))
    with pytest.raises(InputError, match="found 1001 sparse features, expected at most 1000"):
        with_sparse(("LM0_0",), np.ones((1, 1)), sparse, "list")
