"""Whole sentences translated by a network alone, as text and as an n-best list in Moses's format."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath, open_write, read_lines
from moses_bridge.formats.nbest import (
    NBestEntry,
    check_feature_name,
    escape_bars,
    format_entry,
    format_number,
)
from moses_bridge.formats.words import split_words, to_number
from rescorer.contract.target_generation import Generated, GenerationConfig, TargetGenerator
from rescorer.contract.vocabulary import UNKNOWN, Vocabulary


@dataclass(frozen=True)
class WordTranslation:
    """A target word and p(target word | source word)."""

    word: bytes
    prob: float


@dataclass(frozen=True)
class TranslationLexicon:
    """The best translation of each source word: of all, and among those outside a shortlist."""

    best: dict[bytes, WordTranslation] = field(default_factory=dict)
    best_outside: dict[bytes, WordTranslation] = field(default_factory=dict)


NO_LEXICON = TranslationLexicon()


def read_lexicon(path: StrPath, shortlist: Vocabulary) -> TranslationLexicon:
    """Read `lex.f2e`: lines "target source p(target | source)", as Moses's training writes them.

    The shortlist has the target words known to the network.

    Raises:
        InputError: a line does not have three fields, or its last one is no probability.
    """
    lexicon, known = TranslationLexicon({}, {}), frozenset(shortlist.words)
    for line_number, line in enumerate(read_lines(path), start=1):
        fields = split_words(line)
        prob = to_number(fields[2]) if len(fields) == 3 else math.nan
        if not 0 <= prob <= 1:
            expected = "a target word, a source word and a probability"
            hint = "This is the file lex.f2e of Moses's training"
            raise InputError(path, line_number, shown(line), expected, hint)
        target, source = fields[:2]
        tables = [lexicon.best] if target in known else [lexicon.best, lexicon.best_outside]
        for table in tables:
            if source not in table or prob > table[source].prob:
                table[source] = WordTranslation(target, prob)
    return lexicon


def without_unknown_words(
    words: Sequence[bytes],
    places: Sequence[int],
    source: Sequence[bytes],
    lexicon: TranslationLexicon,
) -> list[bytes]:
    """A translation with other words instead of <unk>.

    The places are the most attended source words of its words, from 0; negative if there is none.
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


# Sentences read at a time, so that a long text needs no more memory than a short one.
SENTENCES_AT_ONCE = 256


@dataclass(frozen=True)
class NBestOutput:
    """An n-best list to write, compressed by suffix, and its name of log p(words | source)."""

    path: str
    feature: str = "NN0"


def translate(
    generator: TargetGenerator,
    text: str,
    config: GenerationConfig,
    out: str,
    nbest: NBestOutput | None = None,
    lexicon: TranslationLexicon = NO_LEXICON,
) -> int:
    """Write the best translation of each line of tokenised text, and n-best lists if requested.

    An empty line is translated to an empty one and has no n-best list. In an n-best list the
    feature is natural log p of the words as generated, <unk> among them, and the total is its value
    with the length penalty. The lexicon replaces <unk> (`without_unknown_words`); the number of
    those left in the translations is returned.

    Raises:
        ConfigError: the network sees no source, draws are requested, the feature's name does not
            fit, or an output is the text or the other output.
    """
    if generator.shortlists.source is None:
        raise ConfigError("this model sees no source: `rescorer generate` continues its sentences")
    if config.sample:
        raise ConfigError("a translation is searched for, not drawn: leave sample out")
    if nbest is None:
        config = replace(config, n=1)
    else:
        check_feature_name(nbest.feature)
    refuse_overwriting([out] if nbest is None else [out, nbest.path], [text])
    n_unknown = 0
    with contextlib.ExitStack() as files:
        stream = files.enter_context(open_write(out))
        lists = files.enter_context(open_write(nbest.path)) if nbest else None
        progress = files.enter_context(LineProgress("translate", text, "sentences"))
        translated = _translated(generator, text, config)
        for number, (source, targets) in enumerate(translated):
            words = [without_unknown_words(t.words, t.places, source, lexicon) for t in targets]
            best = words[0] if words else []
            n_unknown += best.count(UNKNOWN)
            stream.write(b" ".join(best) + b"\n")
            if lists is not None and nbest is not None:
                _write_list(lists, number, nbest.feature, targets, words)
            progress.update()
    return n_unknown


def _translated(
    generator: TargetGenerator, text: str, config: GenerationConfig
) -> Iterator[tuple[list[bytes], list[Generated]]]:
    """The words and translations of each line, the best ones first; none for an empty line."""
    for sentences in blocks_of(map(split_words, read_text_lines(text)), SENTENCES_AT_ONCE):
        full = [b" ".join(words) for words in sentences if words]
        targets = generator.generate(full, config)
        for words in sentences:
            yield words, next(targets) if words else []


def _write_list(
    stream: BinaryIO,
    number: int,
    feature: str,
    targets: Sequence[Generated],
    words: Sequence[Sequence[bytes]],
) -> None:
    for line, (target, text) in enumerate(zip(targets, words, strict=True), start=1):
        value = f"{feature}= ".encode() + format_number(target.log_prob)
        plain = escape_bars(b" ".join(text))
        stream.write(format_entry(NBestEntry(number, plain, value, target.score, (), line)) + b"\n")
