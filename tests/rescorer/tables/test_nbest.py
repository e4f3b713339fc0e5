from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import rescorer.tables.nbest
from moses_bridge.base import progress
from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.nbest import parse_features, read_nbest, with_feature
from moses_bridge.formats.nbest_lists import read_list
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.scorer import Scorer
from rescorer.models.scorer_choice import RandomScorer
from rescorer.tables.line_settings import ListSettings
from rescorer.tables.nbest import add_feature

SOURCE = b"zero\nun e\ntwo\n"
NBEST = b"""\
2 ||| a b  ||| LM0= -1.5 TM0= -1 -2e-05 ||| -3.25 ||| 0=0 ||| 0-0 \r
2 ||| a b  ||| LM0= -1.5 TM0= -2 -2 ||| -4
0 ||| c ||| LM0= -0  ||| 1e-7
2 |||   ||| LM0= 1 ||| 0
"""


class LengthsInThousands:
    """1000 x words of the source + words of the target."""

    shortlist = None
    needs_links = False

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bytes]] = []

    def values(self, batch: Batch) -> NDArray[np.float64]:
        assert batch.links is None
        pairs = list(zip(batch.sources, batch.targets, strict=True))
        self.seen += pairs
        return np.array([1000.0 * len(s.split()) + len(t.split()) for s, t in pairs])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(SOURCE)
    return path


def written(nbest: bytes, source: Path, scorer: Scorer, name: str = "RNN0") -> bytes:
    path, out = source.parent / "nbest", source.parent / "out"
    path.write_bytes(nbest)
    add_feature(str(path), source, scorer, name, str(out))
    return out.read_bytes()


def test_feature_is_appended_and_all_else_stays(source: Path) -> None:
    assert (
        written(NBEST, source, LengthsInThousands())
        == b"""\
2 ||| a b  ||| LM0= -1.5 TM0= -1 -2e-05 RNN0= 1002.000000 ||| -3.25 ||| 0=0 ||| 0-0 \r
2 ||| a b  ||| LM0= -1.5 TM0= -2 -2 RNN0= 1002.000000 ||| -4
0 ||| c ||| LM0= -0 RNN0= 1001.000000  ||| 1e-7
2 |||   ||| LM0= 1 RNN0= 1000.000000 ||| 0
"""
    )


def test_a_second_feature_has_the_values_per_word(source: Path) -> None:
    path, out = source.parent / "nbest", source.parent / "out"
    path.write_bytes(NBEST)
    scorer = LengthsInThousands()
    add_feature(str(path), source, scorer, "RNN0", str(out), per_word_feature="RNN1")
    found = [parse_features(entry, str(out)) for entry in read_nbest(out)]
    assert [features["RNN0"] for features in found] == [(1002,), (1002,), (1001,), (1000,)]
    assert [features["RNN1"] for features in found] == [(334,), (334,), (500.5,), (1000,)]
    assert len(scorer.seen) == 3
    with pytest.raises(ConfigError, match="two features of the name RNN2"):
        add_feature(str(path), source, scorer, "RNN2", str(out), per_word_feature="RNN2")
    with pytest.raises(InputError, match="the feature LM0"):
        add_feature(str(path), source, scorer, "RNN2", str(out), per_word_feature="LM0")


def test_values_by_the_word_count_the_end(source: Path) -> None:
    path, out = source.parent / "nbest", source.parent / "out"
    path.write_bytes(NBEST)
    add_feature(str(path), source, LengthsInThousands(), "RNN0", str(out), per_word=True)
    found = [parse_features(entry, str(out)) for entry in read_nbest(out)]
    assert [features["RNN0"] for features in found] == [(334,), (334,), (500.5,), (1000,)]


def test_equal_hypotheses_of_a_sentence_are_scored_once(source: Path) -> None:
    scorer = LengthsInThousands()
    written(NBEST, source, scorer)
    assert scorer.seen == [(b"two", b"a b"), (b"zero", b"c"), (b"two", b"")]


