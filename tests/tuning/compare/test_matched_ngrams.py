"""N-grams won and lost: by hand, and against a search of each n-gram in each line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tuning.compare.comparison import NgramMatches
from tuning.compare.word_matches import N_SHOWN, contrast_ngrams


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_two_sentences_by_hand(tmp_path: Path) -> None:
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
