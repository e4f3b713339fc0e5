from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.architectures import ARCHITECTURES
from rescorer.contract.compute import Compute
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.learned import Learned
from rescorer.models.model_directory import save_model
from tests.rescorer.plain_networks import encode

PHRASES = [b"the red house", b"car", b"the red", b"the red", b"in a"]


def test_summaries_are_those_of_the_plain_encoder(encdec: Path) -> None:
    learned = Learned.load(encdec)
    found = learned.summaries(Compute(device="cpu"))(PHRASES)
    for phrase, summary in zip(PHRASES, found, strict=True):
        ids, lens = learned.reads.encode_phrases([phrase])
        with torch.inference_mode():
            plain = encode(
                learned.model.network, torch.from_numpy(ids).long(), torch.from_numpy(lens)
            )
        np.testing.assert_allclose(summary, plain[0], atol=1e-6)


def test_words_of_both_sides(encdec: Path) -> None:
    learned = Learned.load(encdec)
    for side, table in (
        ("source", learned.model.network.source_embedding),
        ("target", learned.model.network.target_embedding),
    ):
        words, vectors = learned.word_vectors(side)  # type: ignore[arg-type]
        assert len(words) == 8 and b"<unk>" not in words
        np.testing.assert_array_equal(vectors, table.weight.detach()[2:])


def test_words_of_a_model_with_reversed_sides_stand_on_their_own(encdec: Path) -> None:
    learned = Learned.load(encdec)
    description = {"training": {"config": {"reading": "reversed-sides"}}}
    turned = replace(learned, model=replace(learned.model, description=description))
    for side, other in (("source", "target"), ("target", "source")):
        words, vectors = turned.word_vectors(side)  # type: ignore[arg-type]
        expected_words, expected = learned.word_vectors(other)  # type: ignore[arg-type]
        assert words == expected_words
        np.testing.assert_array_equal(vectors, expected)


def test_words_of_windows(cslm: Path, nnjm: Path) -> None:
    """The embedding of an NNJM has </s>, <unk> and the target words, <s>, then the same of the source."""
    words, vectors = Learned.load(cslm).word_vectors("target")
    assert words[0] == b"le" and vectors.shape == (8, 4)
    learned = Learned.load(nnjm)
    embedding = learned.model.network.embedding.weight.detach().numpy()
    np.testing.assert_array_equal(learned.word_vectors("target")[1], embedding[2:10])
    words, vectors = learned.word_vectors("source")
    assert words[0] == b"the"
    np.testing.assert_array_equal(vectors, embedding[13:21])


def test_a_model_without_source_words_is_refused(cslm: Path) -> None:
    with pytest.raises(InputError, match=r"no vectors of source words, expected --side target"):
        Learned.load(cslm).word_vectors("source")


def test_a_model_without_summaries_is_refused(nnjm: Path) -> None:
    with pytest.raises(InputError, match=r"'nnjm', which makes no vector of a phrase.*'encdec'"):
        Learned.load(nnjm).summaries(Compute())


def test_an_architecture_without_vectors_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says nothing of its vectors."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "added"))
    monkeypatch.setitem(ARCHITECTURES, "lstm", "lstm_pairs")
    from lstm_pairs import ARCHITECTURE  # type: ignore[import-not-found]

    try:
        vocabulary = Vocabulary([b"a"])
        shortlists = Shortlists(vocabulary, vocabulary)
        settings = ARCHITECTURE.settings()
        network = ARCHITECTURE.network(settings, shortlists)
        save_model(tmp_path / "m", "lstm", network, settings.model, shortlists, {})
        with pytest.raises(InputError, match=r"no vectors of target words, expected a model of"):
            Learned.load(tmp_path / "m").word_vectors("target")
    finally:
        sys.modules.pop("lstm_pairs", None)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        Learned.load(tmp_path)
