"""Pseudo-log-likelihoods of masked language models: those of a plain loop, one word masked at a time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import InputError
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.compute import Compute
from rescorer.models.pretrained.settings import PretrainedSettings

if TYPE_CHECKING:
    from rescorer.models.pretrained.hugging_face import MaskedScorer

TEXTS = [
    b"la maison est petite",
    b"",
    b"une maison",
    b"la maison est petite",
    b"la [MASK] verte [SEP]",
]
PAIRS = Batch([b""] * len(TEXTS), TEXTS)


def load(directory: Path) -> MaskedScorer:
    from rescorer.models.pretrained.hugging_face import load_masked

    return load_masked(directory, PretrainedSettings(detokenize=False), Compute(device="cpu"))


def plain_values(directory: Path, texts: list[bytes]) -> list[list[float]]:
    """By transformers alone."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForMaskedLM.from_pretrained(directory).eval()
    values = []
    for text in texts:
        ids = tokenizer(text.decode(), split_special_tokens=True)["input_ids"]
        found = []
        for place in range(1, len(ids) - 1):
            read = torch.tensor([[*ids[:place], tokenizer.mask_token_id, *ids[place + 1 :]]])
            with torch.inference_mode():
                logits = model(input_ids=read).logits[0, place].double()
            found.append(float(logits.log_softmax(dim=0)[ids[place]]))
        values.append(found)
    return values


@pytest.mark.parametrize("at_once", [1, 1 << 26])
def test_values_are_those_of_one_masked_word_at_a_time(
    bert: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    import rescorer.models.pretrained.hugging_face

    monkeypatch.setattr(rescorer.models.pretrained.hugging_face, "LOGITS_AT_ONCE", at_once)
    expected, scorer = plain_values(bert, TEXTS), load(bert)
    found = scorer.subword_log_probs(PAIRS)
    for own, values in zip(found, expected, strict=True):
        assert own.log_probs == pytest.approx(values, abs=1e-5)
    sums = [sum(values) for values in expected]
    np.testing.assert_allclose(scorer.values(PAIRS), sums, atol=1e-5)
    words = b"".join(found[0].tokens).replace(b"##", b"")
    assert words == b"lamaisonestpetite" and found[1].tokens == []
    assert b"[MASK]" not in found[4].tokens and b"[SEP]" not in found[4].tokens


def test_a_value_does_not_depend_on_what_is_scored_beside_it(bert: Path) -> None:
    scorer = load(bert)
    alone = [scorer.values(PAIRS.part(np.array([row])))[0] for row in range(len(PAIRS))]
    assert scorer.values(PAIRS).tolist() == alone


def test_a_text_longer_than_the_model_is_refused(bert: Path) -> None:
    """A word is one subword; the model gives two positions to the ends."""
    texts = [b" ".join([b"la"] * n_words) for n_words in (30, 31)]
    with pytest.raises(
        UnscorablePair, match=r"found 33 subwords on the target side.* 32 "
    ) as caught:
        load(bert).values(Batch([b"", b""], texts))
    assert caught.value.row == 1
    assert np.isfinite(load(bert).values(Batch([b""], texts[:1]))).all()


def test_the_tokenizer_may_allow_less_than_the_model(bert: Path, tmp_path: Path) -> None:
    """As RoBERTa's does: two of its positions are for <pad>."""
    shutil.copytree(bert, tmp_path / "model")
    path = tmp_path / "model" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 10}))
    scorer = load(tmp_path / "model")
    assert np.isfinite(scorer.values(Batch([b""], [b"la " * 8]))).all()
    with pytest.raises(UnscorablePair, match=r"found 11 subwords .* 10 "):
        scorer.values(Batch([b""], [b"la " * 9]))


def test_a_model_of_prefixes_is_no_masked_one(gpt2: Path, marian: Path) -> None:
    with pytest.raises(InputError, match="expected a masked language model"):
        load(gpt2)
    with pytest.raises(InputError, match=r"found the model type 'marian'.*Write hf: for it"):
        load(marian)
