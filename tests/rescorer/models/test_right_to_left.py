"""Models that go from the right: what they say of text is said of the text in its own order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from rescorer.cli import main
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import Batch, Scorer, Shortlists, WordLogProbs, WordScorer
from rescorer.contract.vocabulary import Vocabulary
from rescorer.models.ensemble import ensemble
from rescorer.models.model_directory import (
    generator_of_model,
    load_model,
    save_model,
    scorer_of_model,
    translator_of_model,
)
from rescorer.models.right_to_left import RightToLeft, turned
from rescorer.scorers.rnn_lm.network import RnnLm, RnnLmConfig
from rescorer.scorers.rnnsearch.network import RnnSearch, RnnSearchConfig
from rescorer.tries.generation import GenerationConfig
from rescorer.views.alignment import attention_reader_of_model

SOURCE, TARGET = Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y", b"z"])
ON_CPU = Compute(device="cpu")
SENTENCES = [b"a b c", b"b", b"c a"]


class Bigrams:
    """Gives a word the number of itself and the word that it has seen before, such as 12 for 2 behind 1."""

    shortlist = TARGET
    needs_links = False

    def word_log_probs(self, asked: Batch) -> WordLogProbs:
        rows = [[0, *map(int, target.split()), 0] for target in asked.targets]
        values = [10 * before + word for row in rows for before, word in pairwise(row)]
        pairs = np.repeat(np.arange(len(rows)), [len(row) - 1 for row in rows])
        return WordLogProbs(np.array(values, np.float64), pairs)

    def values(self, asked: Batch) -> NDArray[np.float64]:
        found = self.word_log_probs(asked)
        return np.bincount(found.pairs, found.log_probs, len(asked))


def test_each_word_has_the_value_that_it_has_behind_the_word_to_its_right() -> None:
    asked = Batch([b""] * 4, [b"1 2  3", b"", b"4", b"5 6"])
    scorer = RightToLeft(Bigrams())
    found = scorer.word_log_probs(asked)
    assert found.log_probs.tolist() == [21, 32, 3, 10, 0, 4, 40, 65, 6, 50]
    assert found.pairs.tolist() == [0, 0, 0, 0, 1, 2, 2, 3, 3, 3]
    assert scorer.values(asked).tolist() == [66, 0, 44, 121]
    assert isinstance(scorer, WordScorer) and scorer.shortlist is TARGET


def test_words_are_turned_as_moses_tells_them_apart() -> None:
    assert turned([b"a\x0b b\tc ", b"", b"\xff"]) == [b"c b a\x0b", b"", b"\xff"]


def test_probabilities_of_words_from_both_ends_have_no_mean() -> None:
    both: list[Scorer] = [Bigrams(), RightToLeft(Bigrams())]
    with pytest.raises(ConfigError, match="predict the last word first"):
        ensemble(both, "word-probs")
    same = ensemble([RightToLeft(Bigrams())] * 2, "word-probs")
    asked = Batch([b""], [b"1 2"])
    assert same.values(asked) == pytest.approx(RightToLeft(Bigrams()).values(asked))
    assert ensemble(both, "sentence-log-probs").values(asked) == pytest.approx([(33 + 33) / 2])


def saved(folder: Path, name: str, network: Any, source: Vocabulary | None, **config: bool) -> Path:
    """The same network, with what a training would have recorded."""
    torch.manual_seed(3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    record = {"config": config}
    shortlists = Shortlists(source, TARGET)
    save_model(folder, name, network, network.config, shortlists, record)
    return folder


def rnnsearch(folder: Path, **config: bool) -> Path:
    network = RnnSearch(RnnSearchConfig("attention", 5, 4, 3, 2), len(SOURCE), len(TARGET), 0.0)
    return saved(folder, "rnnsearch", network, SOURCE, **config)


def rnn_lm(folder: Path, **config: bool) -> Path:
    return saved(
        folder, "rnn_lm", RnnLm(RnnLmConfig("gated", 4, 5, 3), len(TARGET)), None, **config
    )


def test_generated_targets_are_turned_and_have_their_scores(tmp_path: Path) -> None:
    config = GenerationConfig(n=3, beam=5, max_words=6)
    forward, backward = rnnsearch(tmp_path / "f"), rnnsearch(tmp_path / "b", right_to_left=True)
    plain = generator_of_model(forward, ON_CPU).generate(SENTENCES, config)
    found = [*translator_of_model(backward, ON_CPU).generate(SENTENCES, config)]
    scorer = scorer_of_model(backward, ON_CPU).scorer
    for source, ours, theirs in zip(SENTENCES, found, plain, strict=True):
        assert [one.words[::-1] for one in ours] == [one.words for one in theirs]
        assert [one.places[::-1] for one in ours] == [one.places for one in theirs]
        targets = [b" ".join(one.words) for one in ours]
        values = scorer.values(Batch([source] * len(targets), targets))
        np.testing.assert_allclose(values, [one.log_prob for one in ours], atol=1e-5)
    assert any(one.words != one.words[::-1] for targets in found for one in targets)


def test_a_language_model_puts_words_before_those_that_are_given(tmp_path: Path) -> None:
    generator = generator_of_model(rnn_lm(tmp_path / "lm", right_to_left=True), ON_CPU)
    config = GenerationConfig(n=4, beam=8, max_words=5)
    (targets,) = generator.generate([b""], config, beginnings=[b"x y"])
    assert targets and all(one.words[-2:] == (b"x", b"y") for one in targets)


def test_attention_is_told_word_by_word_of_the_target_in_its_own_order(tmp_path: Path) -> None:
    forward, backward = rnnsearch(tmp_path / "f"), rnnsearch(tmp_path / "b", right_to_left=True)
    pair, mirrored = Batch([b"a b c"], [b"x y z z"]), Batch([b"a b c"], [b"z z y x"])
    (found,) = attention_reader_of_model(backward, ON_CPU).matrices(pair)
    (theirs,) = attention_reader_of_model(forward, ON_CPU).matrices(mirrored)
    assert found.shape == (5, 4)
    np.testing.assert_array_equal(found[:4], theirs[3::-1])
    np.testing.assert_array_equal(found[4], theirs[4])


def test_perplexity_is_that_of_the_turned_text(tmp_path: Path) -> None:
    text = [b"x y z", b"unheard y", b"z"]
    (tmp_path / "text").write_bytes(b"\n".join(text) + b"\n")
    (tmp_path / "turned").write_bytes(b"\n".join(turned(text)) + b"\n")
    forward, backward = rnn_lm(tmp_path / "f"), rnn_lm(tmp_path / "b", right_to_left=True)
    ours, theirs = (
        CliRunner().invoke(main, ["perplexity", str(model), str(tmp_path / name)]).output
        for model, name in ((backward, "text"), (forward, "turned"))
    )
    assert "rnn_lm, right to left" in ours
    assert ours.splitlines()[2].split()[-3:] == theirs.splitlines()[2].split()[-3:]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["translate", "{model}", "{text}"], "it reads target text and predicts its source"),
        (["align", "{model}", "{text}", "{text}"], "source words look at target words"),
        (["perplexity", "{model}", "{text}", "--source", "{text}"], "which predicts the source"),
    ],
)
def test_models_of_the_source_are_refused_where_targets_are_wanted(
    tmp_path: Path, command: list[str], message: str
) -> None:
    model, text = rnnsearch(tmp_path / "m", reverse_sides=True), tmp_path / "text"
    text.write_bytes(b"a b\n")
    words = [word.format(model=model, text=text) for word in command]
    run = CliRunner().invoke(main, words)
    assert run.exit_code == 1
    assert message in " ".join(run.output.split())


def test_both_ways_at_once_turn_the_source(tmp_path: Path) -> None:
    """p(source | target), the source from its end: the network reads targets and predicts turned sources."""
    both = rnnsearch(tmp_path / "both", reverse_sides=True, right_to_left=True)
    plain = scorer_of_model(rnnsearch(tmp_path / "plain"), ON_CPU).scorer
    found = scorer_of_model(both, ON_CPU).scorer.values(Batch([b"x y z"], [b"a b"]))
    expected = plain.values(Batch([b"a b"], [b"z y x"]))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert load_model(both).goes_right_to_left and load_model(both).reverses_sides
