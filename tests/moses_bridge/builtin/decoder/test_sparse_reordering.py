"""Sparse features of reordering: names by the sources of Moses, values and totals counted by hand.

What Moses itself stored of `phrase.lexicalized-reordering-sparse` is compared in test_moses_suite.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.sparse_features import PhrasePair, PlacedPair, sparse_reordering
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.given_translations import force_translations, score_entries
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.moses_ini_edits import moved_to
from moses_bridge.formats.nbest import NBestEntry, parse_segmentation, read_nbest
from tests.moses_bridge.builtin.decoder.test_neural_translator import (
    LIST,
    WIDE,
    RandomScorer,
    neural,
    plain,
)

SWITCHES = "sparse-phrase=1 sparse-stack=1 sparse-between=1"
LISTS = (
    "sparse-words-source-top=top.s sparse-words-target-top=top.t sparse-clusters-source-c=classes"
)
TOP, CLASSES = {"source": "uw", "target": "ab"}, {"u": "7", "v": "7", "w": "8", "x": "9"}
SOURCES = ["u v w", "x u v w", "w v u x u", "v", "w u v x w"]
GENERATOR = np.random.default_rng(3)
NAMES = [
    *[
        f"{what}-{side}-{place}-top-{word}-{kind}"
        for what in ("phr", "stk")
        for side, words in (("src", TOP["source"]), ("tgt", TOP["target"]))
        for place in ("first", "last")
        for word in words
        for kind in range(3)
    ],
    *[
        f"{what}-src-{place}-c-cluster_{number}-{kind}"
        for what, place in (("phr", "first"), ("stk", "last"), ("btn", "first"))
        for number in "789"
        for kind in range(3)
    ],
    *(f"btn-src-first-top-{word}-2" for word in TOP["source"]),
]
WEIGHTS = {f"LexicalReordering0_{name}": float(GENERATOR.normal(0, 0.3)) for name in NAMES}


@pytest.fixture
def ini(toy_ini: Path) -> Path:
    text = toy_ini.read_text().replace("path=reordering", f"path=reordering {SWITCHES} {LISTS}")
    toy_ini.write_text(
        f"[weight-file]\nweights\n{text}".replace("[distortion-limit]\n3", "[distortion-limit]\n9")
    )
    lines = (f"{name} {weight}\n" for name, weight in WEIGHTS.items())
    classes = (f"{word}\t{number}\n" for word, number in CLASSES.items())
    files = {"weights": "".join(lines), "classes": "".join(classes)}
    files |= {"top.s": "u\nw\n", "top.t": "a\nb\n", "source": "\n".join(SOURCES) + "\n"}
    for name, content in files.items():
        (toy_ini.parent / name).write_text(content)
    return toy_ini


def decoded(ini: Path, size: int = 200) -> tuple[Path, Path]:
    """Translations and n-best list of the source next to the ini."""
    out, nbest = ini.with_name("out"), ini.with_name("nbest")
    config = DecoderConfig(kind="builtin", segmentation=True, pop_limit=5000, stack_size=1000)
    with open_decoder(ini, config, 1) as decoder:
        decoder.decode(ini.with_name("source"), out, None, nbest, size)
    return out, nbest


def by_hand(entry: NBestEntry, nbest: Path) -> dict[str, float]:
    """The sparse values of an entry, from its segmentation."""
    source, target = SOURCES[entry.sentence_id].split(), entry.words.decode().split()
    values: dict[str, float] = {}

    def count(what: str, side: str, place: str, word: str, kind: int) -> None:
        ends = [f"top-{word}"] * (word in TOP[side])
        if side == "source":
            ends.append(f"c-cluster_{CLASSES[word]}")
        for end in ends:
            name = f"LexicalReordering0_{what}-{'src' if side == 'source' else 'tgt'}-{place}-{end}-{kind}"
            values[name] = values.get(name, 0.0) + 1

    before: list[tuple[str, str, str]] = []
    covered_start, covered_end = -1, 0
    for start, end, place, behind in parse_segmentation(entry, len(target), nbest):
        kind = 0 if start == covered_end else 1 if end == covered_start else 2
        now = [("source", "first", source[start]), ("source", "last", source[end - 1])]
        if behind > place:
            now += [("target", "first", target[place]), ("target", "last", target[behind - 1])]
        for side, where, word in now:
            count("phr", side, where, word, kind)
        for side, where, word in before:
            count("stk", side, where, word, kind)
        if kind == 2:
            apart = (covered_end, start) if covered_end <= start else (end, covered_start)
            for word in source[slice(*apart)]:
                count("btn", "source", "first", word, kind)
        before, covered_start, covered_end = now, start, end
    return values


def values_of(features: bytes) -> dict[str, float]:
    tokens = features.decode().split()
    return {
        tokens[i][:-1]: float(tokens[i + 1])
        for i in range(len(tokens) - 1)
        if tokens[i].endswith("=")
    }


def test_lists_have_values_counted_by_hand_and_the_search_their_sums(ini: Path) -> None:
    """The search finds the entries in the order of their totals, which have each value by its name."""
    without = ini.with_name("without.ini")
    without.write_text(
        ini.read_text().replace(f"{SWITCHES} {LISTS}", "").replace("[weight-file]\nweights\n", "")
    )
    out, nbest = decoded(ini)
    entries = list(read_nbest(nbest))
    kinds = {name[-1] for entry in entries for name in by_hand(entry, nbest)}
    assert len(entries) > 60 and kinds == {"0", "1", "2"}
    for entry in entries:
        values = values_of(entry.features)
        assert {name: values[name] for name in values if "_" in name} == by_hand(entry, nbest)
    dense = ini.with_name("dense")
    score_entries(without, ini.with_name("source"), nbest, dense, None)
    for entry, plain_entry in zip(entries, read_nbest(dense), strict=True):
        sparse = sum(WEIGHTS.get(name, 0.0) * n for name, n in by_hand(entry, nbest).items())
        assert entry.total == pytest.approx(plain_entry.total + sparse, abs=2e-3)
    for number in range(len(SOURCES)):
        totals = [entry.total for entry in entries if entry.sentence_id == number]
        assert totals == sorted(totals, reverse=True)
    assert out.read_text().splitlines()[0] == entries[0].words.decode().strip()


def test_entries_scored_again_and_forced_translations_have_the_same_totals(ini: Path) -> None:
    out, nbest = decoded(ini, size=1)
    again, forced = ini.with_name("again"), ini.with_name("forced")
    score_entries(ini, ini.with_name("source"), nbest, again, None)
    assert again.read_bytes() == nbest.read_bytes()
    force_translations(
        ini, DecoderConfig(segmentation=True), 1, ini.with_name("source"), out,
        ini.with_name("o"), None, forced,
    )  # fmt: skip
    totals = [[entry.total for entry in read_nbest(path)] for path in (forced, nbest)]
    assert totals[0] == pytest.approx(totals[1], rel=1e-5)


def test_sentences_searched_together_with_a_neural_model_keep_their_scores(ini: Path) -> None:
    model, lines = load_model(ini, None, None), [line.encode() for line in SOURCES]
    found = neural(model, WIDE, RandomScorer(2), 0.0).translate_batch(0, lines, LIST)
    expected = plain(model, WIDE).translate_batch(0, lines, LIST)
    assert [text for text, _ in found] == [text for text, _ in expected]
    for (_, lists), (_, alone) in zip(found, expected, strict=True):
        totals = [[line.split(b" ||| ")[3] for line in each] for each in (lists, alone)]
        assert totals[0] == totals[1]


def test_only_what_is_switched_on_counts(ini: Path) -> None:
    ini.write_text(ini.read_text().replace(SWITCHES, "sparse-stack=0"))  # the value is ignored
    nbest = decoded(ini)[1]
    for entry in read_nbest(nbest):
        expected = {n: v for n, v in by_hand(entry, nbest).items() if "_stk-" in n}
        assert {n: v for n, v in values_of(entry.features).items() if "_" in n} == expected


def test_names_are_those_of_moses(ini: Path) -> None:
    """As in the weights of Moses's test: LexicalReordering0_btn-src-first-rand-cluster_0-2."""
    features = sparse_reordering(read_ini(ini))
    assert features is not None
    pair = PhrasePair((b"w",), (b"a", b"c"), ())
    assert sorted(features.of_step([b"x", b"w"], None, PlacedPair(1, 2, pair))) == [
        b"btn-src-first-c-cluster_9-2",
        b"phr-src-first-c-cluster_8-2",
        b"phr-src-first-top-w-2",
        b"phr-src-last-c-cluster_8-2",
        b"phr-src-last-top-w-2",
        b"phr-tgt-first-top-a-2",
    ]


