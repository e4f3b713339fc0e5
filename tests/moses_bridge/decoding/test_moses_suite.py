"""Moses's regression suite: its inis and sentences, against the outputs of Moses that it stores.

The suite is moses-smt/moses-regression-tests; MOSES_REGRESSION_TESTS is its folder. Moses ran its stack search,
so the pop limit is large.
"""

from __future__ import annotations

import gzip
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig

SUITE = os.environ.get("MOSES_REGRESSION_TESTS", "")
pytestmark = pytest.mark.skipif(not SUITE, reason="MOSES_REGRESSION_TESTS names no folder")
CONFIG = DecoderConfig(kind="builtin", pop_limit=100_000)
Stored = dict[int, list[tuple[str, dict[str, list[float]]]]]


def decode(
    name: str, folder: Path, replaced: Mapping[str, str], size: int = 10
) -> tuple[list[str], Path]:
    """The translations of a test's sentences, and its n-best list; the ini has some parts replaced."""
    test = Path(SUITE, "tests", name)
    text = (test / "moses.ini").read_text()
    for variable, place in {"MODEL_PATH": "models", "LM_PATH": "lm", "TEST_PATH": test}.items():
        text = text.replace(f"${{{variable}}}", str(Path(SUITE, place)))
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    ini, out, nbest = (folder / file for file in ("moses.ini", "out", "nbest"))
    ini.write_text(text)
    with open_decoder(ini, CONFIG, 1) as decoder:
        decoder.decode(test / "to-translate.txt", out, None, nbest, size)
    return out.read_text().split("\n")[:-1], nbest


def stored(name: str, key: str) -> list[str]:
    """The stored lines KEY_NUMBER=TEXT of a test."""
    text = Path(SUITE, "tests", name, "truth", "results.txt").read_text()
    return [found.strip() for found in re.findall(rf"(?m)^{key}_\d+ ?=(.*)", text)]


def stored_nbest(name: str) -> Stored:
    """The stored n-best lists of a test: words and feature values."""
    text = Path(SUITE, "tests", name, "truth", "results.txt").read_text()
    lists: Stored = {}
    for number, line in re.findall(r"(?m)^TRANSLATION_(\d+)_NBEST_\d+=(.*)", text):
        words, features = re.sub(" +", " ", line.replace("- ", "-")).split("|||")[:2]
        lists.setdefault(int(number), []).append((words.strip(), values_of(features)))
    return lists


def values_of(features: str) -> dict[str, list[float]]:
    """The values of "Name= 1 2 Other= 3" by name."""
    found = re.findall(r"(\S+)=((?: [^ =]+(?= |$))+)", features.strip())
    return {name: [float(value) for value in values.split()] for name, values in found}


def nbest_of(path: Path) -> Stored:
    """The same of a written list."""
    lists: Stored = {}
    for line in path.read_text().split("\n")[:-1]:
        number, words, features = line.split(" ||| ")[:3]
        lists.setdefault(int(number), []).append((words.strip(), values_of(features)))
    return lists


@pytest.mark.parametrize(
    "name",
    [
        "phrase.lexicalized-reordering",
        "phrase.lexicalized-reordering-sparse",
        "phrase.early-distortion-cost.kenlm",
        "phrase.multimodel",
    ],
)
def test_translations_and_scores_are_those_of_moses(name: str, tmp_path: Path) -> None:
    """Nothing is stored for the last sentence of phrase.multimodel."""
    found, nbest = decode(name, tmp_path, {})
    expected = stored(name, "TRANSLATION")
    assert len(expected) > 4 and found[: len(expected)] == expected
    totals = {}
    for line in nbest.read_text().split("\n")[:-1]:
        fields = line.split(" ||| ")
        totals.setdefault(int(fields[0]), float(fields[3]))
    assert list(totals.values())[: len(expected)] == pytest.approx(
        [float(score) for score in stored(name, "SCORE")], rel=5e-6, abs=1e-3
    )


