"""Writes phrase tables and reordering tables."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.array_file import SpilledRows
from moses_bridge.base.blocks import in_order
from moses_bridge.base.compiled.bytes_by_name import (
    BLANK,
    MINUS,
    NEWLINE,
    PLUS,
    POINT,
    SMALL_E,
    ZERO,
)
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import njit
from moses_bridge.base.compiled.word_writer import PackedWords, pack_words, put_count, put_word
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import StrPath, open_write_packed
from moses_bridge.builtin.extraction.aligned_corpus import AlignedCorpus, Links, Text
from moses_bridge.builtin.extraction.pair_counts import PairCounts
from moses_bridge.formats.row_columns import JOINT_COUNT, SOURCE_COUNT, TARGET_COUNT, put_bar

ROWS_AT_ONCE = 1 << 16  # some 8 MB of text, the part of a .gz file compressed as one
GZIP_LEVEL = 5  # 5% larger than at level 9, in a tenth of the time
BYTES_OF_BARS_AND_COUNTS = 80  # five bars of 4 bytes, three counts of at most 10 digits and blanks
LINK_BYTES = 6  # "11-11 "
N_DIGITS = 6  # the default precision of a C++ stream
NUMBER_BYTES = 14  # "0.000123456 ", "1.23457e-100 " and a byte to spare


def write_table(
    path: StrPath,
    corpus: AlignedCorpus,
    pairs: SpilledRows[PairCounts],
    scores_of: Callable[[PairCounts], NDArray[np.float64]],
    jobs: int,
    *,
    has_counts: bool,
) -> None:
    """Write `source ||| target ||| scores` rows, with `||| alignment ||| counts ||| |||` if `has_counts`.

    Args:
        path: the file, compressed if it ends in .gz; one gzip member for each block of rows.
        corpus: words and links.
        pairs: the phrase pairs to write, in their order.
        scores_of: (n_pairs, n_scores) probabilities of pairs; called in several threads.
        jobs: number of threads scoring, formatting and compressing.
        has_counts: as in a phrase table; a reordering table has scores only.
    """
    source, target = pack_text(corpus.source), pack_text(corpus.target)
    compressed, n_rows = str(path).endswith(".gz"), pairs.n_rows

    def block(first: int) -> tuple[int, bytes]:
        some = pairs.read(first, min(first + ROWS_AT_ONCE, n_rows))
        scores = scores_of(some)
        counts = _counts(some) if has_counts else np.empty((len(scores), 0))
        n_links = int(some.source_lens.max(initial=0)) * int(some.target_lens.max(initial=0))
        row_bytes = scores.shape[1] * NUMBER_BYTES + n_links * LINK_BYTES
        out = _room(source, target, some, row_bytes)
        end = _put_rows(out, source, target, some, scores, corpus.of_target, counts)
        text = out[:end].tobytes()
        return len(scores), gzip.compress(text, GZIP_LEVEL, mtime=0) if compressed else text

    with (
        open_write_packed(path) as stream,
        Progress(Path(path).name, n_rows, "rows") as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        firsts = range(0, max(n_rows, 1), ROWS_AT_ONCE)
        for n_written, data in in_order(pool, block, firsts, 2 * jobs):
            stream.write(data)
            progress.update(n_written)


def _counts(pairs: PairCounts) -> NDArray[np.float64]:
    """(n_pairs, 3) occurrences of target, source and both, as Moses orders them."""
    counts = np.empty((len(pairs.counts), 3))
    counts[:, TARGET_COUNT] = pairs.target_counts
    counts[:, SOURCE_COUNT] = pairs.source_counts
    counts[:, JOINT_COUNT] = pairs.counts
    return counts


def _room(
    source: PackedText, target: PackedText, pairs: PairCounts, score_bytes: int
) -> NDArray[np.uint8]:
    """Enough bytes for rows with these phrases and up to `score_bytes` of scores."""
    n_bytes = n_phrase_bytes(source, pairs.source_starts, pairs.source_lens)
    n_bytes += n_phrase_bytes(target, pairs.target_starts, pairs.target_lens)
    n_bytes += len(pairs.source_starts) * (score_bytes + BYTES_OF_BARS_AND_COUNTS)
    return np.empty(n_bytes, np.uint8)


@inner
def _put_scores(out: Any, end: int, scores: Any) -> int:
    for i in range(len(scores)):
        end = put_number(out, end, scores[i])
        out[end] = BLANK
        end += 1
    return end


@inner
def _put_alignment(
    out: Any, end: int, source_start: int, target_start: int, target_len: int, links: Links
) -> int:
    """Links inside a phrase pair, by target word, with a blank after each."""
    for i in range(target_len):
        for k in range(links.starts[target_start + i], links.starts[target_start + i + 1]):
            end = put_count(out, end, links.others[k] - source_start)
            out[end] = MINUS
            end = put_count(out, end + 1, i)
            out[end] = BLANK
            end += 1
    return end


@njit(nogil=True)
def _put_rows(
    out: Any, source: PackedText, target: PackedText, pairs: PairCounts, scores: Any, links: Links,
    counts: Any,
) -> int:  # fmt: skip
    """Write rows and return their end; without counts they have no alignment either."""
    end = 0
    for row in range(len(scores)):
        source_start, target_start = pairs.source_starts[row], pairs.target_starts[row]
        target_len = pairs.target_lens[row]
        end = put_phrase(out, end, source, source_start, pairs.source_lens[row])
        end = put_bar(out, end)
        end = put_phrase(out, end, target, target_start, target_len)
        end = put_bar(out, end)
        end = _put_scores(out, end, scores[row])
        if counts.shape[1] > 0:
            end = put_bar(out, end)
            end = _put_alignment(out, end, source_start, target_start, target_len, links)
            end = put_bar(out, end)
            end = _put_scores(out, end, counts[row])
            end = put_bar(out, put_bar(out, end))
        out[end - 1] = NEWLINE
    return end


class PackedText(NamedTuple):
    """A running text laid out for copying its words.

    Attributes:
        vocabulary: its distinct words.
        words: (n_words,) numbers of the running words.
        bytes_before: (n_words + 1,) bytes of all running words before each, one blank for each.
    """

    vocabulary: PackedWords
    words: NDArray[np.int32]
    bytes_before: NDArray[np.int64]


def pack_text(text: Text) -> PackedText:
    """Lay the vocabulary out for compiled code."""
    vocabulary = pack_words(text.vocabulary)
    lens = np.diff(vocabulary.starts)[text.words]
    return PackedText(vocabulary, text.words, np.concatenate(([0], np.cumsum(lens + 1))))


def n_phrase_bytes(text: PackedText, starts: NDArray[np.int32], lens: NDArray[np.uint8]) -> int:
    """Total bytes of these phrases, with a blank after each word."""
    return int((text.bytes_before[starts + lens] - text.bytes_before[starts]).sum())


@inner
def put_phrase(out: Any, end: int, text: PackedText, start: int, length: int) -> int:
    """Write the words from `start`, each followed by a blank, and return the new end."""
    for position in range(start, start + length):
        end = put_word(out, end, text.vocabulary, text.words[position])
        out[end] = BLANK
        end += 1
    return end


@inner
def put_number(out: Any, end: int, number: float) -> int:
    """Write a non-negative number as C++ streams do, `%g` with 6 digits, and return the new end."""
    if number == 0.0:
        out[end] = ZERO
        return end + 1
    exponent = int(np.floor(np.log10(number)))
    digits = _digits(number, exponent)
    if digits < 10 ** (N_DIGITS - 1):
        exponent -= 1
        digits = _digits(number, exponent)
    if digits >= 10**N_DIGITS:
        exponent += 1
        digits = _digits(number, exponent)
    n_digits = N_DIGITS
    while digits % 10 == 0:
        digits //= 10
        n_digits -= 1
    if exponent < -4 or exponent >= N_DIGITS:
        end = _put_decimal(out, end, digits, n_digits, 1)
        return int(_put_exponent(out, end, exponent))
    if exponent < 0:
        out[end], out[end + 1] = ZERO, POINT
        end += 2
        for _ in range(-exponent - 1):
            out[end] = ZERO
            end += 1
        return int(put_count(out, end, digits))
    return int(_put_decimal(out, end, digits, n_digits, exponent + 1))


@inner
def _digits(number: float, exponent: int) -> int:
    """The number in units of its sixth digit, halves (to double precision) to even."""
    shift = N_DIGITS - 1 - exponent
    scaled = number * 10.0**shift if shift >= 0 else number / 10.0**-shift
    return int(np.rint(scaled))


@inner
def _put_decimal(out: Any, end: int, digits: int, n_digits: int, n_whole: int) -> int:
    while n_digits < n_whole:
        digits *= 10
        n_digits += 1
    divisor = 10 ** (n_digits - 1)
    for i in range(n_digits):
        if i == n_whole:
            out[end] = POINT
            end += 1
        out[end] = ZERO + digits // divisor % 10
        end += 1
        divisor //= 10
    return end


@inner
def _put_exponent(out: Any, end: int, exponent: int) -> int:
    out[end] = SMALL_E
    out[end + 1] = MINUS if exponent < 0 else PLUS
    end += 2
    if abs(exponent) < 10:
        out[end] = ZERO
        end += 1
    return int(put_count(out, end, abs(exponent)))