def test_lists_of_words_move_with_the_ini(ini: Path) -> None:
    assert ini.with_name("classes") in read_ini(ini).files()
    moved = moved_to(read_ini(ini), ini.parent / "runs").feature("LexicalReordering0")
    assert moved.arguments["sparse-clusters-source-c"] == "../classes"


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (SWITCHES, "", ConfigError, "sparse-words-source-top without any of sparse-phrase"),
        ("top.s", "missing", InputError, "missing"),
        ("sparse-between=1", "sparse-beteen=1", InputError, "did you mean 'sparse-between'"),
        ("sparse-words-source-top", "sparse-words-both-top", InputError, "sparse-words-both-top=top.s"),
        ("[weight-file]", "[xml-input]\ninclusive\n[weight-file]", ConfigError, "beside given"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(
    ini: Path, old: str, new: str, error: type[Exception], message: str
) -> None:
    ini.write_text(ini.read_text().replace(old, new))
    with pytest.raises(error, match=message):
        load_model(ini, None, None)


def test_weights_of_a_table_without_such_features_are_refused(ini: Path) -> None:
    text = (
        ini.read_text().replace(f" {SWITCHES} {LISTS}", "").replace("[weight-file]\nweights\n", "")
    )
    ini.write_text(f"{text}LexicalReordering0_phr-src-first-top-u-0= 1\n")
    with pytest.raises(ConfigError, match=r"weights of LexicalReordering0_phr.*: no such feature"):
        load_model(ini, None, None)


def test_a_word_without_a_class_is_refused_with_its_line(ini: Path) -> None:
    ini.with_name("classes").write_text("u\t7\nv\n")
    with pytest.raises(InputError, match=r"classes:2: found 'v', expected a word, a tab"):
        load_model(ini, None, None)
