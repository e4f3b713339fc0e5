"""Words that replace <unk> in a translation.

A network with an attention says which source word it looked at (Luong et al. 2015, "Addressing the rare word
problem"; Jean et al. 2015, section 3.3): its translation in a lexicon replaces <unk>, or the word itself.
Without an attention only a lexicon helps: <unk> is a word outside the shortlist, so it becomes the most
probable such word that any source word can be translated to, each source word once; where there is none
<unk> stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.words import split_words
from rescorer.contract.vocabulary import UNKNOWN, Vocabulary


@dataclass(frozen=True)
class Translation:
    """A target word and p(target word | source word)."""

    word: bytes
    prob: float


@dataclass(frozen=True)
class TranslationLexicon:
    """The best translations of single words.

    Attributes:
        best: of each source word.
        best_outside: of each source word, among the target words outside a shortlist.
    """

    best: dict[bytes, Translation] = field(default_factory=dict)
    best_outside: dict[bytes, Translation] = field(default_factory=dict)


NO_LEXICON = TranslationLexicon()


def read_lexicon(path: StrPath, shortlist: Vocabulary) -> TranslationLexicon:
    """Read `lex.f2e`: lines "target source p(target | source)", as Moses's training writes them.

    Args:
        path: the file.
        shortlist: the target words the network knows.

    Raises:
        InputError: a line has not three fields, or its last one is no probability.
    """
    lexicon, known = TranslationLexicon({}, {}), frozenset(shortlist.words)
    for line_number, line in enumerate(read_lines(path), start=1):
        fields = split_words(line)
        prob = _prob(fields[2]) if len(fields) == 3 else math.nan
        if not 0 <= prob <= 1:
            raise InputError(
                path,
                line_number,
                shown(line),
                "a target word, a source word and a probability",
                "This is the file lex.f2e of Moses's training",
            )
        target, source = fields[:2]
        tables = [lexicon.best] if target in known else [lexicon.best, lexicon.best_outside]
        for table in tables:
            if source not in table or prob > table[source].prob:
                table[source] = Translation(target, prob)
    return lexicon


def _prob(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        return math.nan


def without_unknown_words(
    words: Sequence[bytes],
    places: Sequence[int],
    source: Sequence[bytes],
    lexicon: TranslationLexicon,
) -> list[bytes]:
    """A translation with other words instead of <unk>.

    Args:
        words: of the translation.
        places: the most attended source word of each, from 0; negative where there is none.
        source: the words of the source.
        lexicon: its words.
    """
    free = {place for place, word in enumerate(source) if word in lexicon.best_outside}
    result = []
    for word, place in zip(words, places, strict=True):
        if word == UNKNOWN and 0 <= place < len(source):
            found = lexicon.best.get(source[place])
            word = source[place] if found is None else found.word
        elif word == UNKNOWN and free:
            place = min(free, key=lambda i: (-lexicon.best_outside[source[i]].prob, i))
            free.remove(place)
            word = lexicon.best_outside[source[place]].word
        result.append(word)
    return result
