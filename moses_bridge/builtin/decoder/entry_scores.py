"""Rescoring the entries of an n-best list, given the segmentation printed by Moses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath
from moses_bridge.builtin.decoder.forced import option_words, paths_of, target_numbers
from moses_bridge.builtin.decoder.nbest_lines import (
    NBestFormat,
    SentenceOptions,
    nbest_lines,
)
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.formats.nbest import (
    NBestEntry,
    parse_segmentation,
    read_nbest,
    without_escaped_bars,
)
from moses_bridge.formats.words import split_words

Phrase = tuple[int, int, tuple[int, ...]]  # source words start..end-1, numbers of target words


def rescored_lines(
    translator: Translator, sources: Sequence[bytes], nbest: StrPath
) -> Iterator[bytes]:
    """Yield the lines of an n-best list with the feature values and totals of a model, in their order.

    Args:
        translator: translator of the model, with table limit 0, so that all rows are options.
        sources: the sentences, id 0 first.
        nbest: a list with segmentation; among further fields only the word links are kept.

    Raises:
        InputError: an entry has no sentence or no valid segmentation, or one of its phrase pairs is not in
            the table.
    """
    for sentence_id, group in groupby(read_nbest(nbest), key=lambda entry: entry.sentence_id):
        entries = list(group)
        if sentence_id >= len(sources):
            line_number = entries[0].line_number
            expected = f"an id below {len(sources)}, the number of sentences"
            raise InputError(nbest, line_number, f"the sentence id {sentence_id}", expected)
        sentence = translator.sentence(sources[sentence_id])
        yield from _sentence_lines(translator, sentence, entries, nbest)


def _sentence_lines(
    translator: Translator,
    sentence: SentenceOptions | None,
    entries: list[NBestEntry],
    nbest: StrPath,
) -> list[bytes]:
    if sentence is None:
        raise InputError(nbest, entries[0].line_number, "an empty sentence", "words in the source")
    options = sentence.options
    numbers: dict[Phrase, int] = {}
    for i in range(len(options.rows)):
        span = int(options.starts[i]), int(options.ends[i])
        numbers.setdefault((*span, option_words(options, i)), i)
    derivations = [_derivation(translator, sentence, numbers, entry, nbest) for entry in entries]
    paths = paths_of(derivations, sentence, translator.weighted)
    texts = [without_escaped_bars(entry.words) for entry in entries]
    form = NBestFormat(len(entries), 1, True, all(len(entry.rest) > 1 for entry in entries))
    sentence_id = entries[0].sentence_id
    return nbest_lines(translator.model, sentence_id, sentence, texts, paths, form)


def _derivation(
    translator: Translator, sentence: SentenceOptions, numbers: dict[Phrase, int], entry: NBestEntry,
    nbest: StrPath,
) -> list[int]:  # fmt: skip
    """The options of an entry, in target order."""
    words = split_words(without_escaped_bars(entry.words))
    target = target_numbers(translator.model, sentence, words)
    derivation = []
    for start, end, place, following in parse_segmentation(entry, len(words), nbest):
        phrase = (start, end, target[place:following]) if target is not None else None
        if phrase is None or phrase not in numbers:
            target_phrase = shown(b" ".join(words[place:following]))
            found = f"{target_phrase} for the source words {start} to {end - 1}"
            raise InputError(nbest, entry.line_number, found, "a phrase pair of the table")
        derivation.append(numbers[phrase])
    return derivation