@pytest.mark.parametrize("name", ["phrase.xml-markup", "phrase.xml-markup.oldformat"])
def test_given_translations_have_the_scores_of_moses(name: str, tmp_path: Path) -> None:
    lists = stored_nbest("phrase.xml-markup")
    model = tmp_path / "lm.arpa"
    model.write_text(sentence_model(lists))
    replaced = {f"{SUITE}/lm/europarl.en.srilm.gz": str(model)}
    if name.endswith("oldformat"):
        replaced["[ttable-file]\n1 "] = "[ttable-file]\n0 "  # the text table next to the binary one
    else:
        replaced["PhraseDictionaryBinary"] = "PhraseDictionaryMemory"
    found, nbest = decode(name, tmp_path, replaced)
    assert found == stored("phrase.xml-markup", "TRANSLATION")
    ours = nbest_of(nbest)
    for number, expected in lists.items():
        assert [words for words, _ in ours[number]] == [words for words, _ in expected]
        for (_, values), (_, stored_values) in zip(ours[number], expected, strict=True):
            assert values["PhraseDictionaryMemory0"] == pytest.approx(
                stored_values["PhraseDictionaryBinary0"], abs=1e-4
            )


def test_sparse_features_have_the_values_of_moses(tmp_path: Path) -> None:
    """The best entry of each of the words of Moses's list of 100; a table without its second target factor."""
    name = "phrase.sparse-features"
    table, whole = tmp_path / "table", f"{SUITE}/tests/{name}/phrase-table.0-0,1.1.1.gz"
    rows = [
        line.split(" ||| ")
        for line in gzip.decompress(Path(whole).read_bytes()).decode().split("\n")
    ]
    table.write_text(
        "\n".join(
            " ||| ".join([row[0], re.sub(r"\|\S+", "", row[1]), *row[2:]])
            for row in rows
            if row[1:]
        )
    )
    replaced = {
        "PhraseDictionaryBinary": "PhraseDictionaryMemory",
        f"{SUITE}/tests/{name}/phrase-table.0-0,1.1.1": str(table),
        "output-factor=0,1": "output-factor=0",
    }
    found, nbest = decode(name, tmp_path, replaced, 100)
    assert found == stored(name, "TRANSLATION")
    expected: dict[str, dict[str, list[float]]] = {}
    for words, values in stored_nbest(name)[0]:
        expected.setdefault(words, values)
    ours = dict(nbest_of(nbest)[0])
    assert len(expected) > 60 and {*expected} <= {*ours}
    for words, values in expected.items():
        assert {*ours[words]} - {*values} == set()
        for feature, row in values.items():
            assert ours[words][feature] == pytest.approx(row, rel=1e-3, abs=1e-3)


def test_deleted_words_have_the_values_of_moses(tmp_path: Path) -> None:
    name = "phrase.source-word-deletion.nbest"
    lists = stored_nbest(name)
    model = tmp_path / "lm.arpa"
    model.write_text(sentence_model(lists))
    _, nbest = decode(name, tmp_path, {f"{SUITE}/lm/europarl.en.srilm.gz": str(model)}, 100)
    ours = nbest_of(nbest)
    feature = "SourceWordDeletionFeature0"
    n_values = 0
    for number, expected in lists.items():
        best = dict(reversed(expected))
        for words, values in ours[number]:
            if words in best:
                sparse = [
                    {k: v for k, v in each.items() if feature in k and v != [0.0]}
                    for each in (values, best[words])
                ]
                assert sparse[0] == sparse[1]
                n_values += len(sparse[0])
    assert n_values > 10


def sentence_model(lists: Stored) -> str:
    """An n-gram model giving each stored translation the score of the suite's model, and others none.

    The suite's own model is not in every copy of it. Each word has probability 1, and `</s>` behind a whole
    translation the probability of that translation.
    """
    ngrams: dict[tuple[str, ...], float] = {("<unk>",): 0.0, ("<s>",): 0.0, ("</s>",): -99.0}
    for entries in lists.values():
        for words, values in entries:
            sentence = ("<s>", *words.split(), "</s>")
            for end in range(2, len(sentence) + 1):
                for start in range(end - 1, -1, -1):
                    is_end = end == len(sentence)
                    ngrams.setdefault(sentence[start:end], -99.0 if is_end else 0.0)
            ngrams[sentence] = values["KENLM0"][0] / math.log(10)
    longest = max(map(len, ngrams))
    lines = [
        "\\data\\",
        *(f"ngram {n}={sum(len(each) == n for each in ngrams)}" for n in range(1, longest + 1)),
    ]
    for n in range(1, longest + 1):
        behind = "\t0" if n < longest else ""
        lines += ["", f"\\{n}-grams:"]
        lines += [f"{ngrams[each]}\t{' '.join(each)}{behind}" for each in ngrams if len(each) == n]
    return "\n".join([*lines, "", "\\end\\", ""])
