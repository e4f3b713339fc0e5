"""N-grams won and lost, and the accuracy of words by their frequency in training."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from tuning.compare.comparison import NgramMatches
from tuning.compare.word_matches import (
    FEWEST,
    N_SHOWN,
    contrast_ngrams,
    count_words,
    word_accuracies,
)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_ngrams_of_two_sentences_by_hand(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", ["le chat dort", "le chien"])
    system = write(tmp_path / "sys", ["le chat dort dort", "un chien"])
    baseline = write(tmp_path / "base", ["chat le", "le  chien chat"])
    found = contrast_ngrams("+A", [system], [baseline], reference)
    # Each of them once; "dort" is there twice in the output but once in the reference.
    assert found.won == [
        NgramMatches("le chat dort", 0.0, 1.0, 1),
        NgramMatches("chat dort", 0.0, 1.0, 1),
        NgramMatches("le chat", 0.0, 1.0, 1),
        NgramMatches("dort", 0.0, 1.0, 1),
    ]
    # "chat" and "chien" are matched once by both; "le" twice by the baseline, whose two lines have it.
    assert found.lost == [NgramMatches("le chien", 1.0, 0.0, 1), NgramMatches("le", 2.0, 1.0, 2)]


def test_matches_are_means_over_different_numbers_of_runs(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", ["a b"])
    runs = [write(tmp_path / str(n), [text]) for n, text in enumerate(["a", "a", "b", "a", "x"])]
    found = contrast_ngrams("+A", runs[:3], runs[3:], reference)
    # "a": 2 of 3 runs against 1 of 2; "b": 1 of 3 against none.
    assert [(each.ngram, each.system, each.baseline) for each in found.won] == [
        ("b", pytest.approx(1 / 3), 0.0),
        ("a", pytest.approx(2 / 3), 0.5),
    ]
    assert found.lost == []


def test_the_same_output_wins_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "ref", ["a b", ""])
    found = contrast_ngrams("Same", [path, path], [path], path)
    assert (found.won, found.lost) == ([], [])


def test_random_texts_against_a_search(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = [[rng.choices("abcd", k=rng.randint(0, 10)) for _ in range(60)] for _ in range(3)]
    reference, system, baseline = (
        write(tmp_path / str(n), [" ".join(words) for words in text])
        for n, text in enumerate(texts)
    )
    found = contrast_ngrams("+A", [system], [baseline], reference)
    ngrams = {
        tuple(words[i : i + n])
        for words in texts[0]
        for n in (1, 2, 3, 4)
        for i in range(len(words) - n + 1)
    }
    leads = {}
    for ngram in ngrams:
        ours, theirs = (
            sum(
                min(_places(ngram, words), _places(ngram, model))
                for words, model in zip(text, texts[0], strict=True)
            )
            for text in texts[1:]
        )
        leads[" ".join(ngram)] = ours - theirs
    for sign, shown in ((1, found.won), (-1, found.lost)):
        sizes = sorted((sign * lead for lead in leads.values() if sign * lead > 0), reverse=True)
        largest = sizes[:N_SHOWN]
        assert len(sizes) > N_SHOWN
        assert [sign * (each.system - each.baseline) for each in shown] == largest
        assert [sign * leads[each.ngram] for each in shown] == largest
        for each in shown:
            words = tuple(each.ngram.split(" "))
            assert each.reference == sum(_places(words, model) for model in texts[0])


def _places(ngram: tuple[str, ...], words: list[str]) -> int:
    return sum(tuple(words[i : i + len(ngram)]) == ngram for i in range(len(words)))


def test_an_output_of_another_length_is_an_error(tmp_path: Path) -> None:
    short, reference = write(tmp_path / "out", ["a"]), write(tmp_path / "ref", ["a", "b"])
    with pytest.raises(ValueError, match="longer than argument 1"):
        contrast_ngrams("+A", [short], [short], reference)


def test_accuracy_of_two_sentences_by_hand(tmp_path: Path) -> None:
    frequencies = {b"le": 1000, b"chat": 4, b"dort": 5}
    reference = write(tmp_path / "ref", ["le chat dort", "le le xyz"])
    # Right: "le" once and twice (one too many in the first line), "chat"; "dort" is in the wrong line.
    output = write(tmp_path / "out", ["le le chat", "le le  dort"])
    found = {each.label: each for each in word_accuracies([output], reference, frequencies)}
    assert [*found] == ["0", "1-4", "5-9", "10-99", "100-999", "1000+"]
    common, rare, wrong, unseen = found["1000+"], found["1-4"], found["5-9"], found["0"]
    assert (common.n_reference_words, common.precision, common.recall) == (3, 75.0, 100.0)
    assert common.f1 == pytest.approx(200 * 0.75 / 1.75)
    assert (rare.n_reference_words, rare.f1) == (1, 100.0)
    assert (wrong.n_reference_words, wrong.precision, wrong.recall, wrong.f1) == (1, 0.0, 0.0, 0.0)
    assert (unseen.n_reference_words, unseen.precision, unseen.f1) == (1, 0.0, 0.0)
    assert (found["10-99"].n_reference_words, found["10-99"].f1) == (0, 0.0)


def test_f1_is_a_mean_over_runs_and_not_that_of_their_sum(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", ["a a"])
    outputs = [write(tmp_path / "1", ["a a"]), write(tmp_path / "2", ["a b b b"])]
    (unseen, *_) = word_accuracies(outputs, reference, {})
    # F1: 100 and 2 * 1 / (4 + 2); precision: 100 and 25; recall: 100 and 50.
    assert (unseen.precision, unseen.recall) == (62.5, 75.0)
    assert unseen.f1 == pytest.approx((100 + 100 / 3) / 2)


def test_random_texts_against_words_crossed_out(tmp_path: Path) -> None:
    rng = random.Random(3)
    vocabulary = [f"w{n}" for n in range(12)]
    frequencies = {word.encode(): 3**place for place, word in enumerate(vocabulary[1:])}

    def lines() -> list[list[str]]:
        return [rng.choices(vocabulary, k=rng.randint(0, 9)) for _ in range(40)]

    texts = [lines() for _ in range(4)]
    paths = [
        write(tmp_path / str(n), [" ".join(words) for words in text])
        for n, text in enumerate(texts)
    ]
    found = word_accuracies(paths[1:], paths[0], frequencies)
    for place, each in enumerate(found):
        highest = FEWEST[place + 1] if place + 1 < len(FEWEST) else 10**9
        scores = [
            _crossed_out(texts[0], text, frequencies, FEWEST[place], highest) for text in texts[1:]
        ]
        for name, values in zip(
            ("precision", "recall", "f1"), zip(*scores, strict=True), strict=True
        ):
            assert getattr(each, name) == pytest.approx(sum(values) / 3), (each.label, name)


def _crossed_out(
    reference: list[list[str]],
    output: list[list[str]],
    frequencies: dict[bytes, int],
    low: int,
    high: int,
) -> tuple[float, float, float]:
    def own(words: list[str]) -> list[str]:
        return [word for word in words if low <= frequencies.get(word.encode(), 0) < high]

    right = n_found = n_expected = 0
    for expected, found in zip(map(own, reference), map(own, output), strict=True):
        n_found += len(found)
        n_expected += len(expected)
        left = [*expected]
        for word in found:
            if word in left:
                left.remove(word)
                right += 1
    precision, recall = right / max(n_found, 1), right / max(n_expected, 1)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return 100 * precision, 100 * recall, 100 * f1


def test_words_of_several_training_texts_add_up(tmp_path: Path) -> None:
    texts = [write(tmp_path / "1", ["a b a", ""]), write(tmp_path / "2", ["  b c"])]
    assert count_words(texts) == {b"a": 2, b"b": 2, b"c": 1}


def test_a_training_text_without_lines_is_refused(tmp_path: Path) -> None:
    texts = [write(tmp_path / "1", ["a"]), write(tmp_path / "empty", [])]
    with pytest.raises(InputError, match="empty: found no lines, expected the target side of a tr"):
        count_words(texts)
