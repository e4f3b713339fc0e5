from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.nbest import (
    check_feature_name,
    format_entry,
    parse_entry,
    parse_features,
    parse_segmentation,
    read_nbest,
)

LINE = b"3 ||| le chat .  ||| LM0= -7.25 TM0= -1 0 Sparse_a= 2 ||| -9.5"


def nbest(tmp_path: Path, *lines: bytes) -> Path:
    path = tmp_path / "nbest"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_an_entry_by_hand(tmp_path: Path) -> None:
    path = nbest(tmp_path, LINE, LINE + b" ||| 0-1=0-1 2=2 ||| 0-0 1-1 2-2 ")
    plain, full = read_nbest(path)
    assert (plain.sentence_id, plain.words, plain.total) == (3, b"le chat .", -9.5)
    assert (plain.rest, plain.line_number) == ((), 1)
    assert parse_features(plain, path) == {"LM0": (-7.25,), "TM0": (-1, 0), "Sparse_a": (2,)}
    assert list(parse_features(plain, path)) == ["LM0", "TM0", "Sparse_a"]
    assert (full.rest, full.line_number) == ((b"0-1=0-1 2=2", b"0-0 1-1 2-2 "), 2)


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        LINE + b" ||| 0-1=0-1 2=2 ||| 0-0 1-1 2-2 ",
        LINE + b" ||| ||| ",
        b"0 |||  ||| LM0= -1 ||| -1",
        b"0 ||| d\xe9j\xe0 \xc2\xa0 \xc2\x85  ||| LM0= -1 ||| -1e-05",
    ],
)
def test_lines_come_back(tmp_path: Path, line: bytes) -> None:
    (entry,) = read_nbest(nbest(tmp_path, line))
    assert format_entry(entry) == line


@pytest.mark.parametrize(
    "name", ["decode/nbest100.cube400.gz", "decode/nbest1.default200.gz", "mert/run2.best*.out.gz"]
)
def test_lists_of_moses_come_back(golden: Path, name: str) -> None:
    (path,) = golden.glob(name)
    n_features = {"LexicalReordering0": 6, "Distortion0": 1, "LM0": 1, "WordPenalty0": 1}
    n_features |= {"PhrasePenalty0": 1, "TranslationModel0": 4}
    for number, (line, entry) in enumerate(zip(read_lines(path), read_nbest(path), strict=True)):
        assert format_entry(entry) == line
        if number % 10 == 0:
            features = parse_features(entry, path)
            assert {name: len(values) for name, values in features.items()} == n_features


def test_totals_of_moses_are_the_weighted_sums(golden: Path) -> None:
    from moses_bridge.formats.moses_ini import read_ini

    weights = read_ini(golden / "decode" / "moses.ini").weights
    path = golden / "decode" / "nbest1.default200.gz"
    for entry in read_nbest(path):
        features = parse_features(entry, path)
        total = sum(
            weight * value
            for name, values in features.items()
            for weight, value in zip(weights[name], values, strict=True)
        )
        # -100 for each unknown word is in the total, but not among the features.
        unknown = -100 * round((total - entry.total) / 100)
        assert total + unknown == pytest.approx(entry.total, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"", "1 field,"),
        (b"0 ||| a ||| LM0= 1", "3 fields"),
        (b"x ||| a ||| LM0= 1 ||| 1", "the sentence id 'x '"),
        (b"-1 ||| a ||| LM0= 1 ||| 1", "the sentence id"),
        (b"0 ||| a ||| LM0= 1 ||| nan", "the value 'nan'"),
        (b"0 ||| a ||| LM0= 1 ||| 1_0", "the value '1_0'"),
        (b"0 ||| a ||| LM0= 1 ||| ", "the value ''"),
        (b"0 ||| a b |0-1| c |3-2| ||| LM0= 1 ||| 1", r"the mark '\|0-1\|' of a segmentation"),
        (
            b"0 ||| |2-2,wa=0-0,total=-1| ||| LM0= 1 ||| 1",
            r"the mark '\|2-2,' .* Decode without -t",
        ),
    ],
)
def test_faulty_lines_are_named(tmp_path: Path, line: bytes, found: str) -> None:
    path = nbest(tmp_path, LINE, line)
    with pytest.raises(InputError, match=found) as error:
        list(read_nbest(path))
    assert error.value.line == 2


@pytest.mark.parametrize(
    ("features", "found"),
    [
        (b"-1 0.5", "'-1' without a name"),
        (b"LM0= -1 TM0= 1 LM0= 2", "LM0 twice"),
        (b"LM0= nan", "'nan'"),
        (b"LM0= -inf", "'-inf'"),
        (b"LM0= x", "'x'"),
    ],
)
def test_faulty_features_are_named(tmp_path: Path, features: bytes, found: str) -> None:
    path = nbest(tmp_path, LINE, b"0 ||| a  ||| " + features + b" ||| 1")
    *_, entry = read_nbest(path)
    with pytest.raises(InputError, match=found) as error:
        parse_features(entry, path)
    assert error.value.line == 2


@pytest.mark.parametrize("name", ["LM0", "CSLM0", "x", "TranslationModel0"])
def test_names_that_moses_reads_are_taken(name: str) -> None:
    check_feature_name(name)


@pytest.mark.parametrize("name", ["", "CSLM_0", "0CSLM", "LM 0", "LM=", "Modèle0", "LM0\n", "٣"])
def test_names_that_moses_misreads_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="letters and digits"):
        check_feature_name(name)


def test_a_segmentation_by_hand(tmp_path: Path) -> None:
    """The second phrase has no words, which Moses prints as if it had one."""
    path = nbest(tmp_path, b"0 ||| a b c ||| LM0= -1 ||| -1 ||| 2-3=0-1 0=2 1=2 ||| 0-0 ")
    (entry,) = read_nbest(path)
    assert parse_segmentation(entry, 3, path) == [(2, 4, 0, 2), (0, 1, 2, 2), (1, 2, 2, 3)]


@pytest.mark.parametrize(
    "fields",
    [b"", b" ||| 0-0 1-1 ", b" ||| 0=1 1=2", b" ||| 0=2 1=0", b" ||| 0=0 1=4", b" ||| a=0"],
)
def test_a_segmentation_that_does_not_cover_the_words_is_refused(
    fields: bytes, tmp_path: Path
) -> None:
    path = nbest(tmp_path, b"0 ||| a b c ||| LM0= -1 ||| -1" + fields)
    (entry,) = read_nbest(path)
    with pytest.raises(InputError, match=r"nbest:1: found .* expected a segmentation as 0-1=0"):
        parse_segmentation(entry, 3, path)


def test_an_id_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InputError, match=r"nbest:3: .*expected a whole number from 0"):
        parse_entry(b"9" * 5000 + b" ||| a ||| LM0= 1 ||| 0", "nbest", 3)
