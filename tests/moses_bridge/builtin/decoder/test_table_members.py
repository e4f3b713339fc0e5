"""Scores of groups of tables: by hand, and by the steps of Moses's PhraseDictionaryGroup in plain Python."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.builtin.decoder.forced import option_words
from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.given_translations import score_entries
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.nbest import parse_features, read_nbest
from tests.moses_bridge.builtin.decoder.conftest import ARPA, make_translator

INI = """[mapping]
{mapping}
[decoding-graph-backoff]
{backoff}
[feature]
PhraseDictionaryMemory name=One num-features=2 path=one table-limit={limits[0]} tuneable=false
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=Two num-features=2 path=two table-limit={limits[1]}
PhraseDictionaryGroup name=Both members={members} num-features={n_scores} table-limit={limits[2]}{arguments}
PhraseDictionaryMemory name=Other num-features=1 path=other
PhrasePenalty
KENLM name=LM0 factor=0 path=lm.arpa order=3
[weight]
One= 0.5 0.1
Two= 0.2 0.4
Both={weights}
Other= 0.3
WordPenalty0= -0.2
PhrasePenalty0= 0.1
LM0= 0.4
"""
ONE = {("u", "a"): (0.5, 0.25), ("u", "b"): (0.2, 0.1), ("v", "b"): (0.3, 0.4)}
TWO = {("u", "a"): (0.8, 0.6), ("u", "a b"): (0.4, 0.5), ("w", "a"): (0.7, 0.9)}
OTHER = {("u", "c"): (0.5,), ("x", "c"): (0.25,), ("w", "c"): (0.125,)}
UNIGRAMS = {"a": -0.7, "b": -0.9, "c": -1.3}
Table = dict[tuple[str, str], tuple[float, ...]]


def write_model(
    folder: Path,
    arguments: str = "",
    n_extra: int = 0,
    limits: tuple[int, int, int] = (0, 0, 0),
    tables: tuple[Table, Table] = (ONE, TWO),
    members: str = "One,Two",
    paths: str = "0 T 2\n1 T 3",
    backoff: str = "",
    weights: tuple[float, ...] = (0.3, 0.1, 0.2, 0.05),
) -> Path:
    for name, table in zip(("one", "two", "other"), (*tables, OTHER), strict=True):
        rows = [f"{s} ||| {t} ||| {' '.join(map(str, v))}\n" for (s, t), v in table.items()]
        (folder / name).write_text("".join(rows))
    (folder / "lm.arpa").write_text(ARPA)
    numbers = [*weights, *(0.07 * (i + 1) for i in range(n_extra))]
    text = INI.format(
        mapping=paths, backoff=backoff, limits=limits, arguments=arguments, members=members,
        n_scores=4 + n_extra, weights="".join(f" {number:.3f}" for number in numbers),
    )  # fmt: skip
    (folder / "moses.ini").write_text(text)
    return folder / "moses.ini"


def chosen(model: Model, source: str) -> list[tuple[str, list[float]]]:
    """The translations of a word, best first, with the scores of all paths."""
    translator = make_translator(model, 1, 1)
    sentence = translator.sentence(source.encode())
    assert sentence is not None
    options = sentence.options
    texts = [
        b" ".join(model.target_words[word] for word in option_words(options, i)).decode()
        for i in range(len(options.rows))
    ]
    return list(zip(texts, translator.weighted.rows.scores[options.rows].tolist(), strict=True))


def logs(*values: float) -> list[float]:
    return [math.log(value) for value in values]


A1, A2 = logs(0.5, 0.25), logs(0.8, 0.6)
B1, AB2 = logs(0.2, 0.1), logs(0.4, 0.5)


@pytest.mark.parametrize(
    ("arguments", "n_extra", "expected"),
    [
        ("", 0, {"a": [*A1, *A2], "b": [*B1, 0, 0], "a b": [0, 0, *AB2]}),
        (" restrict=true", 0, {"a": [*A1, *A2], "b": [*B1, 0, 0]}),
        (
            " default-scores=-1,-2,-3,-4",
            0,
            {"a": [*A1, *A2], "b": [*B1, -3, -4], "a b": [-1, -2, *AB2]},
        ),
        (
            " default-average-others=true",
            0,
            {"a": [*A1, *A2], "b": [*B1, *B1], "a b": [*AB2, *AB2]},
        ),
        (
            " phrase-counts=true word-counts=true",
            4,
            {
                "a": [*A1, *A2, 1, 1, 1, 1],
                "b": [*B1, 0, 0, 1, 0, 1, 0],
                "a b": [0, 0, *AB2, 0, 1, 0, 2],
            },
        ),
        (
            " model-bitmap-counts=true",
            3,
            {"a": [*A1, *A2, 0, 0, 1], "b": [*B1, 0, 0, 1, 0, 0], "a b": [0, 0, *AB2, 0, 1, 0]},
        ),
    ],
)
def test_scores_of_each_table_and_counts(
    tmp_path: Path, arguments: str, n_extra: int, expected: dict[str, list[float]]
) -> None:
    model = load_model(write_model(tmp_path, arguments, n_extra), None, None)
    found = dict(chosen(model, "u"))
    assert found.pop("c") == pytest.approx([*[0] * (4 + n_extra), math.log(0.5)])
    assert found.keys() == expected.keys()
    for target, scores in expected.items():
        assert found[target] == pytest.approx([*scores, 0])


@pytest.mark.parametrize(
    ("shares", "first", "second"), [("1,3", 0.25, 0.25), ("1,3,4,1", 0.25, 0.8)]
)
def test_a_mixture_has_the_mean_probabilities(
    tmp_path: Path, shares: str, first: float, second: float
) -> None:
    """The first table's share of each score; a table without the translation has the probability 0."""
    ini = write_model(tmp_path)
    text = ini.read_text().replace("PhraseDictionaryGroup", "PhraseDictionaryMultiModel")
    mixture = f"components=One,Two num-features=2 mode=interpolate lambda={shares}"
    text = text.replace("members=One,Two num-features=4", mixture)
    ini.write_text(text.replace("Both= 0.300 0.100 0.200 0.050", "Both= 0.3 0.1"))
    found = dict(chosen(load_model(ini, None, None), "u"))
    assert found.keys() == {"a", "b", "a b", "c"}
    mean = [first * 0.5 + (1 - first) * 0.8, second * 0.25 + (1 - second) * 0.6]
    assert found["a"] == pytest.approx([*logs(*mean), 0])
    assert found["b"] == pytest.approx([*logs(first * 0.2, second * 0.1), 0])
    assert found["a b"] == pytest.approx([*logs((1 - first) * 0.4, (1 - second) * 0.5), 0])


