"""Perplexities by hand, over the same words for all models; n-gram models by hand, against kenlm."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.language_model.lm_index import LmIndex
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import WordLogProbs
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.scorers.nnjm import Nnjm, NnjmConfig, n_input_words
from rescorer.scorers.rnn_lm import RnnLm, RnnLmConfig
from rescorer.views import perplexity as module
from rescorer.views.perplexity import TextModel, load_text_model, perplexities, read_ngram_model
from tests.rescorer.plain_networks import log_probs

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
    assert asdict(report)["models"][0]["model"] == "lm"
    assert asdict(report)["n_outside"] == 3


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
    values = log_probs(
        module.load_model(tmp_path / "lm").network,
        torch.tensor([[2, 3, 0, 0], [4, 2, 1, 0]]),
        torch.tensor([2, 3]),
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


ARPA = b"""\
\\data\\
ngram 1=5
ngram 2=4

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.5
-0.7\t</s>
-0.4\ta\t-0.25
-0.9\tb\t-0.125

\\2-grams:
-0.2\t<s> a
-0.3\ta b
-0.6\tb </s>
-0.8\ta a

\\end\\
"""

DATA = Path(__file__).resolve().parents[2] / "data"
BINARY = DATA / "kenlm" / "small.probing.gz"
ARPA_OF_BINARY = DATA / "moses" / "extract" / "lm.o5.prune001.arpa.gz"


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_bytes(ARPA)
    return path


def test_words_by_hand(arpa: Path) -> None:
    """<s> a b </s>, all found; b at the start and the end behind a by back-off; an unknown word."""
    model = read_ngram_model(arpa)
    found = model.word_log_probs(Batch([b""] * 3, [b"a b", b"b a", b"a zebra"]))
    expected = [-0.2, -0.3, -0.6, -0.5 - 0.9, -0.125 - 0.4, -0.25 - 0.7, -0.2, -0.25 - 1.5, -0.7]
    np.testing.assert_allclose(found.log_probs, math.log(10) * np.array(expected), atol=1e-6)
    assert found.pairs.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] and model.order == 2
    known = [
        word for word in (b"a", b"b", b"zebra", b"<s>", b"</s>", b"<unk>") if model.is_known(word)
    ]
    assert known == [b"a", b"b"]


def test_look_ups_through_kenlm_give_the_same(arpa: Path, kenlm: object) -> None:
    """kenlm's module writes no binary files, but it reads both forms with the same function."""
    one, other = read_ngram_model(arpa), module._of_kenlm(arpa)
    batch = Batch([b""] * 4, [b"a b", b"b </s> a", b"zebra a a", b""])
    np.testing.assert_allclose(
        other.word_log_probs(batch).log_probs, one.word_log_probs(batch).log_probs, atol=1e-5
    )
    words = (b"a", b"b", b"zebra", b"<s>", b"</s>", b"<unk>")
    assert [one.is_known(word) for word in words] == [other.is_known(word) for word in words]
    assert other.order == 2


def test_no_sentence(arpa: Path) -> None:
    found = read_ngram_model(arpa).word_log_probs(Batch([], []))
    assert found.log_probs.shape == found.pairs.shape == (0,)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"no model\n")
    with pytest.raises(InputError, match="Is this an ARPA file"):
        read_ngram_model(tmp_path / "x")


def test_a_damaged_binary_file_is_refused(tmp_path: Path, kenlm: object) -> None:
    (tmp_path / "x").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0 nonsense")
    with pytest.raises(InputError, match="numbers of another machine, or damage"):
        read_ngram_model(tmp_path / "x")
    with pytest.raises(InputError, match="a file that kenlm cannot read"):
        module._of_kenlm(tmp_path / "x")


def test_a_binary_file_is_the_model_it_was_made_of(tmp_path: Path) -> None:
    (tmp_path / "lm.binary").write_bytes(gzip.decompress(BINARY.read_bytes()))
    one, other = read_ngram_model(tmp_path / "lm.binary"), read_ngram_model(ARPA_OF_BINARY)
    batch = Batch(
        [b""] * 3, [b"never", b"", b" ".join(sorted(LmIndex.read(ARPA_OF_BINARY).vocabulary))]
    )
    values, expected = one.word_log_probs(batch), other.word_log_probs(batch)
    assert values.log_probs.tolist() == expected.log_probs.tolist() and one.order == 5


def test_kenlm_itself_reads_a_file_without_words(tmp_path: Path, kenlm: object) -> None:
    """build_binary -v writes the same file with a zero here, and without the words at the end."""
    data = bytearray(gzip.decompress(BINARY.read_bytes()))
    data[100] = 0
    (tmp_path / "lm.binary").write_bytes(data)
    one, other = read_ngram_model(tmp_path / "lm.binary"), read_ngram_model(ARPA_OF_BINARY)
    batch = Batch([b""], [b"never a word"])
    np.testing.assert_allclose(
        one.word_log_probs(batch).log_probs, other.word_log_probs(batch).log_probs, atol=1e-5
    )
