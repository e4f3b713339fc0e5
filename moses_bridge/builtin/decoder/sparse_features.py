"""Sparse features of phrase pairs: named values, of which a pair has few out of very many.

Their names and special cases are those of PhraseLengthFeature.cpp, SourceWordDeletionFeature.cpp,
TargetWordInsertionFeature.cpp and WordTranslationFeature.cpp in moses/FF.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import read_lines
from moses_bridge.builtin.decoder.ini_values import to_switch
from moses_bridge.formats.moses_ini import (
    PHRASE_LENGTH,
    WORD_DELETION,
    WORD_INSERTION,
    WORD_TRANSLATION,
    Feature,
    MosesIni,
)

# Switches of WordTranslationFeature that need more than the phrase pair.
OF_CONTEXT = ("source-context", "target-context", "domain-trigger")
OTHER = b"OTHER"  # stands for all words that a list of words lacks
NOT_COUNTED = (b"<s>", b"</s>")
# WordTranslationFeature looks at the first byte of a word.
PUNCTUATION = frozenset("\"'!?¿·()#_,.:;•&@‑/\\0123456789~=".encode())
WordList = frozenset[bytes] | None  # None has all words


class PhrasePair(NamedTuple):
    """A phrase pair.

    Attributes:
        source, target: its words.
        links: source and target place of each word link, from 0.
    """

    source: Sequence[bytes]
    target: Sequence[bytes]
    links: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SparseFeature:
    """A feature of an ini with sparse values alone.

    Attributes:
        name: its name, which begins those of its values.
        chooses: whether it counts when the translations of a source phrase are chosen; else it is added to
            those chosen (EvaluateWithSourceContext).
        of_pair: what of a phrase pair is counted: the ends of the names of its values, once for each 1.
    """

    name: str
    chooses: bool
    of_pair: Callable[[PhrasePair], Iterable[bytes]]


def sparse_feature(ini: MosesIni, feature: Feature) -> SparseFeature:
    """The sparse feature of a line of [feature].

    Raises:
        ConfigError: it looks at more than the phrase pair.
        InputError: its list of words cannot be read.
    """
    return SparseFeature(
        feature.name,
        feature.kind != WORD_TRANSLATION,
        _counting(ini, feature),
    )


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
    """The lines of a file, each a word."""
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
    """The words that are linked, "source~target"."""
    for source, target in sorted({*pair.links}):
        words = pair.source[source], pair.target[target]
        if not skipped.intersection(word[0] for word in words):
            yield _shown(words[0], known_sources) + b"~" + _shown(words[1], known_targets)


def no_words(pair: PhrasePair) -> Iterator[bytes]:
    """Nothing of any pair."""
    return iter(())


def _shown(word: bytes, known: WordList) -> bytes:
    return word if known is None or word in known else OTHER
