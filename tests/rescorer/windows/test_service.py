"""A CSLM behind the protocol of the search, against whole sentences and a plain sum."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from rescorer.cli import main
from rescorer.compute import Compute
from rescorer.contract import Batch, Shortlists, TrainedModel
from rescorer.model_directory import save_model
from rescorer.scorers.cslm.inference import cslm_ngram_scorer, cslm_scorer
from rescorer.scorers.cslm.network import Cslm, CslmConfig
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.softmax import output_layer
from rescorer.vocabulary import Vocabulary
from rescorer.windows.ngrams import sentence_ngrams
from rescorer.windows.service import WindowNgramScorer

WORDS = [b"w%d" % i for i in range(40)]
SIZES = CslmConfig(context_words=2, embedding_width=6, first_width=12, second_width=8)


@pytest.fixture
def model() -> Cslm:
    torch.manual_seed(2)
    network = Cslm(SIZES, len(WORDS) + 2)
    for parameter in (network.output.weight, network.output.bias):
        torch.nn.init.normal_(parameter)
    return network


def trained(network: Cslm) -> TrainedModel[Cslm]:
    return TrainedModel("cslm", network.eval(), Shortlists(None, Vocabulary(WORDS)), {})


def ngram_scorer(network: Cslm) -> WindowNgramScorer:
    return cslm_ngram_scorer(trained(network), Compute(device="cpu"))


def ngrams_of(vocabulary: Vocabulary, sentences: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    ids, lens = vocabulary.encode_text(sentences)
    return sentence_ngrams(ids, lens, SIZES.context_words, len(WORDS) + 2, vocabulary.end_id)


def test_values_add_up_to_those_of_sentences(model: Cslm) -> None:
    vocabulary = Vocabulary(WORDS)
    sentences = [b"w1 w2 w3", b"", b"what w39 </s> w0 w0"]
    ngrams, sentence_of = ngrams_of(vocabulary, sentences)
    scorer = ngram_scorer(model)
    assert (scorer.order, scorer.start_id, scorer.end_id) == (3, 42, 0)
    sums = np.bincount(sentence_of, weights=scorer.log_probs(ngrams))
    whole = cslm_scorer(trained(model), Compute(device="cpu"))
    expected = whole.values(Batch([b""] * len(sentences), sentences))
    assert sums == pytest.approx(expected, abs=1e-5)
    np.testing.assert_array_equal(scorer.estimates(ngrams), scorer.log_probs(ngrams))
    assert scorer.encode([b"w0", b"what", b"</s>", b"w39"]).tolist() == [2, 1, 1, 41]


def test_estimates_count_every_third_rare_word_for_all_of_them(
    model: Cslm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "N_FREQUENT", 12)
    monkeypatch.setattr(output_layer, "STEP", 3)
    ngrams, _ = ngrams_of(Vocabulary(WORDS), [b"w1 w2 w30 w4 w5"])
    scorer = ngram_scorer(model)
    with torch.inference_mode():
        contexts = torch.from_numpy(ngrams[:, :-1].copy()).long()
        logits = model.output(model.hidden(contexts)).double().numpy()
    terms = np.exp(logits)
    denominators = terms[:, :12].sum(axis=1) + 3 * terms[:, 12::3].sum(axis=1)
    expected = logits[np.arange(len(ngrams)), ngrams[:, -1]] - np.log(denominators)
    np.testing.assert_allclose(scorer.estimates(ngrams), expected, atol=1e-5)
    np.testing.assert_allclose(scorer.estimates(ngrams), scorer.log_probs(ngrams), atol=2)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_command_answers_on_standard_output(
    model: Cslm, tmp_path: Path, precision: str
) -> None:
    vocabulary = Vocabulary(WORDS)
    save_model(tmp_path / "cslm", "cslm", model, SIZES, Shortlists(None, vocabulary), {})
    ngrams, _ = ngrams_of(vocabulary, [b"w1 w2"])
    request = b"N" + struct.pack("<I", ngrams.nbytes) + ngrams.astype("<i4").tobytes()
    arguments = ["serve", str(tmp_path / "cslm"), "--precision", precision]
    result = CliRunner().invoke(main, arguments, input=request)
    greeting, _, answer = result.stdout_bytes.partition(b"\n")
    assert (result.exit_code, greeting) == (0, b"ngram-scorer 2 3 42 0 -1 0")
    expected = ngram_scorer(model).log_probs(ngrams)
    error = 1e-6 if precision == "float32" else 0.05
    np.testing.assert_allclose(np.frombuffer(answer, "<f4"), expected, atol=error)


def test_a_model_of_phrase_pairs_is_no_language_model(tmp_path: Path) -> None:
    encdec = EncoderDecoder(EncDecConfig(8, 4, 4), 5, 42)
    shortlists = Shortlists(Vocabulary(WORDS[:3]), Vocabulary(WORDS))
    save_model(tmp_path / "rnn", "encdec", encdec, encdec.config, shortlists, {})
    result = CliRunner().invoke(main, ["serve", str(tmp_path / "rnn")], prog_name="rescorer")
    assert result.exit_code == 1
    assert "expected a language model of n-grams" in result.output
