"""Mixed language models: sums to one, the probabilities of the mixture, and what is refused."""

from __future__ import annotations

import gzip
import itertools
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.language_model.arpa import read_arpa
from moses_bridge.builtin.language_model.kneser_ney import estimate
from moses_bridge.builtin.language_model.lm_index import LmIndex
from moses_bridge.builtin.language_model.mixed_model import mix_models
from moses_bridge.cli import main

KENLM_BINARY = Path(__file__).parents[3] / "data" / "kenlm" / "small.probing.gz"
TEXTS = {"one": "a b c\na b d\nc a b\nb b a c\na\n" * 2, "two": "a b e\ne e b\nb a e\nc b\n"}
DEV = "a b e\nc a b\nb a c\ne q\n"


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """A trigram model and a bigram model of other words."""
    for (name, text), order in zip(TEXTS.items(), (3, 2), strict=True):
        (tmp_path / name).write_text(text)
        estimate(tmp_path / name, tmp_path / f"{name}.arpa", order, (0,))
    (tmp_path / "dev").write_text(DEV)
    return [tmp_path / "one.arpa", tmp_path / "two.arpa"]


def prob(index: LmIndex, history: tuple[bytes, ...], word: bytes) -> float:
    """p(word | <s> history) by whole sentences; 0 where the model lacks the word."""
    if word not in index.vocabulary:
        return 0.0
    if word == b"<unk>":
        word = b"none of the words"
    scores, _ = index.score_sentence([*history, word])
    return float(10 ** (scores[-1] if word == b"</s>" else scores[len(history)]))


def end_prob(index: LmIndex, history: tuple[bytes, ...]) -> float:
    return float(10 ** index.score_sentence(history)[0][-1])


def test_the_probabilities_behind_each_context_sum_to_one(
    models: list[Path], tmp_path: Path
) -> None:
    mix_models(models, tmp_path / "out", (0.3, 0.7))
    index = LmIndex.read(tmp_path / "out")
    words = sorted(set(index.vocabulary) - {b"<s>", b"</s>"})
    assert set(words) == {b"<unk>", b"a", b"b", b"c", b"d", b"e"}
    for length in range(4):
        for history in itertools.product(words[1:], repeat=length):
            total = sum(prob(index, history, word) for word in words) + end_prob(index, history)
            assert total == pytest.approx(1, abs=3e-6)


def test_listed_ngrams_have_the_probability_of_the_mixture(
    models: list[Path], tmp_path: Path
) -> None:
    mix_models(models, tmp_path / "out", (0.3, 0.7))
    mixture = read_arpa(tmp_path / "out")
    indices = [LmIndex.read(path) for path in models]
    listed = {
        tuple(mixture.words[i] for i in ids): 10.0**log_prob
        for section in mixture.sections
        for ids, log_prob in zip(section.ids, section.log_probs, strict=True)
    }
    of_models = [read_arpa(path) for path in models]
    assert set(listed) == {
        tuple(model.words[i] for i in ids)
        for model in of_models
        for section in model.sections
        for ids in section.ids
    }
    n_compared = 0
    for ngram, found in listed.items():
        if ngram[0] == b"<s>" and len(ngram) > 1:
            history, word = ngram[1:-1], ngram[-1]
            both = [
                end_prob(index, history) if word == b"</s>" else prob(index, history, word)
                for index in indices
            ]
            assert found == pytest.approx(0.3 * both[0] + 0.7 * both[1], rel=1e-5)
            n_compared += 1
    assert n_compared == 8


def test_unigrams_by_hand(tmp_path: Path) -> None:
    head = "\\data\\\nngram 1=4\n\n\\1-grams:\n"
    (tmp_path / "m1").write_text(
        head + "0\t<s>\n-0.30103\t</s>\n-0.60206\ta\n-0.60206\t<unk>\n\n\\end\\\n"
    )
    (tmp_path / "m2").write_text(head + "-99\t<s>\n-0.30103\t</s>\n-1\ta\n-0.39794\tb\n\n\\end\\\n")
    mix_models([tmp_path / "m1", tmp_path / "m2"], tmp_path / "out", (0.25, 0.75))
    arpa = read_arpa(tmp_path / "out")
    found = dict(zip(arpa.words, 10.0 ** arpa.sections[0].log_probs, strict=True))
    # </s>: 0.5; a: 0.25·0.25 + 0.75·0.1; <unk>: 0.25·0.25; b: 0.75·0.4
    expected = {b"</s>": 0.5, b"a": 0.1375, b"<unk>": 0.0625, b"b": 0.3, b"<s>": 1.0}
    assert found == pytest.approx(expected, abs=1e-5)


def test_fitted_weights_are_no_worse_than_any(models: list[Path], tmp_path: Path) -> None:
    report = mix_models(models, tmp_path / "out", dev=tmp_path / "dev")
    assert report.perplexity is not None and report.n_unknown == 1
    indices = [LmIndex.read(path) for path in models]
    for weight in (0.01, 0.2, 0.4, 0.6, 0.8, 0.99):
        log_prob, n_tokens = 0.0, 0
        for line in DEV.split("\n")[:-1]:
            words = [word.encode() for word in line.split()]
            for place, word in enumerate(words):
                if word != b"q":
                    both = [prob(index, tuple(words[:place]), word) for index in indices]
                    log_prob += math.log2(weight * both[0] + (1 - weight) * both[1])
                    n_tokens += 1
            both = [end_prob(index, tuple(words)) for index in indices]
            log_prob += math.log2(weight * both[0] + (1 - weight) * both[1])
            n_tokens += 1
        assert report.perplexity <= 2 ** (-log_prob / n_tokens) + 1e-6
    assert sum(report.weights) == pytest.approx(1)


def test_the_command(models: list[Path], tmp_path: Path) -> None:
    arguments = ["mix-models", *map(str, models), "--out", str(tmp_path / "mixed.arpa.gz")]
    result = CliRunner().invoke(main, [*arguments, "--dev", str(tmp_path / "dev")])
    assert result.exit_code == 0, result.output
    assert "without 1 words of no model" in result.output
    assert LmIndex.read(tmp_path / "mixed.arpa.gz").order == 3
    result = CliRunner().invoke(main, [*arguments, "--corpus-weights", "1,1"])
    assert result.exit_code == 1 and "whose sum is 1" in result.output


def test_what_is_refused(models: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "binary").write_bytes(gzip.decompress(KENLM_BINARY.read_bytes()))
    with pytest.raises(InputError, match="found a binary file of KenLM, expected an ARPA file"):
        mix_models([models[0], tmp_path / "binary"], out, (0.5, 0.5))
    (tmp_path / "packed").write_bytes(KENLM_BINARY.read_bytes())
    with pytest.raises(
        InputError, match="found the end of a file that begins with 'mmap lm http://k"
    ):
        mix_models([models[0], tmp_path / "packed"], out, (0.5, 0.5))
    with pytest.raises(ConfigError, match="two or more to mix"):
        mix_models(models[:1], out, (1,))
    with pytest.raises(ConfigError, match="either --corpus-weights, or --dev"):
        mix_models(models, out)
    with pytest.raises(ConfigError, match="one for each model"):
        mix_models(models, out, (1,))
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="no line"):
        mix_models(models, out, dev=tmp_path / "empty")
    assert not out.exists()