@pytest.mark.parametrize("entries_at_once", [1, 2, 100])
def test_blocks_do_not_matter(
    source: Path, monkeypatch: pytest.MonkeyPatch, entries_at_once: int
) -> None:
    expected = written(NBEST, source, LengthsInThousands())
    monkeypatch.setattr(rescorer.tables.nbest, "ENTRIES_AT_ONCE", entries_at_once)
    assert written(NBEST, source, LengthsInThousands()) == expected


def test_list_of_moses(golden: Path, tmp_path: Path) -> None:
    nbest, source = golden / "decode" / "nbest100.cube400.gz", golden / "decode" / "input.en"
    out = tmp_path / "out.gz"
    n_entries = add_feature(str(nbest), source, RandomScorer(7), "CSLM0", str(out))
    old = gzip.decompress(nbest.read_bytes()).split(b"\n")
    new = gzip.decompress(out.read_bytes()).split(b"\n")
    assert n_entries == len(old) - 1 == len(new) - 1
    sentences = source.read_bytes().split(b"\n")
    for before, after in zip(old[:-1:50], new[:-1:50], strict=True):
        fields = before.split(b" ||| ")
        value = RandomScorer(7).values(Batch([sentences[int(fields[0])]], [fields[1].rstrip()]))[0]
        fields[2] += b" CSLM0= %.6f" % value
        assert after == b" ||| ".join(fields)
    assert all(entry.features.count(b"CSLM0=") == 1 for entry in read_nbest(out))


class Links:
    """The number of links; each pair is asked for once."""

    shortlist = None
    needs_links = True

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bytes, bytes]] = []

    def values(self, batch: Batch) -> NDArray[np.float64]:
        assert batch.links is not None
        self.seen += zip(batch.sources, batch.targets, batch.links, strict=True)
        return np.array([float(len(links.split())) for links in batch.links])


def test_links_are_the_last_field_of_an_entry_and_missing_ones_are_counted(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(progress._VISIBLE, "progress", False)  # as by --quiet
    nbest = b"""\
0 ||| a b ||| LM0= 1 ||| 1 ||| 0-0 1-1 2-1
0 ||| a b ||| LM0= 1 ||| 1 ||| 0-0 \r
0 ||| a b ||| LM0= 1 ||| 1 ||| 0=0 ||| 0-0
1 ||| a b ||| LM0= 1 ||| 1 |||
"""
    scorer = Links()
    values = [float(line.split()[8]) for line in written(nbest, source, scorer).split(b"\n")[:-1]]
    assert values == [3, 1, 1, 0]
    note = capsys.readouterr().err.splitlines()[-1]
    assert note.startswith(
        "note: RNN0: 1 of 4 hypotheses have no word links, and 2 of the 6 words of the others: "
    )
    assert "an NNJM reads the source words at the same relative places for the former" in note
    assert scorer.seen == [
        (b"zero", b"a b", b"0-0 1-1 2-1"),
        (b"zero", b"a b", b"0-0"),
        (b"un e", b"a b", b""),
    ]


def test_nothing_is_said_of_whole_links_and_of_hypotheses_without_words(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(b"0 ||| a ||| A= 1 ||| 1 ||| 0-0\n0 ||| ||| A= 1 ||| 1 |||\n", source, Links())
    assert "note: " not in capsys.readouterr().err


@pytest.mark.parametrize("field", [b"0=0", b"0-0,1-1", b"0", b"-1-0", b"0-0  1-1x"])
def test_entries_without_links_are_refused(source: Path, field: bytes) -> None:
    nbest = b"0 ||| a ||| LM0= 1 ||| 1 ||| 0-0\n0 ||| a ||| LM0= 1 ||| 1 ||| " + field + b"\n"
    with pytest.raises(InputError, match="--print-alignment-info-in-n-best") as caught:
        written(nbest, source, Links())
    assert caught.value.line == 2
    del caught  # and the frames in it, so that the file in them is closed now
    assert not (source.parent / "out").exists()


@pytest.mark.parametrize("value", [-1e-9, -123456.789, -1e6, 0.0])
def test_values_are_plain_decimals(value: float) -> None:
    line = with_feature(b"0 ||| a ||| LM0= 1 ||| 0", "A", value)
    text = line.split(b" ||| ")[2].split()[-1]
    assert b"e" not in text and abs(float(text) - value) <= 5e-7


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"0 ||| ||| LM0= 1 ||| 0", b"0 ||| ||| LM0= 1 A= -2.000000 ||| 0"),
        (b"0|||a|||LM0= 1|||0|||0=0", b"0|||a|||LM0= 1 A= -2.000000|||0|||0=0"),
    ],
)
def test_fields_end_at_bare_bars_as_moses_splits_them(line: bytes, expected: bytes) -> None:
    assert with_feature(line, "A", -2.0) == expected


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        with_feature(b"0 ||| a ||| LM0= 1 ||| 0", "A", value)