def test_the_least_score_of_a_mixture_is_that_of_moses(tmp_path: Path) -> None:
    """A quarter of e^-100 is less than that, but no score is below -100."""
    one = {**ONE, ("u", "b"): (1e-60, 0.1)}
    ini = write_model(tmp_path, tables=(one, TWO))
    text = ini.read_text().replace("PhraseDictionaryGroup", "PhraseDictionaryMultiModel")
    mixture = "components=One,Two num-features=2 mode=interpolate lambda=1,3"
    text = text.replace("members=One,Two num-features=4", mixture)
    ini.write_text(text.replace("Both= 0.300 0.100 0.200 0.050", "Both= 0.3 0.1"))
    found = dict(chosen(load_model(ini, None, None), "u"))
    assert found["b"] == pytest.approx([-100, math.log(0.25 * 0.1), 0])


def test_a_table_gives_its_best_translations_by_its_own_weights(tmp_path: Path) -> None:
    """By One's weights `a` is better than `b`; by Two's weights `a` is better than `a b`, too."""
    model = load_model(write_model(tmp_path, limits=(1, 1, 0)), None, None)
    assert dict(chosen(model, "u")).keys() == {"a", "c"}
    (tmp_path / "moses.ini").write_text(
        (tmp_path / "moses.ini").read_text().replace("One= 0.5 0.1", "One= -0.5 -0.1")
    )
    model = load_model(tmp_path / "moses.ini", None, None)
    found = dict(chosen(model, "u"))
    assert found["b"] == pytest.approx([*B1, 0, 0, 0])
    assert found["a"] == pytest.approx([0, 0, *A2, 0])  # One has `a`, but does not give it


@pytest.mark.parametrize(("restrict", "found"), [("true", ["c"]), ("false", ["a"])])
def test_an_unknown_word_of_a_group_is_translated_by_the_next_path(
    tmp_path: Path, restrict: str, found: list[str]
) -> None:
    """`w` is in the second table alone."""
    ini = write_model(tmp_path, f" restrict={restrict}", backoff="0\n3")
    assert [target for target, _ in chosen(load_model(ini, None, None), "w")] == found


