"""Encoded sentences in files are those in memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rescorer.contract.vocabulary import Vocabulary
from rescorer.training import mapped_text as module
from rescorer.training.mapped_text import mapped_phrases, mapped_text

WORDS = [b"a", b"b", b"c"]


@pytest.fixture
def sentences() -> list[bytes]:
    draw = random.Random(1)
    return [b" ".join(draw.choices([*WORDS, b"x"], k=draw.randint(0, 9))) for _ in range(50)]


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_any_block_gives_the_same_ids(
    sentences: list[bytes], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "SENTENCES_AT_ONCE", at_once)
    vocabulary = Vocabulary(WORDS)
    for mapped, whole in (
        (mapped_text, vocabulary.encode_text),
        (mapped_phrases, vocabulary.encode_phrases),
    ):
        found, expected = mapped(vocabulary, iter(sentences)), whole(sentences)
        for own, plain in zip(found, expected, strict=True):
            assert own.dtype == plain.dtype
            assert np.array_equal(own, plain)


def test_nothing_encoded() -> None:
    ids, lens = mapped_phrases(Vocabulary(WORDS), [])
    assert (ids.shape, lens.shape) == ((0, 1), (0,))
