"""Lines of an n-best list as numbers, read by compiled code piece by piece.

Consecutive hypotheses of a sentence in a piece are a run; a run has each of its phrase pairs once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.compiled.hash_table import FREE, hash_next, hash_number, n_slots, slot_of
from moses_bridge.base.compiled.inner import inlined, inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.lexicon import LexiconTables, add_word
from moses_bridge.base.compiled.scanning import line_end, next_token, same_bytes
from moses_bridge.formats.nbest_fields import (
    NOT_PLAIN,
    find_fields,
    has_escaped_bar,
    read_segmentation,
)
from rescorer.runs.expected_bleu.reference_ngrams import MAX_ORDER, bleu_of, reference_ngrams

# Fewest bytes of a hypothesis ("0|||||||||1|||0=0" and the end of its line) and of a use of a pair ("0=0 ").
LINE_BYTES, USE_BYTES = 18, 4
N_RUNS, N_HYPOTHESES, N_USES, N_PAIRS, N_WORDS = range(5)
NO_SENTENCE = -1


class Texts(NamedTuple):
    """Sentences and their references as word numbers, grouped by sentence; the first of n_texts is the source.

    The starts are the first word of each text, and n_words at the end, *Shape:* (n_sentences * n_texts + 1,).
    """

    numbers: NDArray[np.int32]
    starts: NDArray[np.int64]
    n_texts: int


class Block(NamedTuple):
    """The part of a list read so far.

    Attributes:
        sizes: runs, hypotheses, uses of phrase pairs, phrase pairs and their words so far, *Shape:* (5,).
        sentences: of each run.
        firsts: of each run the first hypothesis, use, pair and word, *Shape:* (any, 4).
        totals: weighted sum of the other features of each hypothesis.
        bleu: of each hypothesis, 0 to 1.
        n_uses: phrase pairs of each hypothesis.
        uses: phrase pairs of the hypotheses, by their number in the run.
        pair_sizes: source and target words of each pair, *Shape:* (any, 2).
        pair_starts: first word of each pair.
        words: of the pairs, source words first.
        slots: hash table of pairs by their number in the block; those of earlier runs count as free.
    """

    sizes: NDArray[np.int64]
    sentences: NDArray[np.int64]
    firsts: NDArray[np.int64]
    totals: NDArray[np.float64]
    bleu: NDArray[np.float64]
    n_uses: NDArray[np.int32]
    uses: NDArray[np.int32]
    pair_sizes: NDArray[np.int32]
    pair_starts: NDArray[np.int64]
    words: NDArray[np.int32]
    slots: NDArray[np.int32]


class Hypothesis(NamedTuple):
    """Room for the hypothesis of a line, or a non-plain line's hypothesis read and checked by the caller.

    If is_given, the caller has read the first line, and the four numbers are that line's. Segments are source
    start and end, target start and end, *Shape:* (any, 4).
    """

    is_given: bool
    sentence_id: int
    total: float
    n_words: int
    n_segments: int
    words: NDArray[np.int32]
    segments: NDArray[np.int64]


def new_block(n_bytes: int, n_words: int) -> Block:
    """Room for a piece of n_bytes and n_words words of phrase pairs."""
    n_lines, n_uses = n_bytes // LINE_BYTES + 1, n_bytes // USE_BYTES + 1
    return Block(
        np.zeros(5, np.int64),
        np.empty(n_lines, np.int64),
        np.empty((n_lines, 4), np.int64),
        np.empty(n_lines),
        np.empty(n_lines),
        np.empty(n_lines, np.int32),
        np.empty(n_uses, np.int32),
        np.empty((n_uses, 2), np.int32),
        np.empty(n_uses, np.int64),
        np.empty(n_words, np.int32),
        np.full(n_slots(n_uses), FREE, np.int32),
    )


def new_hypothesis(n_bytes: int) -> Hypothesis:
    """Room for any hypothesis of a text."""
    words, segments = np.empty(n_bytes, np.int32), np.empty((n_bytes // USE_BYTES + 1, 4), np.int64)
    return Hypothesis(False, 0, 0.0, 0, 0, words, segments)


@njit(nogil=True)
def read_hypotheses(
    text: NDArray[np.uint8],
    at: int,
    room: Hypothesis,
    texts: Texts,
    lexicon: LexiconTables,
    block: Block,
) -> tuple[int, int]:
    """Append the hypotheses of whole lines, each with "\\n", while they are plain and have room.

    The room is for any hypothesis of this text, and has the first one, if it is given. The lexicon, which
    gets the new words, and the block have room for the text; see `new_block`.

    Returns:
        Start of the first line that is not plain or lacks room, len(text) if there is none; and the number
        of words lacking room.
    """
    sentence, is_given = NO_SENTENCE, room.is_given
    ngrams = reference_ngrams(texts.numbers, texts.starts[:1])
    lens, matches = np.zeros(texts.n_texts - 1, np.int64), np.zeros(MAX_ORDER, np.int64)
    while at < len(text):
        end = line_end(text, at)
        if is_given:
            number, total = room.sentence_id, room.total
            n_words, n_segments = room.n_words, room.n_segments
            is_given = False
        else:
            fields = find_fields(text, at, end)
            number, total = fields.sentence_id, fields.total
            if not 0 <= number < (len(texts.starts) - 1) // texts.n_texts:
                return at, 0
            n_words = _read_words(text, fields.words, fields.words_end, lexicon, room.words)
            n_segments = read_segmentation(text, fields.rest, end, n_words, room.segments)
        first = number * texts.n_texts
        source, source_end = texts.starts[first], texts.starts[first + 1]
        if not _are_inside(room.segments, n_segments, source_end - source):
            return at, 0
        n_wanted = n_words + _source_words(room.segments, n_segments)
        if block.sizes[N_WORDS] + n_wanted > len(block.words):
            return at, n_wanted
        if number != sentence:
            sentence, starts = number, texts.starts[first + 1 : first + texts.n_texts + 1]
            ngrams = reference_ngrams(texts.numbers, starts)
            for i in range(len(lens)):
                lens[i] = starts[i + 1] - starts[i]
            _begin_run(block, number)
        bleu = bleu_of(ngrams, lens, room.words, n_words, matches)
        _append(block, total, bleu, n_segments)
        for segment in range(n_segments):
            _append_use(block, texts.numbers, source, room, segment)
        at = end + 1
    return at, 0


@inner
def _read_words(text: Any, start: int, end: int, lexicon: LexiconTables, words: Any) -> int:
    """The words of a hypothesis; NOT_PLAIN if a word has escaped bars."""
    n_words = 0
    token, at = next_token(text, start, end)
    while token < at:
        if has_escaped_bar(text, token, at):
            return NOT_PLAIN
        words[n_words] = add_word(lexicon, text, token, at)
        n_words += 1
        token, at = next_token(text, at, end)
    return n_words


@inner
def _are_inside(segments: Any, n_segments: int, n_source: int) -> bool:
    """Whether there are segments, and all have source words."""
    for segment in range(n_segments):
        if not 0 <= segments[segment, 0] < segments[segment, 1] <= n_source:
            return False
    return n_segments > 0


@inner
def _source_words(segments: Any, n_segments: int) -> int:
    n_words = 0
    for segment in range(n_segments):
        n_words += segments[segment, 1] - segments[segment, 0]
    return int(n_words)


@inner
def _begin_run(block: Block, sentence: int) -> None:
    run = block.sizes[N_RUNS]
    block.sentences[run] = sentence
    for column in range(block.firsts.shape[1]):
        block.firsts[run, column] = block.sizes[N_HYPOTHESES + column]
    block.sizes[N_RUNS] += 1


@inner
def _append(block: Block, total: float, bleu: float, n_uses: int) -> None:
    hypothesis = block.sizes[N_HYPOTHESES]
    block.totals[hypothesis], block.bleu[hypothesis] = total, bleu
    block.n_uses[hypothesis] = n_uses
    block.sizes[N_HYPOTHESES] += 1


@inlined
def _append_use(block: Block, texts: Any, source: int, room: Hypothesis, number: int) -> None:
    """Append the use of segment `number`, and its phrase pair if new in the run; `source` is the first word."""
    segments, target = room.segments, room.words
    first, n_source = source + segments[number, 0], segments[number, 1] - segments[number, 0]
    start, n_target = segments[number, 2], segments[number, 3] - segments[number, 2]
    code = hash_number(n_source + 1)
    for place in range(first, first + n_source):
        code = hash_next(code, texts[place])
    for place in range(start, start + n_target):
        code = hash_next(code, target[place])
    run_first = block.firsts[block.sizes[N_RUNS] - 1, N_PAIRS - N_HYPOTHESES]
    slot = slot_of(code, len(block.slots))
    while block.slots[slot] >= run_first:
        pair = block.slots[slot]
        if block.pair_sizes[pair, 0] == n_source and block.pair_sizes[pair, 1] == n_target:
            at = block.pair_starts[pair]
            if same_bytes(block.words, at, texts, first, n_source) and same_bytes(
                block.words, at + n_source, target, start, n_target
            ):
                break
        slot = (slot + 1) & (len(block.slots) - 1)
    if block.slots[slot] < run_first:
        pair, at = block.sizes[N_PAIRS], block.sizes[N_WORDS]
        block.slots[slot], block.pair_starts[pair] = pair, at
        block.pair_sizes[pair, 0], block.pair_sizes[pair, 1] = n_source, n_target
        for place in range(n_source):
            block.words[at + place] = texts[first + place]
        for place in range(n_target):
            block.words[at + n_source + place] = target[start + place]
        block.sizes[N_PAIRS] += 1
        block.sizes[N_WORDS] += n_source + n_target
    block.uses[block.sizes[N_USES]] = block.slots[slot] - run_first
    block.sizes[N_USES] += 1
