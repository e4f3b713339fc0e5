"""Sparse features: names by the sources of Moses, values and totals of a small model counted by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.sparse_features import (
    PUNCTUATION,
    PhrasePair,
    deleted_words,
    inserted_words,
    phrase_lengths,
    translated_words,
)
from moses_bridge.builtin.decoder.sparse_values import SentenceValues
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.given_translations import force_translations, score_entries
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.moses_ini_edits import moved_to, with_absolute_paths
from moses_bridge.formats.nbest import parse_segmentation, read_nbest
from moses_bridge.formats.weights import sparse_weights
from tests.moses_bridge.builtin.decoder.conftest import ARPA

TABLE = """\
u ||| a ||| 0.5 ||| 0-0 ||| ||| good 1.5 rare -1
u ||| b a ||| 0.4 ||| 0-1 ||| |||
u ||| c ||| 0.3 ||| 0-0 ||| ||| good 4 odd x good 9
u v ||| a b ||| 0.2 ||| 0-0 |||
v ||| b ||| 0.3 ||| |||
v w ||| b a b ||| 0.25 ||| 0-0 1-2 ||| ||| rare 2
w ||| c b ||| 0.6 ||| 0-0 0-1 |||
"""
INI = """\
[distortion-limit]
3
[weight-file]
weights
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TM num-features=1 path=table table-limit={limit}
Distortion
PhraseLengthFeature name=pl
SourceWordDeletionFeature name=swd path=words
TargetWordInsertionFeature
WordTranslationFeature name=wt
KENLM name=LM0 factor=0 path=lm.arpa order=3
[weight]
WordPenalty0= -0.2
TM= 0.3
Distortion0= 0.2
LM0= 0.4
wt_u~a= 0.7
"""
PLAIN = """\
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TM num-features=1 path=table
Distortion
"""
GROUP = """\
PhraseDictionaryGroup name=G num-features=1 members=TM
[mapping]
0 T 1
"""
WEIGHTS = """\
# name and weight
pl_s1 0.1
pl_2,2 -0.3
swd_OTHER 0.45
swd_v 0.2
TargetWordInsertionFeature0_b -0.15
wt_u~a 9
wt_x~x 0.05
TM_good 0.25
TM_rare 0.5
"""
DENSE = {"WordPenalty0": -0.2, "TM": 0.3, "Distortion0": 0.2, "LM0": 0.4}
SPARSE = {
    **{"pl_s1": 0.1, "pl_2,2": -0.3, "swd_OTHER": 0.45, "swd_v": 0.2},
    **{"TargetWordInsertionFeature0_b": -0.15, "wt_u~a": 0.7, "wt_x~x": 0.05},
    **{"TM_good": 0.25, "TM_rare": 0.5},
}
PAIR = PhrasePair((b"le", b"chat", b"!"), (b"the", b"cat"), ((1, 1), (0, 0), (1, 0)))


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    files = {"table": TABLE, "weights": WEIGHTS, "words": "v\n", "lm.arpa": ARPA}
    for name, text in {**files, "moses.ini": INI.format(limit=20)}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "source").write_text("u v w\nx u v\nw v u x u\n")
    return tmp_path / "moses.ini"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (phrase_lengths(PAIR), ["s3", "t2", "3,2"]),
        (deleted_words(PAIR, None), ["!"]),
        (deleted_words(PAIR, frozenset((b"le",))), ["OTHER"]),
        (inserted_words(PhrasePair((b"a",), (b"x", b"<s>", b"y"), ((0, 0),)), None), ["y"]),
        (inserted_words(PhrasePair((b"a",), (b"x",), ()), None), []),  # no links: an unknown word
        (deleted_words(PhrasePair((b"a",), (), ()), None), ["a"]),
        (translated_words(PAIR, None, None, frozenset()), ["le~the", "chat~the", "chat~cat"]),
        (
            translated_words(PAIR, frozenset((b"le",)), frozenset((b"cat",)), frozenset()),
            ["le~OTHER", "OTHER~OTHER", "OTHER~cat"],
        ),
        (translated_words(PhrasePair((b"1a",), (b"b",), ((0, 0),)), None, None, PUNCTUATION), []),
    ],
)
def test_names_are_those_of_moses(found: Iterable[bytes], expected: list[str]) -> None:
    assert [name.decode() for name in found] == expected


def decoded(ini: Path, jobs: int = 1, size: int = 50) -> tuple[Path, Path]:
    """Translations and n-best list of the source next to the ini."""
    out, nbest = ini.with_name("out"), ini.with_name("nbest")
    config = DecoderConfig(kind="builtin", segmentation=True, pop_limit=1000, nbest_factor=0)
    with open_decoder(ini, config, jobs) as decoder:
        decoder.decode(ini.with_name("source"), out, None, nbest, size)
    return out, nbest


def sparse_by_hand(phrases: list[tuple[str, str]]) -> dict[str, float]:
    """The sparse values of phrase pairs, from the rows of the table."""
    rows = [[column.strip() for column in f"{row} ".split("|||")] for row in TABLE.splitlines()]
    values: dict[str, float] = {}
    for source, target in phrases:
        found = [row for row in rows if (row[0], row[1]) == (source, target)]
        links, scores = ("0-0", "") if not found else (found[0][3], "".join(found[0][5:6]))
        words, linked = (
            (source.split(), target.split()),
            [link.split("-") for link in links.split()],
        )
        names = [
            f"pl_s{len(words[0])}",
            f"pl_t{len(words[1])}",
            f"pl_{len(words[0])},{len(words[1])}",
        ]
        names += [f"wt_{words[0][int(s)]}~{words[1][int(t)]}" for s, t in linked]
        if links or len(words[0]) + len(words[1]) > 2:
            unlinked = [
                [
                    word
                    for i, word in enumerate(words[side])
                    if str(i) not in [link[side] for link in linked]
                ]
                for side in (0, 1)
            ]
            names += [f"swd_{word if word == 'v' else 'OTHER'}" for word in unlinked[0]]
            names += [f"TargetWordInsertionFeature0_{word}" for word in unlinked[1]]
        scores = scores.removesuffix(" good 9")  # it follows a malformed number
        given = dict(zip(scores.split()[::2], scores.split()[1::2], strict=True))
        for name in names:
            values[name] = values.get(name, 0.0) + 1
        for name, text in given.items():
            number = 0.0 if text == "x" else float(text)
            values[f"TM_{name}"] = values.get(f"TM_{name}", 0.0) + number
    return values


def values_of(features: bytes) -> dict[str, float]:
    tokens = features.decode().split()
    return {name[:-1]: float(value) for name, value in zip(tokens[::2], tokens[1::2], strict=True)}


def test_lists_have_values_and_totals_counted_by_hand(ini: Path) -> None:
    out, nbest = decoded(ini)
    sources = [line.split() for line in ini.with_name("source").read_text().splitlines()]
    entries = list(read_nbest(nbest))
    assert len(entries) > 60
    best: dict[int, float] = {}
    for entry in entries:
        values = values_of(entry.features)
        words = entry.words.decode().split()
        phrases = [
            (" ".join(sources[entry.sentence_id][start:end]), " ".join(words[place:behind]))
            for start, end, place, behind in parse_segmentation(entry, len(words), nbest)
        ]
        expected = sparse_by_hand(phrases)
        assert {name: values[name] for name in values if "_" in name} == expected
        weights = {**DENSE, **SPARSE}
        unknown = -100 * sources[entry.sentence_id].count("x")  # not in lists
        total = unknown + sum(weights.get(name, 0.0) * value for name, value in values.items())
        assert entry.total == pytest.approx(total, abs=2e-3)
        assert best.setdefault(entry.sentence_id, total) >= total - 2e-3
    assert out.read_text().splitlines()[0] == entries[0].words.decode().strip()


def test_several_processes_write_the_same(ini: Path) -> None:
    expected = [path.read_bytes() for path in decoded(ini)]
    assert [path.read_bytes() for path in decoded(ini, jobs=2)] == expected


def test_entries_scored_again_and_forced_translations_have_the_same_lines(ini: Path) -> None:
    out, nbest = decoded(ini, size=1)
    again, forced = ini.with_name("again"), ini.with_name("forced")
    score_entries(ini, ini.with_name("source"), nbest, again, None)
    assert again.read_bytes() == nbest.read_bytes()
    config = DecoderConfig(segmentation=True, distortion_limit=3)
    force_translations(
        ini, config, 1, ini.with_name("source"), out, ini.with_name("o"), None, forced
    )
    totals = [[entry.total for entry in read_nbest(path)] for path in (forced, nbest)]
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)


@pytest.mark.parametrize(("weights", "kept"), [("TM_good 1\n", "c"), ("wt_u~c 9\n", "a")])
def test_scores_of_the_table_choose_translations_and_translated_words_do_not(
    ini: Path, weights: str, kept: str
) -> None:
    """WordTranslationFeature sees a phrase pair only after the limit (EvaluateWithSourceContext)."""
    ini.write_text(INI.format(limit=1))
    ini.with_name("weights").write_text(weights)
    ini.with_name("source").write_text("u\n")
    assert decoded(ini)[0].read_text() == f"{kept}\n"


def test_other_weights_replace_those_of_the_ini(ini: Path) -> None:
    model = load_model(ini, None, None)
    assert model.sparse_weights(None) == SPARSE
    assert model.sparse_weights({"TM": [0.1], "TM_good": [2.0]}) == {**SPARSE, "TM_good": 2.0}
    model.weight_vector({"wt_u~b": [0.5]})
    with pytest.raises(ConfigError, match=r"weights of wt2_u~b: no such feature"):
        model.weight_vector({"wt2_u~b": [0.5]})
    with pytest.raises(ConfigError, match=r"2 weights of wt_u~b, which has 1 score"):
        model.sparse_weights({"wt_u~b": [0.5, 1.0]})


def test_a_moved_ini_finds_its_files(ini: Path) -> None:
    moved = with_absolute_paths(read_ini(ini))
    assert moved.settings["weight-file"] == (str(ini.with_name("weights").resolve()),)
    assert ini.with_name("words").resolve() in moved.files()
    assert sparse_weights(moved) == SPARSE
    other = moved_to(read_ini(ini), ini.parent / "runs")
    assert other.settings["weight-file"] == ("../weights",)
    assert other.feature("swd").arguments["path"] == "../words"
    ini.write_text(ini.read_text().replace("path=words", "path=./words"))
    assert moved_to(read_ini(ini), ini.parent).lines == read_ini(ini).lines


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name=wt", "name=wt source-context=1", "wt has source-context=1; .* pairs of words alone"),
        ("name=wt", "name=wt simple=perhaps", "wt has simple=perhaps, expected 0 or 1"),
        (
            "name=pl",
            "name=pl num-features=2",
            "pl has num-features=2; .* PhraseLengthFeature has 0",
        ),
        ("name=wt", "name=w", "weights of wt_u~a: no such feature"),
        ("path=words", "path=missing", "missing"),
        (
            "[weight-file]\n",
            "[weight-file]\nothers\n",
            "2 lines of .weight-file., expected one file",
        ),
        ("wt_u~a= 0.7", "wt_u~a= 0.7 1", "2 weights of wt_u~a, which is no feature, expected one"),
        (
            "[weight-file]",
            "[xml-input]\ninclusive\n[weight-file]",
            "no sparse features beside given",
        ),
    ],
)
def test_what_is_not_there_is_refused(ini: Path, old: str, new: str, message: str) -> None:
    ini.write_text(INI.format(limit=20).replace(old, new))
    with pytest.raises((ConfigError, InputError), match=message):
        load_model(ini, None, None)


@pytest.mark.parametrize(
    ("rest", "message"),
    [(GROUP, "a group of phrase tables"), ("[xml-input]\ninclusive\n", "given")],
)
def test_weights_are_refused_where_there_are_no_such_values(
    ini: Path, rest: str, message: str
) -> None:
    ini.write_text(PLAIN + rest)
    model = load_model(ini, None, None)
    assert model.sparse_weights({"TM": [0.1]}) == {}
    with pytest.raises(ConfigError, match=f"no sparse features beside {message}"):
        model.sparse_weights({"TM": [0.1], "TM_good": [2.0]})


def test_weights_of_values_that_no_row_has_change_nothing(ini: Path) -> None:
    ini.write_text(PLAIN)
    ini.with_name("table").write_text("u ||| a ||| 0.5 ||| 0-0\n")
    assert load_model(ini, None, None).sparse_weights({"TM_good": [2.0]}) == {}


@pytest.mark.parametrize("line", ["pl_s1", "pl_s1 much", "pl_s1 nan"])
def test_a_weight_that_is_no_number_is_refused_with_its_line(ini: Path, line: str) -> None:
    ini.with_name("weights").write_text(f"pl_s2 1\n\n{line}\n")
    with pytest.raises(
        InputError, match=f"weights:3: found '?{line}.*, expected the name of a sparse"
    ):
        load_model(ini, None, None)


def test_a_link_that_leads_out_of_its_phrases_is_refused(ini: Path) -> None:
    ini.with_name("table").write_text(TABLE.replace("0.5 ||| 0-0", "0.5 ||| 0-1"))
    with pytest.raises(
        InputError, match=r"phrase table:1: found the links .*0-1.* of 1 and 1 words"
    ):
        decoded(ini)


def test_an_unknown_word_is_linked_to_its_copy_unless_it_is_dropped() -> None:
    """One word of the sentence is copied, the other one has no translation."""
    places: dict[str, Any] = {"rows": [-1, -1], "starts": [0, 1], "ends": [1, 2]}
    options: Any = SimpleNamespace(**places, words=np.array([7]), word_starts=np.array([0, 1, 1]))
    known: Any = SimpleNamespace(model=SimpleNamespace(target_words=[]))
    values = SentenceValues(known, [b"new", b"x"], {7: b"new"})
    copied, dropped = (values._pair(option, options) for option in (0, 1))
    assert (copied.target, copied.links) == ([b"new"], ((0, 0),))
    assert (dropped.target, dropped.links) == ([], ())
