"""Pools of n-best lists and of Moses's files, with their sparse features."""

from __future__ import annotations

from collections.abc import Callable
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
    column_names,
    grouped_weights,
    is_sparse,
    make_pool,
    merge_pools,
    with_sparse,
)
from tuning.optimisers.pool_reader import read_pool
from tuning.optimisers.pro import optimize_pro

GOOD = b"0 ||| a b  ||| D0= -1 LM0= -2.5 -3 ||| -1.5\n"
NAMES = ("D0_0", "LM0_0", "LM0_1")


@pytest.fixture
def nbest(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: bytes) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.nbest"
        path.write_bytes(b"".join(lines))
        return path

    return write


def rows(pool: NBestPool) -> list[list[tuple[float, ...]]]:
    """Hypotheses of each sentence, in no order of their own."""
    table = np.column_stack([pool.features, pool.statistics])
    return [
        sorted(map(tuple, table[first:last].tolist()))
        for first, last in zip(pool.offsets[:-1], pool.offsets[1:], strict=True)
    ]


def test_nbest_list_and_mosess_files_make_the_same_pool(golden: Path) -> None:
    folder = golden / "mert"
    references = References.read([folder / "reference.fr"])
    ours = read_pool(list(folder.glob("run1.best*.out.gz")), references)
    theirs = read_moses_pool([folder / "run1.features.dat.gz"], [folder / "run1.scores.dat.gz"])
    assert ours.names == theirs.names
    assert ours.sentence_ids.tolist() == theirs.sentence_ids.tolist()
    assert rows(ours) == rows(theirs)


def test_names_and_values_stand_in_the_order_of_the_list(nbest: Callable[..., Path]) -> None:
    pool = read_pool([nbest(GOOD, GOOD.replace(b"-3", b"4e1"))], References([[b"a b"]]))
    assert pool.names == NAMES
    assert pool.features.tolist() == [[-1, -2.5, -3], [-1, -2.5, 40]]
    assert pool.statistics.tolist() == [[2, 2, 1, 1, 0, 0, 0, 0, 2]] * 2


@pytest.mark.parametrize("line", [GOOD.replace(b"a b  ", b""), GOOD.replace(b" ||| ", b"|||")])
def test_fields_end_at_bare_bars_as_moses_splits_them(
    nbest: Callable[..., Path], line: bytes
) -> None:
    words = b"a b" if b"a b" in line else b""
    pool = read_pool([nbest(line)], References([[b"a b"]]))
    assert pool.features.tolist() == [[-1, -2.5, -3]]
    assert pool.statistics[0, 1] == len(words.split())


def test_lists_are_merged_by_sentence_and_lose_copies_alone(nbest: Callable[..., Path]) -> None:
    references = References([[b"a b"], [b"c"], [b"d"]])
    third = GOOD.replace(b"0 |||", b"2 |||")
    other_words = GOOD.replace(b"a b", b"a c")
    first, second = nbest(third, GOOD), nbest(GOOD, other_words, third)
    merged = read_pool([first, second], references)
    assert merged.sentence_ids.tolist() == [0, 2]
    assert merged.offsets.tolist() == [0, 2, 3]
    both = merge_pools(read_pool([first], references), read_pool([second], references))
    assert rows(both) == rows(merged)


def test_negative_zero_is_zero_when_copies_are_sought() -> None:
    features = np.array([[0.0], [-0.0]])
    pool = make_pool(("A_0",), np.zeros(2, np.int64), features, np.zeros((2, 9), np.int32))
    assert len(pool) == 1


def test_small_values_that_differ_are_no_copies() -> None:
    features = np.array([[1e-20], [2e-20]])
    pool = make_pool(("A_0",), np.zeros(2, np.int64), features, np.zeros((2, 9), np.int32))
    assert len(pool) == 2


def test_copies_are_found_among_many() -> None:
    values = np.arange(100.0)[:, None]
    features = np.concatenate([values, values[::-1] * np.where(values[::-1] == 0, -1.0, 1.0)])
    pool = make_pool(("A_0",), np.zeros(200, np.int64), features, np.zeros((200, 9), np.int32))
    assert pool.features[:, 0].tolist() == values[:, 0].tolist()


def test_best_is_the_first_with_the_highest_score() -> None:
    features = np.array([[1.0, 0], [3, 0], [3, 1], [0, 5], [0, 4]])
    ids = np.array([0, 0, 0, 4, 4])
    statistics = np.arange(45).reshape(5, 9).astype(np.int32)
    pool = make_pool(("A_0", "B_0"), ids, features, statistics)
    assert pool.best(np.array([1.0, 0])).tolist() == [1, 3]
    assert pool.best(np.array([0.0, -1])).tolist() == [0, 4]
    assert (
        pool.statistics_of(np.array([1.0, 0])).tolist() == (statistics[1] + statistics[3]).tolist()
    )


