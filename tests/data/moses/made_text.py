"""The text of this folder: two made-up languages, from a seed, with word links in two directions.

`python made_text.py FOLDER` writes it. In the second language adjectives follow their noun, the verb
stands last in one clause of three, a negation goes around the verb, some words have two translations
or are translated by two words, and articles have no link.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

N_TRAIN, N_TEST, N_DEV = 150, 20, 50
Link = tuple[int, int]


@dataclass(frozen=True)
class Pair:
    """Words of both sides, and the links (source word, target word) of each direction."""

    source: list[str]
    target: list[str]
    forward: list[Link]
    reverse: list[Link]


class Draw:
    """Draws from `random.random` alone, whose numbers are the same in every version of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def index(self, n: int) -> int:
        return int(self.random() * n)

    def often_the_first(self, n: int) -> int:
        """Small numbers more often, as words are in a text."""
        return int(n * self.random() ** 2.5)

    def word(self, onsets: Sequence[str], vowels: Sequence[str], n_syllables: int) -> str:
        syllables = [
            onsets[self.index(len(onsets))] + vowels[self.index(len(vowels))]
            for _ in range(n_syllables)
        ]
        return "".join(syllables)


class Language:
    """Words by class, each with its translations: a list of lists of words."""

    sizes = (("noun", 45), ("adjective", 16), ("verb", 20), ("preposition", 5))

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.words: dict[str, list[tuple[str, list[list[str]]]]] = {
            name: [self._entry() for _ in range(size)] for name, size in self.sizes
        }

    def _entry(self) -> tuple[str, list[list[str]]]:
        draw = self.draw
        source = draw.word("bdfgklmnprst", "aeiou", 2 + draw.index(2))
        n_translations = 2 if draw.random() < 0.3 else 1
        return source, [
            [self._target_word() for _ in range(2 if draw.random() < 0.15 else 1)]
            for _ in range(n_translations)
        ]

    def _target_word(self) -> str:
        return self.draw.word(["br", "č", "d", "f", "gl", "j", "l'", "m", "n", "ř", "st", "v", "z"],
                              ["á", "é", "ie", "o", "ou", "ü"], 1 + self.draw.index(2))  # fmt: skip

    def choose(self, name: str) -> tuple[str, list[str]]:
        entries = self.words[name]
        source, translations = entries[self.draw.often_the_first(len(entries))]
        second = len(translations) > 1 and self.draw.random() < 0.35
        return source, translations[1 if second else 0]


class Writer:
    """One sentence pair: pieces of target text, each with the source word that it translates."""

    def __init__(self, language: Language, is_unseen: Callable[[], bool]) -> None:
        self.language, self.draw, self.is_unseen = language, language.draw, is_unseen
        self.source: list[str] = []
        self.target: list[tuple[str, int]] = []

    def sentence(self) -> None:
        self.clause()
        if self.draw.random() < 0.3:
            self.add(",", [","])
            self.clause()
        self.add(*((".", ["."]) if self.draw.random() < 0.9 else ("&quot;", ["&quot;", "!"])))

    def add(self, source: str, target: list[str]) -> None:
        self.source.append(source)
        self.target += [(word, len(self.source) - 1) for word in target]

    def clause(self) -> None:
        self.noun_phrase()
        verb = self.verb()
        verb_last = self.draw.random() < 0.33
        if not verb_last:
            self.target += verb
        if self.draw.random() < 0.8:
            self.noun_phrase()
        if self.draw.random() < 0.35:
            self.add(*self.language.choose("preposition"))
            self.noun_phrase()
        if verb_last:
            self.target += verb

    def verb(self) -> list[tuple[str, int]]:
        negated = self.draw.random() < 0.2
        if negated:
            self.source.append("ne")
        word, translation = self.language.choose("verb")
        self.source.append(word)
        place = len(self.source) - 1
        words = [(other, place) for other in translation]
        return [("nï", place - 1), *words, ("pà", place - 1)] if negated else words

    def noun_phrase(self) -> None:
        if self.draw.random() < 0.6:
            self.source.append("ta")
            if self.draw.random() < 0.5:
                self.target.append(("ël", -1))
        adjectives: list[tuple[str, int]] = []
        while self.draw.random() < 0.35:
            word, translation = self.language.choose("adjective")
            self.source.append(word)
            adjectives += [(other, len(self.source) - 1) for other in translation]
        if self.is_unseen():
            number = f"x-{self.draw.index(1000)}"
            self.add(number, [number])
        else:
            self.add(*self.language.choose("noun"))
        self.target += adjectives

    def pair(self) -> Pair:
        links = [(source, place) for place, (_, source) in enumerate(self.target) if source >= 0]
        target = [word for word, _ in self.target]
        return Pair(self.source, target, self.found(links, 1), self.found(links, 0))

    def found(self, links: list[Link], side: int) -> list[Link]:
        """What an aligner finds in one direction: a word of the side has one link at most; some go wrong."""
        by_word = {link[side]: link for link in links}
        sizes = len(self.source), len(self.target)
        kept = []
        for link in by_word.values():
            place = self.draw.random()
            if place < 0.15:
                wrong = self.draw.index(sizes[1 - side])
                link = (wrong, link[1]) if side == 1 else (link[0], wrong)
            if place > 0.05:
                kept.append(link)
        return sorted(kept)


def sentence_pairs(language: Language, n_pairs: int, unseen: float) -> list[Pair]:
    """Sentences with at most 20 words; a noun is a name of its own with the given probability."""
    pairs: list[Pair] = []
    while len(pairs) < n_pairs:
        writer = Writer(language, lambda: language.draw.random() < unseen)
        writer.sentence()
        if len(writer.source) <= 20:
            pairs.append(writer.pair())
    return pairs


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def write_all(folder: Path) -> None:
    """corpus.en, corpus.fr, forward.align, reverse.align, and input and reference for test and dev."""
    language = Language(Draw(1))
    train = sentence_pairs(language, N_TRAIN, 0.02)
    write(folder / "corpus.en", [" ".join(pair.source) for pair in train])
    write(folder / "corpus.fr", [" ".join(pair.target) for pair in train])
    for name in ("forward", "reverse"):
        lines = [" ".join(f"{s}-{t}" for s, t in getattr(pair, name)) for pair in train]
        write(folder / f"{name}.align", lines)
    for part, n_pairs in (("test", N_TEST), ("dev", N_DEV)):
        pairs = sentence_pairs(language, n_pairs, 0.04)
        write(folder / f"{part}.en", [" ".join(pair.source) for pair in pairs])
        write(folder / f"{part}.fr", [" ".join(pair.target) for pair in pairs])


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