@pytest.mark.parametrize("name", ["", "RNN_0", "0RNN", "RNN=", "é", "a b"])
def test_names_that_moses_misreads_are_refused(source: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="letters and digits"):
        written(NBEST, source, LengthsInThousands(), name)


@pytest.mark.parametrize(
    ("nbest", "line", "found"),
    [
        (b"0 ||| a ||| LM0= 1 ||| 0\n3 ||| a ||| LM0= 1 ||| 0\n", 2, "sentence id 3"),
        (b"0 ||| a ||| RNN0= 1 ||| 0\n", 1, "feature RNN0"),
        (b"0 ||| a ||| LM0= 1\n", 1, "3 fields"),
        (b"x ||| a ||| LM0= 1 ||| 0\n", 1, "sentence id"),
        (b"0 ||| a ||| LM0= nan ||| 0\n", 1, "value"),
    ],
)
def test_bad_entries_are_refused(source: Path, nbest: bytes, line: int, found: str) -> None:
    with pytest.raises(InputError, match=found) as caught:
        written(nbest, source, LengthsInThousands())
    assert caught.value.line == line
    del caught  # and the frames in it, so that the file in them is closed now
    assert not (source.parent / "out").exists()


class Phrases(LengthsInThousands):
    """A model of targets of one word."""

    def values(self, batch: Batch) -> NDArray[np.float64]:
        for row, target in enumerate(batch.targets):
            if len(target.split()) > 1:
                raise UnscorablePair(row, batch, "target", "2 words", "at most 1", "Leave it out")
        return super().values(batch)


def test_a_sentence_that_cannot_be_scored_is_refused_with_its_line_and_the_hint_of_its_scorer(
    source: Path,
) -> None:
    message = r"nbest:3: found 2 words on the target side, expected at most 1. Leave it out; with --skip-bad"
    with pytest.raises(InputError, match=message):
        written(b"0 ||| c ||| ||| 1\n0 ||| d ||| ||| 1\n1 ||| a b ||| ||| 1\n", source, Phrases())


class Diverged(LengthsInThousands):
    """What a network becomes whose training diverged: it has no number for one of the targets."""

    def values(self, batch: Batch) -> NDArray[np.float64]:
        values = super().values(batch)
        values[[target == b"c d" for target in batch.targets]] = np.nan
        return values


def test_a_score_that_is_no_number_is_refused_with_its_line(source: Path) -> None:
    lines = [b"0 ||| a ||| A= 1 ||| -1", b"0 ||| c d ||| A= 1 ||| -1", b"1 ||| c d ||| A= 1 ||| -1"]
    with pytest.raises(InputError, match=r":2: found the score nan, expected a finite score"):
        written(b"".join(line + b"\n" for line in lines), source, Diverged())


MARIAN = b"""\
0 ||| c ||| 0-0 ||| WordScores= -0.1 -0.2 ||| F0= -1.25 F1= -2 ||| -0.8
2 ||| a b ||| F0=-1.25 ||| -1.3
"""
FAIRSEQ = b"S-0\tzero\nH-0\t-0.5\tc\nS-2\ttwo\nH-2\t-0.5\ta b\nD-2\t-0.5\ta b\n"
JSON = """\
{"id": 0, "hypotheses": [{"features": {"LM0": -1.5}, "text": "c"}], "source": "\u00e9"}
{"id": 2, "hypotheses": [{"text": "a b"}, {"text": "", "features": {}}]}
"""


