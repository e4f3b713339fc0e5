from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.nbest import parse_features, read_nbest
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import Scorer
from rescorer.contract.target_generation import GenerationConfig
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder, encdec_scorer
from rescorer.tries.generation import Generator
from rescorer.views import translation as module
from rescorer.views.translation import (
    NO_LEXICON,
    NBestOutput,
    TranslationLexicon,
    WordTranslation,
    read_lexicon,
    translate,
    without_unknown_words,
)

SOURCE = Vocabulary([b"a", b"b", b"c"])
TARGET = Vocabulary([b"t%d" % number for number in range(9)])
TEXT = b"a b\n\nc  a zebra\nb\n"
CONFIG = GenerationConfig(n=4, max_words=6, length_penalty=0.6)


def make(target: Vocabulary = TARGET) -> tuple[Generator[Any, Any, Any, Any], Scorer]:
    torch.manual_seed(2)
    network = EncoderDecoder(EncDecConfig(8, 5, 4, "lstm"), len(SOURCE), len(target))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    shortlists = Shortlists(SOURCE, target)
    model = TrainedModel("encdec", network.eval(), shortlists, {})
    scorer = encdec_scorer(model, Compute(device="cpu"))
    return Generator(scorer.network, shortlists), scorer


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "text").write_bytes(TEXT)
    return str(tmp_path / "text")


def test_translations_and_their_lists(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, scorer = make()
    monkeypatch.setattr(module, "SENTENCES_AT_ONCE", 2)
    nbest = NBestOutput(str(tmp_path / "nbest.gz"), "RNN0")
    n_unknown = translate(generator, text, CONFIG, str(tmp_path / "out"), nbest)
    lines = (tmp_path / "out").read_bytes().split(b"\n")
    entries = list(read_nbest(nbest.path))
    assert len(lines) == 5 and lines[1] == lines[4] == b""
    assert [entry.sentence_id for entry in entries] == [0] * 4 + [2] * 4 + [3] * 4
    assert [entries[first].words for first in (0, 4, 8)] == [lines[0], lines[2], lines[3]]
    sentences = TEXT.split(b"\n")
    batch = Batch([sentences[e.sentence_id] for e in entries], [e.words for e in entries])
    values = [parse_features(entry, "n")["RNN0"][0] for entry in entries]
    np.testing.assert_allclose(values, scorer.values(batch), rtol=1e-4)
    for entry, value in zip(entries, values, strict=True):
        expected = value / (len(entry.words.split()) + 1) ** 0.6
        assert entry.total == pytest.approx(expected, rel=1e-4)
    assert n_unknown == sum(line.count(b"<unk>") for line in lines)


def test_without_lists_only_the_best(text: str, tmp_path: Path) -> None:
    generator, _ = make()
    nbest = NBestOutput(str(tmp_path / "nbest"))
    translate(generator, text, CONFIG, str(tmp_path / "one"), nbest)
    translate(generator, text, CONFIG, str(tmp_path / "other"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_unknown_words_become_words_of_the_lexicon(text: str, tmp_path: Path) -> None:
    """With a network of no other words than <unk>."""
    generator, _ = make(Vocabulary([]))
    with torch.no_grad():
        generator.network.output.bias[1] += 3
    lexicon = TranslationLexicon(
        {}, {b"a": WordTranslation(b"un", 0.5), b"b": WordTranslation(b"de|||ux", 0.9)}
    )
    nbest = NBestOutput(str(tmp_path / "n"))
    config = GenerationConfig(n=1, max_words=2, length_penalty=2.0)
    translate(generator, text, config, str(tmp_path / "out"), nbest, lexicon)
    assert (tmp_path / "out").read_bytes() == b"de|||ux un\n\nun <unk>\nde|||ux <unk>\n"
    assert next(read_nbest(tmp_path / "n")).words == b"de&#124;&#124;&#124;ux un"


def test_an_empty_text_has_an_empty_translation(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    generator, _ = make()
    assert translate(generator, str(tmp_path / "t"), CONFIG, str(tmp_path / "out")) == 0
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize(
    ("config", "feature", "message"),
    [
        (GenerationConfig(sample=True), "NN0", "leave sample out"),
        (GenerationConfig(), "NN_0", "expected letters and digits"),
    ],
)
def test_what_does_not_fit_is_refused(
    config: GenerationConfig, feature: str, message: str, text: str, tmp_path: Path
) -> None:
    generator, _ = make()
    with pytest.raises(ConfigError, match=message):
        translate(generator, text, config, str(tmp_path / "o"), NBestOutput("n", feature))
    assert not (tmp_path / "o").exists()


def test_a_model_without_a_source_translates_nothing(text: str, tmp_path: Path) -> None:
    generator, _ = make()
    blind = Generator(generator.network, Shortlists(None, TARGET))
    with pytest.raises(ConfigError, match="sees no source"):
        translate(blind, text, CONFIG, str(tmp_path / "o"))


LINES = b"""chien dog 0.75
toutou dog 0.25
clebs dog 0.2
maison house 0.5
manoir house 0.375
abri shed 0.125
"""
U = b"<unk>"


@pytest.fixture
def lexicon(tmp_path: Path) -> TranslationLexicon:
    (tmp_path / "lex.f2e").write_bytes(LINES)
    return read_lexicon(tmp_path / "lex.f2e", Vocabulary([b"chien", b"maison", b"le"]))


def test_the_best_translations(lexicon: TranslationLexicon) -> None:
    assert {source: one.word for source, one in lexicon.best.items()} == {
        b"dog": b"chien",
        b"house": b"maison",
        b"shed": b"abri",
    }
    outside = {source: (one.word, one.prob) for source, one in lexicon.best_outside.items()}
    assert outside[b"dog"] == (b"toutou", 0.25) and outside[b"house"] == (b"manoir", 0.375)


def test_an_attention_says_which_word(lexicon: TranslationLexicon) -> None:
    source = [b"the", b"dog", b"Rex"]
    words = without_unknown_words([b"le", U, U], [0, 1, 2], source, lexicon)
    assert words == [b"le", b"chien", b"Rex"]
    assert without_unknown_words([b"le", U, U], [0, 2, 1], source, NO_LEXICON) == [
        b"le",
        b"Rex",
        b"dog",
    ]


def test_without_an_attention_the_lexicon_says_which(lexicon: TranslationLexicon) -> None:
    """The most probable word outside the shortlist first, each source word once."""
    source = [b"the", b"dog", b"house"]
    words = without_unknown_words([U, b"le", U, U], [-1] * 4, source, lexicon)
    assert words == [b"manoir", b"le", b"toutou", U]


def test_nothing_known_nothing_done() -> None:
    assert without_unknown_words([U, b"a"], [-1, -1], [b"dog"], NO_LEXICON) == [U, b"a"]


@pytest.mark.parametrize(
    "line", [b"chien dog", b"chien dog 1.5", b"chien dog x", b"a b c 0.5", b""]
)
def test_a_malformed_line_is_refused(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "lex").write_bytes(b"a b 0.5\n" + line + b"\n")
    with pytest.raises(
        InputError, match=r"lex:2: .*a target word, a source word and a probability"
    ):
        read_lexicon(tmp_path / "lex", Vocabulary([]))