def test_constant_columns_are_those_that_vary_in_no_sentence() -> None:
    features = np.array([[1.0, 0, 7], [2, 0, 7], [1, 5, 7], [1, 5, 8]])
    pool = make_pool(
        ("A_0", "B_0", "C_0"), np.array([0, 0, 1, 1]), features, np.zeros((4, 9), np.int32)
    )
    assert pool.constant.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GOOD.replace(b"-2.5", b"nan"), r":2: found the value 'nan', expected a finite number"),
        (GOOD.replace(b"-2.5", b"-inf"), r":2: found the value '-inf'"),
        (GOOD.replace(b"-2.5", b"2,5"), r":2: found the value '2,5'"),
        (
            GOOD.replace(b" -3", b""),
            r":2: found the features D0_0, LM0_0, expected D0_0, LM0_0, LM",
        ),
        (GOOD.replace(b"LM0=", b"LM1="), r":2: found the features D0_0, LM1_0, LM1_1"),
        (GOOD.replace(b"D0=", b"LM0="), r":2: found LM0 twice"),
        (GOOD.replace(b"D0= ", b""), r":2: found the value '-1' without a name"),
        (GOOD.replace(b"0 |||", b"x |||"), r":2: found the sentence id 'x"),
        (GOOD.replace(b"0 |||", b"1 |||"), r":2: found sentence 1, expected at most 0"),
        (GOOD.replace(b"D0= -1", b"d: -1"), r":2: found the value 'd:' without a name"),
        (
            GOOD.replace(b"-2.5 -3", b"-2.5 -3 -4"),
            r":2: found the features D0_0, LM0_0, LM0_1, LM0_2",
        ),
        (GOOD.replace(b"D0= -1 LM0= -2.5 -3", b"LM0= -2.5 -3 D0= -1"), r":2: found .* LM0_1, D0_0"),
        (GOOD.replace(b"-2.5", b"--"), r":2: found the value '--', expected a finite number"),
        (GOOD.replace(b"0 |||", b"-1 |||"), r":2: found the sentence id '-1"),
        (GOOD.replace(b"a b", b"a ||| b"), r":2: found "),
        (b"0 ||| a b\n", r":2: found 2 field"),
        (b"0 ||| a b ||| D0= -1 LM0= -2.5 -3\n", r":2: found 3 field"),
        (b"0 ||| a b ||| WT_a= x\n", r":2: found 3 field"),
        (b"\n", r":2: found 1 field"),
        (
            GOOD.replace(b"a b", b"a |0-1| b |2-2|"),
            r":2: found the mark '\|0-1\|' of a segmentation",
        ),
    ],
)
def test_faults_are_told_with_their_line(
    nbest: Callable[..., Path], line: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_pool([nbest(GOOD, line)], References([[b"a b"]]))


def test_the_first_faulty_value_is_told(nbest: Callable[..., Path]) -> None:
    faulty = [GOOD.replace(b"-2.5", value) for value in (b"nan", b"inf")]
    with pytest.raises(InputError, match=":2: found the value 'nan'"):
        read_pool([nbest(GOOD, *faulty)], References([[b"a b"]]))


def test_a_list_may_have_one_feature(nbest: Callable[..., Path]) -> None:
    pool = read_pool([nbest(b"0 ||| a b ||| D0= -1 ||| -1\n")], References([[b"a b"]]))
    assert (pool.names, pool.features.tolist()) == (("D0_0",), [[-1.0]])


def test_iterations_must_have_the_same_features(nbest: Callable[..., Path]) -> None:
    other = GOOD.replace(b" -3", b"")
    with pytest.raises(InputError, match=r"1.nbest:1: found the features D0_0, LM0_0, expected"):
        read_pool([nbest(GOOD), nbest(other)], References([[b"a b"]]))


def test_a_list_without_hypotheses_is_refused_alone_but_not_beside_another(
    nbest: Callable[..., Path],
) -> None:
    references = References([[b"a b"]])
    with pytest.raises(InputError, match="found no hypothesis"):
        read_pool([nbest()], references)
    assert len(read_pool([nbest(), nbest(GOOD)], references)) == 1


def test_column_names_and_grouped_weights_are_reverse() -> None:
    names = column_names({"LM0": 2, "My_Feature0": 1})
    assert names == ("LM0_0", "LM0_1", "My_Feature0_0")
    grouped = grouped_weights(dict(zip(names, (0.1, 0.2, 0.3), strict=True)))
    assert grouped == {"LM0": [0.1, 0.2], "My_Feature0": [0.3]}


def test_pools_with_other_features_do_not_merge() -> None:
    pools = [
        make_pool((name,), np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros((1, 9), np.int32))
        for name in ("A_0", "B_0")
    ]
    with pytest.raises(ValueError, match="pools with other features"):
        merge_pools(*pools)


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
SPARSE_NAMES = ("LM0_0", "LM0_1", "WT_a~b_0", "WT_b~c_0")
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
        assert pool.names == SPARSE_NAMES
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
        assert (pool.names, pool.features.tolist()) == (SPARSE_NAMES, VALUES)


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