@pytest.mark.parametrize(
    ("form", "nbest", "expected"),
    [
        (
            "marian",
            MARIAN,
            MARIAN.replace(b"F1= -2", b"F1= -2 A= 1001.000000").replace(
                b"F0=-1.25", b"F0=-1.25 A= 1002.000000"
            ),
        ),
        (
            "joshua",
            b"0 ||| c ||| lm_0=-3.0 ||| -3.0\n",
            b"0 ||| c ||| lm_0=-3.0 A= 1001.000000 ||| -3.0\n",
        ),
        (
            "fairseq",
            FAIRSEQ,
            b"0 ||| c  ||| Score0= -0.34657359 A= 1001.000000 ||| -0.346574\n"
            b"2 ||| a b  ||| Score0= -0.34657359 A= 1002.000000 ||| -0.346574\n",
        ),
        (
            "jsonl",
            JSON.encode(),
            JSON.replace("-1.5", '-1.5, "A": 1001.0')
            .replace('"a b"', '"a b", "features": {"A": 1002.0}')
            .replace("{}", '{"A": 1000.0}')
            .encode(),
        ),
        (
            "sockeye",
            b'{"scores": [0.5, 2], "translations": ["c", "a b"]}\n{"translation": "d", "score": 1}\n',
            b'{"scores": [0.5, 2], "translations": ["c", "a b"], "features": [{"A": 1001.0}, {"A": 1002.0}]}\n'
            b'{"translation": "d", "score": 1, "features": [{"A": 2001.0}]}\n',
        ),
        (
            "plain",
            b"c\na b\n",
            b"0 ||| c  ||| A= 1001.000000  ||| 0\n0 ||| a b  ||| A= 1002.000000  ||| 0\n",
        ),
    ],
)
def test_a_list_of_another_program_keeps_its_format(
    source: Path, form: ListFormat, nbest: bytes, expected: bytes
) -> None:
    path, out = source.parent / "nbest", source.parent / "out"
    path.write_bytes(nbest)
    settings = ListSettings(form, 2 if form == "plain" else 0)
    add_feature(str(path), source, LengthsInThousands(), "A", str(out), settings=settings)
    assert out.read_bytes() == expected
    again = read_list(out, "moses" if form in ("fairseq", "plain") else form)
    given = read_list(path, form, settings.list_size)
    assert [entry.words for entry in again] == [entry.words for entry in given]


@pytest.mark.parametrize("number", ["1e400", "NaN", "[-Infinity]"])
def test_no_list_of_json_gets_what_json_lacks(source: Path, number: str) -> None:
    path, out = source.parent / "nbest", source.parent / "out"
    path.write_text(JSON.replace('{"id": 0', f'{{"other": {number}, "id": 0'))
    with pytest.raises(InputError, match="nbest:1: found a number that is not finite"):
        add_feature(
            str(path), source, LengthsInThousands(), "A", str(out), settings=ListSettings("jsonl")
        )
    assert not out.exists()


class NoSingleWords(LengthsInThousands):
    """Refuses targets of one word, and has no number for those of three."""

    def values(self, batch: Batch) -> NDArray[np.float64]:
        for row, target in enumerate(batch.targets):
            if len(target.split()) == 1:
                raise UnscorablePair(row, batch, "target", "1 word", "2", "Leave it out")
        values = super().values(batch)
        values[[len(target.split()) == 3 for target in batch.targets]] = np.nan
        return values


