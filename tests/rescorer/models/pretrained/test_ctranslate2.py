"""Values of CTranslate2's models: those of the model that was converted, and alone as beside others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.compute import Compute
from rescorer.models.pretrained.settings import PretrainedSettings

if TYPE_CHECKING:
    from rescorer.models.pretrained.ctranslate2_values import CTranslate2Scorer

CPU = Compute(device="cpu")
SOURCES = [b"the house is small .", b"it can be used", b"the green house"]
TARGETS = [
    b"la maison",
    b"la maison est petite .",
    b"peut",
    b"",
    b"la petite maison verte est utile",
    b"la <pad> maison </s> est",
]
PAIRS = Batch([each for each in SOURCES for _ in TARGETS], TARGETS * len(SOURCES))


def load(directory: Path) -> CTranslate2Scorer:
    from rescorer.models.pretrained.ctranslate2_values import load_ctranslate2

    return load_ctranslate2(directory, PretrainedSettings(), CPU, directory.name != "ct2-gpt2")


def test_values_are_those_of_the_converted_model(marian: Path, converted: Path) -> None:
    from rescorer.models.pretrained.hugging_face import load_hugging_face

    expected = load_hugging_face(marian, PretrainedSettings(), CPU, True).values(PAIRS)
    np.testing.assert_allclose(load(converted).values(PAIRS), expected, atol=1e-4, rtol=0)


def test_a_language_model_has_the_values_of_the_converted_one(
    gpt2: Path, converted_gpt2: Path
) -> None:
    from rescorer.models.pretrained.hugging_face import load_hugging_face

    expected = load_hugging_face(gpt2, PretrainedSettings(), CPU, False).subword_log_probs(PAIRS)
    scorer = load(converted_gpt2)
    found = scorer.subword_log_probs(PAIRS)
    for own, other in zip(found, expected, strict=True):
        assert own.tokens == other.tokens and own.tokens[-1] == b"</s>"
        np.testing.assert_allclose(own.log_probs, other.log_probs, atol=1e-4, rtol=0)
    assert scorer.note == "natural log p of the target's subwords and </s>"
    sums = [own.log_probs.sum() for own in expected]
    np.testing.assert_allclose(scorer.values(PAIRS), sums, atol=1e-4, rtol=0)


def test_weights_of_8_bits_are_told(
    marian: Path, converted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ctranslate2.converters import TransformersConverter

    names = ["source.spm", "target.spm", "vocab.json", "tokenizer_config.json"]
    small = converted.with_name("ct2-int8")
    TransformersConverter(str(marian), copy_files=names).convert(str(small), quantization="int8")
    load(converted)
    assert capsys.readouterr().err == ""
    values = load(small).values(PAIRS)
    assert f"note: {small}: weights of 8 bits" in capsys.readouterr().err
    assert np.abs(values - load(converted).values(PAIRS)).max() > 1e-3


def test_a_text_longer_than_the_language_model_is_refused(converted_gpt2: Path) -> None:
    """The end is predicted after 64 subwords: the first is <s>."""
    scorer, long = load(converted_gpt2), b" ".join([b"maison"] * 80)
    with pytest.raises(
        UnscorablePair, match="on the target side, expected at most the 64"
    ) as caught:
        scorer.values(Batch([b"", b""], [b"la", long]))
    assert caught.value.row == 1


@pytest.mark.parametrize("name", ["converted", "converted_gpt2"])
def test_a_value_does_not_depend_on_what_is_scored_beside_it(
    name: str, request: pytest.FixtureRequest
) -> None:
    scorer, rows = load(request.getfixturevalue(name)), np.arange(len(PAIRS))
    values = scorer.values(PAIRS)
    alone = np.concatenate([scorer.values(PAIRS.part(rows[row : row + 1])) for row in rows])
    assert np.abs(alone - values).max() <= 1e-5
    assert np.abs(scorer.values(PAIRS.part(rows[::-1]))[::-1] - values).max() <= 1e-5


def test_a_batch_has_pairs_of_equal_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    from rescorer.models.pretrained import ctranslate2_values
    from rescorer.models.pretrained.ctranslate2_values import _batches

    targets = [["a"], ["a", "b"], ["c"], ["d"]]
    assert [*_batches([3, 3, 2, 3], targets)] == [[2], [0, 3], [1]]
    monkeypatch.setattr(ctranslate2_values, "PAIRS_AT_ONCE", 2)
    assert [*_batches([3] * 5, [["a"]] * 5)] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("long", ["source", "target"])
def test_a_text_longer_than_the_model_is_refused(converted: Path, long: str) -> None:
    """A word is one subword, and </s> the 512th."""
    scorer = load(converted)
    sides = {"source": [b"the", b"the"], "target": [b"la", b"la"]}
    sides[long] = [b" ".join(sides[long][:1] * n_words) for n_words in (511, 512)]
    pairs = Batch(sides["source"], sides["target"])
    assert np.isfinite(scorer.values(pairs.part(np.array([0])))).all()
    with pytest.raises(UnscorablePair) as caught:
        scorer.values(pairs)
    assert caught.value.row == 1
    assert str(caught.value).endswith(
        f"found 513 subwords on the {long} side, expected at most the 512 that the model has "
        "positions for. Leave the pair out"
    )


def test_a_directory_without_a_model_is_refused(converted: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no model\.bin, expected an encoder-decoder model"):
        load(tmp_path)


def test_a_damaged_model_is_refused(converted: Path, tmp_path: Path) -> None:
    directory = tmp_path / "damaged"
    shutil.copytree(converted, directory)
    (directory / "model.bin").write_bytes(b"\x06\0\0\0")
    with pytest.raises(InputError, match="a model that fails to load"):
        load(directory)


def test_a_model_without_tokenizer_is_refused(converted: Path, tmp_path: Path) -> None:
    directory = tmp_path / "no-tokenizer"
    directory.mkdir()
    for name in ("model.bin", "config.json", "shared_vocabulary.json"):
        shutil.copy(converted / name, directory)
    with pytest.raises(InputError, match=r"a model without tokenizer.*--copy_files"):
        load(directory)