def as_moses(
    tables: tuple[Table, ...], source: str, limits: tuple[int, ...], restrict: bool,
    average: bool, lm: dict[str, float], weights: list[tuple[float, ...]],
) -> dict[str, list[float]]:  # fmt: skip
    """The translations of a group of tables and their scores, computed step by step as in Moses."""
    scores: dict[str, list[float]] = {}
    seen: dict[str, set[int]] = {}

    def estimate(target: str, values: list[float], own: tuple[float, ...]) -> float:
        model = sum(w * v for w, v in zip(own, values, strict=True))
        return model + 0.4 * lm[target] + 0.2 * len(target.split()) + 0.1

    for number, table in enumerate(tables):
        rows = [(target, logs(*values)) for (s, target), values in table.items() if s == source]
        if limits[number]:
            rows.sort(key=lambda row: -estimate(*row, weights[number]))
            rows = rows[: limits[number]]
        for target, values in rows:
            if target not in scores:
                if restrict and number:
                    continue
                scores[target], seen[target] = [0.0] * 4, set()
            scores[target][2 * number : 2 * number + 2] = values
            seen[target].add(number)
    for target, found in scores.items():
        if average and len(seen[target]) == 1:
            scores[target] = found[:2] * 2 if 0 in seen[target] else found[2:] * 2
    best = sorted(scores, key=lambda target: -estimate(target, scores[target], weights[2]))
    return {target: scores[target] for target in best[: limits[2] or None]}


@pytest.mark.parametrize("seed", range(6))
def test_random_tables_give_the_scores_of_moses(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    targets = ["a", "b", "a b", "b a", "c", "b b", "a a", "a b a"]
    one, two = (
        {
            ("u", target): tuple(generator.uniform(0.05, 1, 2).round(3).tolist())
            for target in generator.permutation(targets)[:6].tolist()
        }
        for _ in range(2)
    )
    limits = [(0, 0, 0), (3, 4, 0), (2, 0, 3), (4, 2, 4), (3, 3, 2), (0, 5, 20)][seed]
    restrict, average = bool(seed % 2), seed > 2
    arguments = f" restrict={restrict} default-average-others={average}"
    ini = write_model(tmp_path, arguments, 0, limits, (one, two), paths="0 T 2\n1 T 3")
    alone = {t: math.log(10) * sum(UNIGRAMS[word] for word in t.split()) for t in targets}
    (tmp_path / "lm.arpa").write_text(
        "\\data\\\nngram 1=6\n\n\\1-grams:\n-9\t<s>\n-1\t</s>\n-1.5\t<unk>\n"
        + "".join(f"{log10}\t{word}\n" for word, log10 in UNIGRAMS.items())
        + "\n\\end\\\n"
    )
    expected = as_moses(
        (one, two), "u", limits, restrict, average, alone,
        [(0.5, 0.1), (0.2, 0.4), (0.3, 0.1, 0.2, 0.05)],
    )  # fmt: skip
    found = [(t, s[:4]) for t, s in chosen(load_model(ini, None, None), "u") if s[4] == 0]
    assert [target for target, _ in found] == list(expected)
    for target, scores in found:
        assert scores == pytest.approx(expected[target], abs=1e-6)


def test_lists_name_the_tables_of_a_group_without_scores(tmp_path: Path) -> None:
    """One is not tuneable, so lists leave it out; Two is, and has the scores 0, since the group has them."""
    ini = write_model(tmp_path, " phrase-counts=true", 2)
    model = load_model(ini, None, None)
    translator = make_translator(model, 100, 100)
    _, lines = translator.translate(0, b"u v", NBestFormat(20, 20, True, False))
    (tmp_path / "nbest").write_bytes(b"\n".join(lines) + b"\n")
    entries = list(read_nbest(tmp_path / "nbest"))
    assert len(entries) > 4
    weights = model.ini.weights
    for entry in entries:
        features = parse_features(entry, "nbest")
        names = ["LM0", "WordPenalty0", "Two", "Both", "Other", "PhrasePenalty0"]
        assert list(features) == names
        assert features["Two"] == (0, 0)
        total = sum(
            w * v for name in names for w, v in zip(weights[name], features[name], strict=True)
        )
        assert entry.total == pytest.approx(total, rel=1e-5)
    with_a = next(entry for entry in entries if entry.words == b"a b")
    scores = [*logs(0.5 * 0.3, 0.25 * 0.4), *A2, 2, 1]
    assert parse_features(with_a, "nbest")["Both"] == pytest.approx(scores, rel=1e-5)


def test_a_list_scored_anew_has_the_same_scores(tmp_path: Path) -> None:
    """Scoring uses all translations of a path, but tables give as few as in the search."""
    ini = write_model(tmp_path, limits=(1, 1, 1), paths="0 T 2\n1 T 3")
    (tmp_path / "in").write_text("u v w\nu\n")
    with open_decoder(ini, DecoderConfig(kind="builtin", segmentation=True), 1) as decoder:
        decoder.decode(tmp_path / "in", tmp_path / "out", None, tmp_path / "list", 20)
    score_entries(ini, tmp_path / "in", tmp_path / "list", tmp_path / "again", None)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "list").read_bytes()
