"""Sparse features of reordering (Cherry, NAACL 2013): words, or their classes, by the orientation of phrases.

What is counted are the first and the last word of the phrase that comes next ("phr") and of the one before it
("stk"), and the source words between two phrases that are apart ("btn"). Names and special cases are those of
moses/FF/LexicalReordering/SparseReordering.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.textio import read_lines
from moses_bridge.builtin.decoder.feature_slices import REORDERING_KIND
from moses_bridge.builtin.decoder.orientations import DISCONTINUOUS, orientation, words_between
from moses_bridge.builtin.decoder.sparse_features import PhrasePair
from moses_bridge.formats.moses_ini import Feature, MosesIni

N_ORIENTATIONS = 3
NEXT, BEFORE, BETWEEN = b"phr", b"stk", b"btn"
SWITCHES = {"sparse-phrase": NEXT, "sparse-stack": BEFORE, "sparse-between": BETWEEN}
OF_LISTS = re.compile(r"sparse-(words|clusters)-(source|target)-([^-]+)")
SIDES = {"source": b"src", "target": b"tgt"}
Labels = Mapping[bytes, bytes]  # what a name has of a word: b"LIST-WORD" or b"LIST-cluster_CLASS"


class PlacedPair(NamedTuple):
    """A phrase pair in a sentence.

    Attributes:
        start, end: its source words, start..end-1.
        pair: the pair.
    """

    start: int
    end: int
    pair: PhrasePair


@dataclass(frozen=True)
class SparseReordering:
    """The sparse features of a reordering table.

    Attributes:
        name: the table's name, which begins those of its values.
        counted: which of NEXT, BEFORE and BETWEEN count.
        lists: the lists of words of each side, by `SIDES`.
    """

    name: str
    counted: frozenset[bytes]
    lists: Mapping[bytes, Sequence[Labels]]

    def labels(self, side: bytes, place: bytes, word: bytes) -> Iterator[bytes]:
        """The middle of the names that a word has, say b"src-first-top-le".

        Args:
            side: one of `SIDES`.
            place: b"first" or b"last", in its phrase.
            word: the word.
        """
        for labels in self.lists[side]:
            if word in labels:
                yield b"-".join((side, place, labels[word]))

    def of_step(
        self, source: Sequence[bytes], before: PlacedPair | None, now: PlacedPair
    ) -> Iterator[bytes]:
        """What is counted where one phrase follows another: the ends of the names, once for each 1.

        Args:
            source: the words of the sentence.
            before: the phrase before; None at the start.
            now: the phrase.
        """
        last_start, last_end = (before.start, before.end) if before else (-1, 0)
        kind = orientation(last_start, last_end, now.start, now.end)
        counted = [(NEXT, label) for label in self._of_pair(now.pair)]
        if before:
            counted += [(BEFORE, label) for label in self._of_pair(before.pair)]
        if kind == DISCONTINUOUS:
            words = source[slice(*words_between(last_start, last_end, now.start, now.end))]
            counted += [(BETWEEN, label) for label in self._of_gap(words)]
        for what, label in counted:
            if what in self.counted:
                yield b"%s-%s-%d" % (what, label, kind)

    def _of_pair(self, pair: PhrasePair) -> Iterator[bytes]:
        for side, words in ((b"src", pair.source), (b"tgt", pair.target)):
            if words:
                yield from self.labels(side, b"first", words[0])
                yield from self.labels(side, b"last", words[-1])

    def _of_gap(self, words: Sequence[bytes]) -> Iterator[bytes]:
        for word in words:
            yield from self.labels(b"src", b"first", word)


def sparse_reordering(ini: MosesIni) -> SparseReordering | None:
    """The sparse features of the reordering table of an ini; None if it has none.

    As in Moses, what stands behind "=" of a switch does not count.

    Raises:
        ConfigError: there are lists of words, but nothing says which phrases count.
        InputError: a list cannot be read, or a line of classes has no class.
    """
    for feature in ini.of_kind(REORDERING_KIND):
        keys = sparse_arguments(feature)
        if keys:
            counted = frozenset(SWITCHES[key] for key in keys if key in SWITCHES)
            if not counted:
                found = f"{feature.name} has {keys[0]} without any of {', '.join(SWITCHES)}"
                raise ConfigError(f"{ini.path}: {found}")
            return SparseReordering(feature.name, counted, _lists(ini, feature))
    return None


def sparse_arguments(feature: Feature) -> list[str]:
    """The arguments of a feature that are of its sparse features."""
    return [key for key in feature.arguments if key.startswith("sparse-")]


def known_arguments(feature: Feature) -> list[str]:
    """Those that this module reads: the switches, and lists of words or of their classes."""
    lists = [key for key in feature.arguments if OF_LISTS.fullmatch(key)]
    return [*SWITCHES, *lists] if feature.kind == REORDERING_KIND else []


def _lists(ini: MosesIni, feature: Feature) -> dict[bytes, list[Labels]]:
    lists: dict[bytes, list[Labels]] = {side: [] for side in SIDES.values()}
    for key, path in feature.arguments.items():
        match = OF_LISTS.fullmatch(key)
        if match:
            kind, side, name = match.groups()
            read = _classes if kind == "clusters" else _words
            labels = {word: f"{name}-".encode() + label for word, label in read(ini, path).items()}
            lists[SIDES[side]].append(labels)
    return lists


def _words(ini: MosesIni, path: str) -> Labels:
    """The lines of a file, each a word."""
    return {word: word for word in read_lines(ini.resolve(path))}


def _classes(ini: MosesIni, path: str) -> Labels:
    """The lines of a file, each a word, a tab and its class."""
    classes = {}
    for line_number, line in enumerate(read_lines(ini.resolve(path)), start=1):
        fields = [field for field in line.split(b"\t") if field]
        if len(fields) < 2:
            raise InputError(
                ini.resolve(path), line_number, shown(line), "a word, a tab, its class"
            )
        classes[fields[0]] = b"cluster_" + fields[1]
    return classes


class ReorderingSums:
    """The weighted sums of sparse features of reordering, for the search.

    Args:
        features: the features.
        weights: the weight of each value.
    """

    def __init__(self, features: SparseReordering, weights: Mapping[str, float]) -> None:
        self._features = features
        self._weights: dict[bytes, NDArray[np.float64]] = {}
        for name, weight in weights.items():
            if name.startswith(f"{features.name}_"):
                end = name[len(features.name) + 1 :].encode("utf-8", "surrogateescape")
                middle, _, kind = end.rpartition(b"-")
                if kind in (b"0", b"1", b"2") and middle[:3] in features.counted:
                    of_kinds = self._weights.setdefault(middle, np.zeros(N_ORIENTATIONS))
                    of_kinds[int(kind)] = weight

    def of_words(
        self, what: bytes, side: bytes, place: bytes, words: Sequence[bytes]
    ) -> NDArray[np.float64]:
        """What each word adds in each orientation, *Shape:* (n_words, 3).

        Args:
            what: NEXT, BEFORE or BETWEEN.
            side: see `SparseReordering.labels`.
            place: see there.
            words: the words.
        """
        sums = np.zeros((len(words), N_ORIENTATIONS))
        for i, word in enumerate(words):
            for label in self._features.labels(side, place, word):
                sums[i] += self._weights.get(what + b"-" + label, 0.0)
        return sums