def test_hypotheses_without_a_value_get_the_least_one_of_their_sentence(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [(2, "a b c d"), (2, "a"), (2, "a b"), (0, "a b c"), (1, "a b c d e"), (2, "a")]
    nbest, out = source.parent / "nbest", source.parent / "out"
    nbest.write_text("".join(f"{at} ||| {words} ||| ||| 0\n" for at, words in lines))
    given = (str(nbest), source, NoSingleWords(), "A", str(out), 1, "B")
    add_feature(*given, settings=ListSettings(skip_bad=3))
    found = [parse_features(entry, out) for entry in read_nbest(out)]
    assert [row["A"][0] for row in found] == [1004, 1002, 1002, 1002, 2005, 1002]
    assert [row["B"][0] for row in found] == pytest.approx(
        [1004 / 5, 1004 / 5, 1002 / 3, 1004 / 5, 2005 / 6, 1004 / 5]
    )
    told = capsys.readouterr().err
    assert "nbest:2: found 1 word on the target side" in told and "nbest:6: found 1 word" in told
    assert "nbest:4: found the score nan" in told
    assert "A: 3 of 6 hypotheses have the least value of their sentence" in told
    with pytest.raises(InputError, match="nbest:6: found 1 word"):
        add_feature(*given, settings=ListSettings(skip_bad=2))


JSON_OF_BAD = """\
{"hypotheses": [{"text": "a"}, {"text": "a b"}, {"text": "a b c d"}], "scores": [1, 2, 3]}
{"hypotheses": [{"text": "a"}]}
"""
SOCKEYE_OF_BAD = """\
{"translations": ["a", "a b", "a b c d"], "scores": [1, 2, 3], "tags": [1, 2, 3], \
"features": [{}, {}, {"B": 1}]}
{"translation": "a", "score": 1}
"""


@pytest.mark.parametrize(
    ("form", "nbest", "expected"),
    [
        (
            "moses",
            "0 ||| a ||| ||| 0\n0 ||| a b ||| ||| 0\n0 ||| a b c d ||| ||| 0\n1 ||| a ||| ||| 0\n",
            "0 ||| a b ||| A= 1002.000000 ||| 0\n0 ||| a b c d ||| A= 1004.000000 ||| 0\n"
            "1 ||| a ||| A= 1002.000000 ||| 0\n",
        ),
        (
            "jsonl",
            JSON_OF_BAD,
            '{"hypotheses": [{"text": "a b", "features": {"A": 1002.0}}, '
            '{"text": "a b c d", "features": {"A": 1004.0}}], "scores": [1, 2, 3]}\n'
            '{"hypotheses": [{"text": "a", "features": {"A": 1002.0}}]}\n',
        ),
        (
            "sockeye",
            SOCKEYE_OF_BAD,
            '{"translations": ["a b", "a b c d"], "scores": [2, 3], "tags": [1, 2, 3], '
            '"features": [{"A": 1002.0}, {"B": 1, "A": 1004.0}]}\n'
            '{"translation": "a", "score": 1, "features": [{"A": 1002.0}]}\n',
        ),
    ],
)
def test_hypotheses_without_a_value_are_left_out_unless_their_sentence_has_no_others(
    source: Path, form: ListFormat, nbest: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = source.parent / "nbest", source.parent / "out"
    path.write_text(nbest)
    settings = ListSettings(form, skip_bad=2, bad_hypotheses="left-out")
    add_feature(str(path), source, NoSingleWords(), "A", str(out), settings=settings)
    assert out.read_text() == expected
    assert "A: 2 of 4 hypotheses are left out, or, where" in capsys.readouterr().err


def test_the_least_value_is_that_of_a_whole_sentence(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescorer.tables.nbest, "ENTRIES_AT_ONCE", 1)
    nbest, out = source.parent / "nbest", source.parent / "out"
    nbest.write_text("".join(f"0 ||| {words} ||| ||| 0\n" for words in ("a b c d", "a", "a b")))
    settings = ListSettings(skip_bad=1)
    add_feature(str(nbest), source, NoSingleWords(), "A", str(out), settings=settings)
    assert [parse_features(entry, out)["A"] for entry in read_nbest(out)] == [
        (1004,),
        (1002,),
        (1002,),
    ]


def test_an_interrupted_run_is_continued(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = written(NBEST, source, LengthsInThousands())
    monkeypatch.setattr(rescorer.tables.nbest, "ENTRIES_AT_ONCE", 1)
    nbest, out = source.parent / "nbest", source.parent / "continued"

    class Dying(LengthsInThousands):
        def values(self, batch: Batch) -> NDArray[np.float64]:
            if b"c" in batch.targets:
                raise KeyboardInterrupt
            return super().values(batch)

    with pytest.raises(KeyboardInterrupt):
        add_feature(str(nbest), source, Dying(), "RNN0", str(out))
    assert not out.exists()
    scorer = LengthsInThousands()
    assert add_feature(str(nbest), source, scorer, "RNN0", str(out), resume=True) == 4
    assert out.read_bytes() == expected and (b"two", b"a b") not in scorer.seen
    with pytest.raises(ConfigError, match="cannot be resumed"):
        add_feature(str(nbest), source, scorer, "RNN0", "-", resume=True)
