"""Models that read their data another way: what they say is said of pairs and text in their own order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray

from moses_bridge.base.config import from_mapping, load_toml
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.cli import main
from rescorer.contract.architectures import load
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer, Scorer, WordLogProbs, WordScorer
from rescorer.contract.target_generation import GenerationConfig
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.ensemble import ensemble
from rescorer.models.model_directory import (
    generator_of_model,
    load_model,
    save_model,
    scorer_of_model,
    translator_of_model,
)
from rescorer.models.reading import ReversedSides, RightToLeft, turned
from rescorer.scorers.rnn_lm import RnnLm, RnnLmConfig
from rescorer.scorers.rnnsearch import RnnSearch, RnnSearchConfig
from rescorer.views.alignment import attention_reader_of_model

SOURCE, TARGET = Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y", b"z"])
ON_CPU = Compute(device="cpu")
SENTENCES = [b"a b c", b"b", b"c a"]


class Bigrams:
    """Gives a word the number of itself and the word that it has seen before, such as 12 for 2 behind 1."""

    shortlist = TARGET
    needs_links = False

    def word_log_probs(self, batch: Batch) -> WordLogProbs:
        rows = [[0, *map(int, target.split()), 0] for target in batch.targets]
        values = [10 * before + word for row in rows for before, word in pairwise(row)]
        pairs = np.repeat(np.arange(len(rows)), [len(row) - 1 for row in rows])
        return WordLogProbs(np.array(values, np.float64), pairs)

    def values(self, batch: Batch) -> NDArray[np.float64]:
        found = self.word_log_probs(batch)
        return np.bincount(found.pairs, found.log_probs, len(batch))


def test_each_word_has_the_value_that_it_has_behind_the_word_to_its_right() -> None:
    batch = Batch([b""] * 4, [b"1 2  3", b"", b"4", b"5 6"])
    scorer = RightToLeft(Bigrams())
    found = scorer.word_log_probs(batch)
    assert found.log_probs.tolist() == [21, 32, 3, 10, 0, 4, 40, 65, 6, 50]
    assert found.pairs.tolist() == [0, 0, 0, 0, 1, 2, 2, 3, 3, 3]
    assert scorer.values(batch).tolist() == [66, 0, 44, 121]
    assert isinstance(scorer, WordScorer) and scorer.shortlist is TARGET


def test_words_are_turned_as_moses_tells_them_apart() -> None:
    assert turned([b"a\x0b b\tc ", b"", b"\xff"]) == [b"c b a\x0b", b"", b"\xff"]


def test_probabilities_of_words_from_both_ends_have_no_mean() -> None:
    both: list[Scorer] = [Bigrams(), RightToLeft(Bigrams())]
    with pytest.raises(ConfigError, match="predict the last word first"):
        ensemble(both, "word-probs")
    same = ensemble([RightToLeft(Bigrams())] * 2, "word-probs")
    batch = Batch([b""], [b"1 2"])
    assert same.values(batch) == pytest.approx(RightToLeft(Bigrams()).values(batch))
    assert ensemble(both, "sentence-log-probs").values(batch) == pytest.approx([(33 + 33) / 2])


def saved(folder: Path, name: str, network: Any, source: Vocabulary | None, **config: Any) -> Path:
    """The same network, with what a training would have recorded."""
    torch.manual_seed(3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    record = {"config": config}
    shortlists = Shortlists(source, TARGET)
    save_model(folder, name, network, network.config, shortlists, record)
    return folder


def rnnsearch(folder: Path, **config: Any) -> Path:
    network = RnnSearch(RnnSearchConfig("attention", 5, 4, 3, 2), len(SOURCE), len(TARGET), 0.0)
    return saved(folder, "rnnsearch", network, SOURCE, **config)


def rnn_lm(folder: Path, **config: Any) -> Path:
    return saved(
        folder, "rnn_lm", RnnLm(RnnLmConfig("gated", 4, 5, 3), len(TARGET)), None, **config
    )


def test_generated_targets_are_turned_and_have_their_scores(tmp_path: Path) -> None:
    config = GenerationConfig(n=3, beam=5, max_words=6)
    forward, backward = (
        rnnsearch(tmp_path / "f"),
        rnnsearch(tmp_path / "b", reading="right-to-left"),
    )
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
    generator = generator_of_model(rnn_lm(tmp_path / "lm", reading="right-to-left"), ON_CPU)
    config = GenerationConfig(n=4, beam=8, max_words=5)
    (targets,) = generator.generate([b""], config, beginnings=[b"x y"])
    assert targets and all(one.words[-2:] == (b"x", b"y") for one in targets)


def test_attention_is_told_word_by_word_of_the_target_in_its_own_order(tmp_path: Path) -> None:
    forward, backward = (
        rnnsearch(tmp_path / "f"),
        rnnsearch(tmp_path / "b", reading="right-to-left"),
    )
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
    forward, backward = rnn_lm(tmp_path / "f"), rnn_lm(tmp_path / "b", reading="right-to-left")
    ours, theirs = (
        CliRunner().invoke(main, ["perplexity", str(model), str(tmp_path / name)]).output
        for model, name in ((backward, "text"), (forward, "turned"))
    )
    assert "rnn_lm, right to left" in ours
    assert ours.splitlines()[2].split()[-3:] == theirs.splitlines()[2].split()[-3:]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["decode", "{model}", "{text}"], "it reads target text and predicts its source"),
        (["align", "{model}", "{text}", "{text}"], "source words look at target words"),
        (["perplexity", "{model}", "{text}", "--source", "{text}"], "which predicts the source"),
    ],
)
def test_models_of_the_source_are_refused_where_targets_are_wanted(
    tmp_path: Path, command: list[str], message: str
) -> None:
    model, text = rnnsearch(tmp_path / "m", reading="reversed-sides"), tmp_path / "text"
    text.write_bytes(b"a b\n")
    words = [word.format(model=model, text=text) for word in command]
    run = CliRunner().invoke(main, words)
    assert run.exit_code == 1
    assert message in " ".join(run.output.split())


def test_both_ways_at_once_turn_the_source(tmp_path: Path) -> None:
    """p(source | target), the source from its end: the network reads targets and predicts turned sources."""
    both = rnnsearch(tmp_path / "both", reading="reversed-sides-right-to-left")
    plain = scorer_of_model(rnnsearch(tmp_path / "plain"), ON_CPU).scorer
    found = scorer_of_model(both, ON_CPU).scorer.values(Batch([b"x y z"], [b"a b"]))
    expected = plain.values(Batch([b"a b"], [b"z y x"]))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert load_model(both).goes_right_to_left and load_model(both).reverses_sides


@pytest.mark.parametrize(
    ("former", "reading"),
    [
        ({"reverse_sides": False}, "as-is"),
        ({"reverse_sides": True}, "reversed-sides"),
        ({"right_to_left": True}, "right-to-left"),
        ({"reverse_sides": False, "right_to_left": False}, "as-is"),
        ({"reverse_sides": True, "right_to_left": True}, "reversed-sides-right-to-left"),
    ],
)
def test_models_of_earlier_versions_are_read_as_they_were(
    tmp_path: Path, former: dict[str, bool], reading: str
) -> None:
    """Their records have two keys in the place of one; their values are those of the same weights."""
    old, new = rnnsearch(tmp_path / "old", **former), rnnsearch(tmp_path / "new", reading=reading)
    loaded = load_model(old)
    assert loaded.training.reading == reading
    assert loaded.description["training"] == {"config": {"reading": reading}}
    batch = Batch([b"a b", b"x y z"], [b"x y z", b"c a"])
    found, expected = (scorer_of_model(model, ON_CPU).scorer.values(batch) for model in (old, new))
    assert found.tolist() == expected.tolist()


def test_a_reading_that_is_none_is_refused(tmp_path: Path) -> None:
    model = rnnsearch(tmp_path / "m", reading="sideways")
    with pytest.raises(
        InputError, match=r"config\.json: found reading 'sideways', expected one of as"
    ):
        load_model(model)


@pytest.mark.parametrize(
    ("architecture", "key", "now"),
    [
        ("encdec", "reverse_sides", 'reading = "reversed-sides"'),
        ("rnn_lm", "right_to_left", 'reading = "right-to-left"'),
        ("rnnsearch", "right_to_left", 'reading = "right-to-left"'),
    ],
)
def test_keys_of_earlier_versions_are_told_by_their_new_name(
    tmp_path: Path, architecture: str, key: str, now: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f"{key} = true\n")
    with pytest.raises(ConfigError, match=f"unknown key '{key}'; write {now}"):
        from_mapping(load(architecture).settings, load_toml(path), "file")


@pytest.mark.parametrize("name", ["cptm", "encdec"])
def test_a_reading_that_the_data_do_not_have_is_refused(name: str, tmp_path: Path) -> None:
    mapping = {"reading": "right-to-left"}
    with pytest.raises(ConfigError, match="found 'right-to-left', expected one of as-is, reversed"):
        from_mapping(load(name).settings, mapping, "the test")


READS = Vocabulary([b"x"])


class Lengths:
    """10 x words of what it takes for the source + words of what it takes for the target."""

    shortlist = Vocabulary([b"a"])
    needs_links = True

    def __init__(self) -> None:
        self.links: list[bytes] = []

    def values(self, batch: Batch) -> NDArray[np.float64]:
        if any(len(target.split()) > 2 for target in batch.targets):
            raise UnscorablePair(1, batch, "target", "3 words", "at most 2", "Take fewer")
        self.links = list(batch.links or [])
        pairs = zip(batch.sources, batch.targets, strict=True)
        return np.array(
            [10.0 * len(source.split()) + len(target.split()) for source, target in pairs]
        )


def test_the_scorer_sees_the_sides_swapped() -> None:
    inner = Lengths()
    scorer = ReversedSides(inner, READS)
    batch = Batch([b"a", b"a b"], [b"x y z", b""], [b"0-2 0-10", b""])
    assert scorer.values(batch).tolist() == [31, 2]
    assert inner.links == [b"2-0 10-0", b""] and scorer.needs_links


def test_unknown_words_are_those_of_the_target() -> None:
    scorer = NamedScorer("reversed", ReversedSides(Lengths(), READS), "1").scorer
    assert scorer.shortlist is READS


def test_what_predicts_the_source_predicts_no_target_word() -> None:
    assert not isinstance(ReversedSides(Lengths(), READS), WordScorer)


def test_a_pair_without_a_value_is_told_with_its_own_sides() -> None:
    scorer = ReversedSides(Lengths(), READS)
    message = r"'a b c \|\|\| y': found 3 words on the source side, expected at most 2. Take fewer"
    with pytest.raises(UnscorablePair, match=message) as caught:
        scorer.values(Batch([b"a", b"a b c"], [b"x", b"y"], [b"", b""]))
    assert caught.value.row == 1


def test_pairs_without_links_stay_without() -> None:
    assert Batch([b"a"], [b"x"]).sides_swapped() == Batch([b"x"], [b"a"])
