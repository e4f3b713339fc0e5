"""Accuracy of words by training frequency: by hand, and against lists from which words are crossed out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from tuning.compare.word_matches import FEWEST, count_words, word_accuracies


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_two_sentences_by_hand(tmp_path: Path) -> None:
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
