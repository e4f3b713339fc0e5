"""Perplexities by hand, over the same words for all models."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import WordLogProbs
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.scorers.nnjm.network import Nnjm, NnjmConfig, n_input_words
from rescorer.scorers.rnn_lm import RnnLm, RnnLmConfig
from rescorer.views import perplexity as module
from rescorer.views.perplexity import TextModel, load_text_model, perplexities

COMPUTE = Compute(device="cpu")


class Unigrams:
    """Each word has one probability, and every other word that of <unk>."""

    def __init__(self, probs: dict[bytes, float], end: float, unknown: float) -> None:
        self.probs = probs
        self.end, self.unknown = end, unknown

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        values, pairs = [], []
        for number, target in enumerate(batch.targets):
            words = target.split()
            values += [self.probs.get(word, self.unknown) for word in words] + [self.end]
            pairs += [number] * (len(words) + 1)
        return WordLogProbs(np.log(values), np.array(pairs))


def unigrams(name: str, probs: dict[bytes, float], end: float, unknown: float) -> TextModel:
    return TextModel(name, "1-gram", Unigrams(probs, end, unknown), probs.__contains__)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "dev"
    path.write_bytes(b"a b\n\nc a zebra\n \n")
    return path


def test_numbers_by_hand(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """a b </s> c a zebra </s>: c and zebra are outside for one model or both."""
    one = unigrams("one", {b"a": 0.5, b"b": 0.2, b"c": 0.1}, end=0.1, unknown=0.05)
    other = unigrams("other", {b"a": 0.25, b"b": 0.25}, end=0.25, unknown=0.25)
    monkeypatch.setattr(module, "SENTENCES_AT_ONCE", 1)
    report = perplexities([one, other], Data(text))
    assert (report.n_sentences, report.n_words, report.n_outside) == (2, 7, 2)
    first, second = report.models
    assert (first.n_unknown, second.n_unknown) == (1, 2)
    shared = 0.5 * 0.2 * 0.1 * 0.5 * 0.1
    assert first.perplexity == pytest.approx(shared ** (-1 / 5))
    assert first.log_prob == pytest.approx(math.log(shared))
    assert first.perplexity_with_unknown == pytest.approx((shared * 0.1 * 0.05) ** (-1 / 7))
    assert second.perplexity == second.perplexity_with_unknown == pytest.approx(4)
    assert second.log_prob_with_unknown == pytest.approx(7 * math.log(0.25))


def test_the_table_and_the_json(text: Path) -> None:
    report = perplexities([unigrams("lm", {b"a": 0.25}, 0.25, 0.25)], Data(text))
    lines = str(report).splitlines()
    assert "2 sentences, 7 words with </s>; 3 (42.86%) outside" in lines[0]
    assert lines[2].split() == ["lm", "1-gram", "4.00", "4.00", "3"]
    assert report.as_json()["models"][0]["model"] == "lm"
    assert report.as_json()["n_outside"] == 3


def test_a_text_of_unknown_words_has_its_ends(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"x y\nz\n")
    (result,) = perplexities([unigrams("lm", {}, 0.5, 0.1)], Data(tmp_path / "t")).models
    assert result.perplexity == pytest.approx(2) and result.n_unknown == 3


def save_rnn_lm(folder: Path, words: list[bytes]) -> Path:
    torch.manual_seed(3)
    vocabulary = Vocabulary(words)
    network = RnnLm(RnnLmConfig("gated", 7, 5, 4), len(vocabulary))
    shortlists = Shortlists(None, vocabulary)
    save_model(folder / "lm", "rnn_lm", network, network.config, shortlists, {})
    return folder / "lm"


def test_the_perplexity_of_a_network(text: Path, tmp_path: Path) -> None:
    model = load_text_model(save_rnn_lm(tmp_path, [b"a", b"b", b"c"]), COMPUTE)
    report = perplexities([model], Data(text))
    values = module.load_model(tmp_path / "lm").network.log_probs(
        torch.tensor([[2, 3, 0, 0], [4, 2, 1, 0]]), torch.tensor([2, 3])
    )
    assert report.models[0].log_prob_with_unknown == pytest.approx(values.sum().item(), abs=1e-5)
    assert report.models[0].kind == "rnn_lm" and report.n_outside == 1


def test_models_that_see_the_source(text: Path, tmp_path: Path) -> None:
    """Of sentence pairs with an empty side nothing is told, as in a training."""
    source, target = Vocabulary([b"s"]), Vocabulary([b"a", b"b"])
    shortlists = Shortlists(source, target)
    network = EncoderDecoder(EncDecConfig(5, 4, 3), len(source), len(target))
    save_model(tmp_path / "encdec", "encdec", network, network.config, shortlists, {})
    joint = Nnjm(NnjmConfig(2, 3, 4, 5, 0), n_input_words(shortlists), len(target))
    save_model(tmp_path / "nnjm", "nnjm", joint, joint.config, shortlists, {})
    (tmp_path / "source").write_bytes(b"s\ns\ns t\n\n")
    (tmp_path / "links").write_bytes(b"0-0\n\n0-0 1-1\n\n")
    models = [load_text_model(tmp_path / name, COMPUTE) for name in ("encdec", "nnjm")]
    data = Data(text, tmp_path / "source", tmp_path / "links")
    report = perplexities(models, data)
    assert (report.n_sentences, report.n_words, report.n_outside) == (2, 7, 2)
    assert all(one.perplexity and one.perplexity > 1 for one in report.models)
    with pytest.raises(ConfigError, match="sees more than the target text: name --source too"):
        perplexities(models, Data(text))
    with pytest.raises(ConfigError, match="name --links too"):
        perplexities(models, Data(text, tmp_path / "source"))


def test_an_ngram_model_stands_beside_a_network(text: Path, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_bytes(
        b"\\data\\\nngram 1=4\n\n\\1-grams:\n-99\t<s>\n-0.5\t</s>\n-0.5\ta\n-0.5\tb\n\n\\end\\\n"
    )
    models = [tmp_path / "lm.arpa", save_rnn_lm(tmp_path, [b"a", b"b", b"c"])]
    report = perplexities([load_text_model(path, COMPUTE) for path in models], Data(text))
    first = report.models[0]
    assert first.kind == "1-gram" and (first.n_unknown, report.n_outside) == (2, 2)
    assert first.perplexity == pytest.approx(10**0.5, rel=1e-5)
    assert first.perplexity_with_unknown == pytest.approx(10 ** ((5 * 0.5 + 2 * 100) / 7), rel=1e-4)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_text_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(InputError, match="no sentence"):
        perplexities([unigrams("lm", {}, 0.5, 0.1)], Data(tmp_path / "t"))


def test_a_model_that_predicts_no_words_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = save_rnn_lm(tmp_path, [b"a"])
    loads: Callable[[str], object] = module.load

    class Valued:
        data = "text"

        @staticmethod
        def scorer(*_: object) -> object:
            return object()

    monkeypatch.setattr(module, "load", lambda name: Valued if name == "rnn_lm" else loads(name))
    with pytest.raises(InputError, match="does not predict word by word"):
        load_text_model(directory, COMPUTE)
