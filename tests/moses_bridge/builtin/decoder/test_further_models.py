from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from moses_bridge.builtin.decoder.further_models import (
    NO_WORD,
    FurtherModels,
    join_models,
    phrase_score,
    start_contexts,
)
from moses_bridge.builtin.language_model.lm_index import LN10, LmIndex

DATA = Path(__file__).resolve().parents[3] / "data"
EXTRACT = DATA / "moses" / "extract"
WEIGHTS = np.array([9.0, 0.5, 0.25, 2.0])  # the first one is of another feature
UNIGRAMS = """\\data\\
ngram 1=4

\\1-grams:
-1.5\t<unk>
0\t<s>
-1.0\t</s>
-0.5\tde

\\end\\
"""


@njit
def start(further: FurtherModels, contexts: Any) -> None:
    start_contexts(further, contexts)


@njit
def score(
    words: Any, first: int, last: int, is_last: bool, further: FurtherModels, weights: Any, out: Any
) -> float:
    return phrase_score(words, first, last, is_last, further, weights, out)


@pytest.fixture
def models(tmp_path: Path) -> list[LmIndex]:
    """An ARPA file, KenLM's binary file of the same model, and a model without contexts."""
    (tmp_path / "uni").write_text(UNIGRAMS)
    (tmp_path / "binary").write_bytes(
        gzip.decompress((DATA / "kenlm" / "small.probing.gz").read_bytes())
    )
    paths = (EXTRACT / "lm.o5.prune001.arpa.gz", tmp_path / "binary", tmp_path / "uni")
    return [LmIndex.read(path) for path in paths]


def test_phrase_by_phrase_the_scores_are_those_of_the_models(models: list[LmIndex]) -> None:
    text = gzip.decompress((EXTRACT / "corpus.fr.gz").read_bytes())
    known = sorted({word for word in text.split()} - {b"de"})
    further = join_models(models, [*known, b"de"])
    numbers = {word: number for number, word in enumerate([*known, b"de"])}
    for line in text.splitlines()[:40]:
        words = [*line.split(), b"never-seen"]
        ids = np.array([numbers.get(word, 10**6) for word in words], np.int32)
        contexts = np.empty(further.width, np.int32)
        start(further, contexts)
        total = sum(
            score(ids, i, min(i + 3, len(ids)), i + 3 >= len(ids), further, WEIGHTS, contexts)
            for i in range(0, len(ids), 3)
        )
        expected = [LN10 * sum(model.score_sentence(words)[0]) for model in models]
        assert total == pytest.approx(np.dot(WEIGHTS[1:], expected), rel=1e-12)


def test_contexts_are_as_short_as_the_models_make_them(models: list[LmIndex]) -> None:
    further = join_models(models, [b"de", b"never-seen"])
    contexts = np.empty(further.width, np.int32)
    start(further, contexts)
    assert further.width == 4 + 4 + 1
    assert contexts[:4].tolist() == [models[0].bos_id, *[NO_WORD] * 3]
    score(np.array([1], np.int32), 0, 1, False, further, WEIGHTS, contexts)
    assert contexts.tolist() == [NO_WORD] * 9  # an unknown word begins no longer n-gram


def test_without_models_there_is_nothing_to_score() -> None:
    further = join_models([], [b"de"])
    contexts = np.empty(further.width, np.int32)
    start(further, contexts)
    assert score(np.array([0], np.int32), 0, 1, True, further, WEIGHTS, contexts) == 0.0
