"""Sparse features: named values, of which a phrase pair or a step to the next one has few out of very many.

Their names and special cases are those of PhraseLengthFeature.cpp, SourceWordDeletionFeature.cpp,
TargetWordInsertionFeature.cpp and WordTranslationFeature.cpp in moses/FF, and of SparseReordering.cpp in its
LexicalReordering: words, or their classes, by the orientation of phrases (Cherry, NAACL 2013).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.textio import read_lines
from moses_bridge.builtin.decoder.ini_settings import to_switch
from moses_bridge.builtin.decoder.jumps import DISCONTINUOUS, orientation, words_between
from moses_bridge.formats.moses_ini import (
    PHRASE_LENGTH,
    REORDERING_KIND,
    WORD_DELETION,
    WORD_INSERTION,
    WORD_TRANSLATION,
    Feature,
    MosesIni,
)

# Switches of WordTranslationFeature needing more than the phrase pair.
OF_CONTEXT = ("source-context", "target-context", "domain-trigger")
OTHER = b"OTHER"  # replaces all words missing in a list of words
NOT_COUNTED = (b"<s>", b"</s>")
# WordTranslationFeature looks at the first byte of a word.
PUNCTUATION = frozenset("\"'!?¿·()#_,.:;•&@‑/\\0123456789~=".encode())
WordList = frozenset[bytes] | None  # None has all words
N_ORIENTATIONS = 3
NEXT, BEFORE, BETWEEN = b"phr", b"stk", b"btn"
SWITCHES = {"sparse-phrase": NEXT, "sparse-stack": BEFORE, "sparse-between": BETWEEN}
OF_LISTS = re.compile(r"sparse-(words|clusters)-(source|target)-([^-]+)")
SIDES = {"source": b"src", "target": b"tgt"}
# The part of a name for each word: b"LIST-WORD" or b"LIST-cluster_CLASS".
Labels = Mapping[bytes, bytes]


class PhrasePair(NamedTuple):
    """The words of a phrase pair, and source and target place of each word link, from 0."""

    source: Sequence[bytes]
    target: Sequence[bytes]
    links: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SparseFeature:
    """A feature of an ini with sparse values alone, whose names begin with its name.

    Attributes:
        chooses: whether it counts in choosing the translations of a source phrase; else it is added to the
            chosen ones (EvaluateWithSourceContext).
        of_pair: yields, for a phrase pair, the ends of the names of its values, once for each 1.
    """

    name: str
    chooses: bool
    of_pair: Callable[[PhrasePair], Iterable[bytes]]


def sparse_feature(ini: MosesIni, feature: Feature) -> SparseFeature:
    """The sparse feature of a line of [feature]; ConfigError if it depends on more than the phrase pair."""
    return SparseFeature(feature.name, feature.kind != WORD_TRANSLATION, _counting(ini, feature))


def _counting(ini: MosesIni, feature: Feature) -> Callable[[PhrasePair], Iterable[bytes]]:
    if feature.kind == PHRASE_LENGTH:
        return phrase_lengths
    if feature.kind == WORD_DELETION:
        return partial(deleted_words, known=_word_list(ini, feature, "path"))
    if feature.kind == WORD_INSERTION:
        return partial(inserted_words, known=_word_list(ini, feature, "path"))
    for switch in OF_CONTEXT:
        if _switch(ini, feature, switch, "0"):
            raise ConfigError(
                f"{ini.path}: {feature.name} has {switch}=1; the built-in decoder counts pairs of words alone"
            )
    if not _switch(ini, feature, "simple", "1"):
        return no_words
    is_restricted = "source-path" in feature.arguments
    return partial(
        translated_words,
        known_sources=_word_list(ini, feature, "source-path"),
        known_targets=_word_list(ini, feature, "target-path") if is_restricted else None,
        skipped=PUNCTUATION if _switch(ini, feature, "ignore-punctuation", "0") else frozenset(),
    )


def _switch(ini: MosesIni, feature: Feature, key: str, default: str) -> bool:
    text = feature.arguments.get(key, default)
    found = to_switch(text)
    if found is None:
        raise ConfigError(f"{ini.path}: {feature.name} has {key}={text}, expected 0 or 1")
    return found


def _word_list(ini: MosesIni, feature: Feature, key: str) -> WordList:
    path = feature.arguments.get(key)
    return None if path is None else frozenset(read_lines(ini.resolve(path)))


def phrase_lengths(pair: PhrasePair) -> Iterator[bytes]:
    """The lengths of both phrases, each and together."""
    n_source, n_target = len(pair.source), len(pair.target)
    yield from (b"s%d" % n_source, b"t%d" % n_target, b"%d,%d" % (n_source, n_target))


def deleted_words(pair: PhrasePair, known: WordList) -> Iterator[bytes]:
    """The source words without a link."""
    return _unlinked(pair, pair.source, {source for source, _ in pair.links}, known)


def inserted_words(pair: PhrasePair, known: WordList) -> Iterator[bytes]:
    """The target words without a link."""
    return _unlinked(pair, pair.target, {target for _, target in pair.links}, known)


def _unlinked(
    pair: PhrasePair, words: Sequence[bytes], linked: set[int], known: WordList
) -> Iterator[bytes]:
    if len(pair.source) == len(pair.target) == 1 and not pair.links:
        return
    for place, word in enumerate(words):
        if place not in linked and word not in NOT_COUNTED:
            yield _shown(word, known)


def translated_words(
    pair: PhrasePair, known_sources: WordList, known_targets: WordList, skipped: frozenset[int]
) -> Iterator[bytes]:
    """The linked words, "source~target"."""
    for source, target in sorted({*pair.links}):
        words = pair.source[source], pair.target[target]
        if not skipped.intersection(word[0] for word in words):
            yield _shown(words[0], known_sources) + b"~" + _shown(words[1], known_targets)


def no_words(pair: PhrasePair) -> Iterator[bytes]:
    """Yield nothing for any pair."""
    return iter(())


def _shown(word: bytes, known: WordList) -> bytes:
    return word if known is None or word in known else OTHER


class PlacedPair(NamedTuple):
    """A phrase pair in a sentence, of the source words start..end-1."""

    start: int
    end: int
    pair: PhrasePair


@dataclass(frozen=True)
class SparseReordering:
    """The sparse features of a reordering table, with whose name the names of its values begin."""

    name: str
    counted: frozenset[bytes]  # of NEXT, BEFORE and BETWEEN
    lists: Mapping[bytes, Sequence[Labels]]  # of words of each side, by `SIDES`

    def labels(self, side: bytes, place: bytes, word: bytes) -> Iterator[bytes]:
        """The middle of the names for a word at `place` ("first" or "last"), say b"src-first-top-le"."""
        for labels in self.lists[side]:
            if word in labels:
                yield b"-".join((side, place, labels[word]))

    def of_step(
        self, source: Sequence[bytes], before: PlacedPair | None, now: PlacedPair
    ) -> Iterator[bytes]:
        """The ends of the names of the values of a step to the next phrase, once for each 1.

        `source` is the words of the sentence, `before` the phrase before, None at the start.
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
    """Read the sparse features of the reordering table of an ini; None if it has none.

    As in Moses, the text after the "=" of a switch does not count.

    Raises:
        ConfigError: there are lists of words, but no switch for the phrases to count.
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
    """The arguments of a feature for its sparse features."""
    return [key for key in feature.arguments if key.startswith("sparse-")]


def known_arguments(feature: Feature) -> list[str]:
    """The arguments read by this module: the switches, and lists of words or of their classes."""
    lists = [key for key in feature.arguments if OF_LISTS.fullmatch(key)]
    return [*SWITCHES, *lists] if feature.kind == REORDERING_KIND else []


def _lists(ini: MosesIni, feature: Feature) -> dict[bytes, list[Labels]]:
    lists: dict[bytes, list[Labels]] = {side: [] for side in SIDES.values()}
    for key, path in feature.arguments.items():
        match = OF_LISTS.fullmatch(key)
        if match:
            kind, side, name = match.groups()
            words = _classes if kind == "clusters" else _words
            labels = {word: b"%b-%b" % (name.encode(), end) for word, end in words(ini, path)}
            lists[SIDES[side]].append(labels)
    return lists


def _words(ini: MosesIni, path: str) -> Iterator[tuple[bytes, bytes]]:
    return ((word, word) for word in read_lines(ini.resolve(path)))


def _classes(ini: MosesIni, path: str) -> Iterator[tuple[bytes, bytes]]:
    """Read a file with a word, a tab and its class a line."""
    for line_number, line in enumerate(read_lines(ini.resolve(path)), start=1):
        fields = [field for field in line.split(b"\t") if field]
        if len(fields) < 2:
            expected = "a word, a tab, its class"
            raise InputError(ini.resolve(path), line_number, shown(line), expected)
        yield fields[0], b"cluster_" + fields[1]


class ReorderingSums:
    """The weighted sums of sparse reordering features, for the search."""

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
        """The sums of each word in each orientation, *Shape:* (n_words, 3).

        `what` is NEXT, BEFORE or BETWEEN; for `side` and `place` see `SparseReordering.labels`.
        """
        sums = np.zeros((len(words), N_ORIENTATIONS))
        for i, word in enumerate(words):
            for label in self._features.labels(side, place, word):
                sums[i] += self._weights.get(what + b"-" + label, 0.0)
        return sums
