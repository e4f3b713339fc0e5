from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.tuning_data import DataBlock, read_features, read_init_opt, read_scores

FEATURES = """\
FEATURES_TXT_BEGIN_0 3 2 3 LM0_0 TM0_0 TM0_1
-1.5 0 2e-05
-2 -0.25 7
FEATURES_TXT_END_0
FEATURES_TXT_BEGIN_0 9 0 3 LM0_0 TM0_0 TM0_1
FEATURES_TXT_END_0
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "data"
    path.write_text(text)
    return path


def lines_of(blocks: Iterable[DataBlock], kind: bytes, behind_names: bytes) -> Iterator[bytes]:
    """The lines of a file as Moses's extractor prints them."""
    for block in blocks:
        header = b"%s_TXT_BEGIN_0 %d %d %d " % (kind, block.sentence_id, *block.values.shape)
        yield header + " ".join(block.names).encode() + behind_names
        yield from (b"%g " * len(row) % tuple(row) for row in block.values.tolist())
        yield kind + b"_TXT_END_0"


def test_features_by_hand(tmp_path: Path) -> None:
    first, second = read_features(written(tmp_path, FEATURES))
    assert (first.sentence_id, first.line_number) == (3, 1)
    assert first.names == ("LM0_0", "TM0_0", "TM0_1")
    assert first.values.tolist() == [[-1.5, 0, 2e-05], [-2, -0.25, 7]]
    assert (second.sentence_id, second.line_number, second.values.shape) == (9, 5, (0, 3))


@pytest.mark.parametrize(
    ("old", "new", "line", "found"),
    [
        ("FEATURES_TXT_BEGIN_0 3", "FEATURES_BIN_BEGIN_0 3", 1, "FEATURES_BIN"),
        ("BEGIN_0 3", "BEGIN_0 three", 1, "three"),
        (" 0 2e-05", " 0", 2, "2 values"),
        ("-0.25", "nan", 3, "not finite"),
        ("-0.25", "x", 3, "'x'"),
        ("0 3 2 3", "0 3 1 3", 3, "-2 -0.25 7"),
        ("0 9 0 3", "0 9 1 3", 6, "1 value"),
        ("FEATURES_TXT_END_0\nFEATURES_TXT_BEGIN_0 9", "FEATURES_TXT_BEGIN_0 9", 4, "BEGIN_0 9"),
    ],
)
def test_malformed_features(tmp_path: Path, old: str, new: str, line: int, found: str) -> None:
    assert old in FEATURES
    path = written(tmp_path, FEATURES.replace(old, new, 1))
    with pytest.raises(InputError, match=found) as error:
        list(read_features(path))
    assert error.value.line == line


def test_a_file_that_ends_too_early(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(FEATURES.splitlines(keepends=True)[:2]))
    with pytest.raises(
        InputError, match="the end of the file, expected FEATURES_TXT_END_0"
    ) as error:
        list(read_features(path))
    assert error.value.line == 3


@pytest.mark.parametrize("run", ["run1", "run2"])
def test_files_of_mosess_extractor_are_read_to_the_last_digit(golden: Path, run: str) -> None:
    features, scores = (golden / "mert" / f"{run}.{kind}.dat.gz" for kind in ("features", "scores"))
    feature_blocks, score_blocks = list(read_features(features)), list(read_scores(scores))
    assert list(lines_of(feature_blocks, b"FEATURES", b" ")) == list(read_lines(features))
    assert list(lines_of(score_blocks, b"SCORES", b"")) == list(read_lines(scores))
    assert {block.values.shape[1] for block in feature_blocks} == {14}
    assert {(block.values.shape[1], block.names) for block in score_blocks} == {(9, ("BLEU",))}
    assert [len(block.values) for block in feature_blocks] == [
        len(block.values) for block in score_blocks
    ]


def test_init_opt(golden: Path) -> None:
    start, lowest, highest = read_init_opt(golden / "mert" / "run1.init.opt")
    assert start.tolist() == [0.3] * 7 + [0.5, -1] + [0.2] * 5
    assert lowest.tolist() == [0] * 14
    assert highest.tolist() == [1] * 14


@pytest.mark.parametrize(
    ("text", "found"),
    [("1 2\n0 0\n", "2 lines"), ("1 2\n0 0\n1 1 1\n", "3 values"), ("1\n0\ninf\n", "not finite")],
)
def test_malformed_init_opt(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(InputError, match=found):
        read_init_opt(written(tmp_path, text))
