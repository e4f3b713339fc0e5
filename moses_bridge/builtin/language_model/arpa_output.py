"""Writes ARPA files with compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base import textio
from moses_bridge.base.compiled.bytes_by_name import BLANK, MINUS, NEWLINE, POINT, TAB, ZERO
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.compiled.word_writer import PackedWords, pack_words, put_count, put_word
from moses_bridge.base.progress import Progress
from moses_bridge.builtin.language_model.arpa import Arpa, NGrams

ROWS_AT_ONCE = 1 << 16  # some 3 MB of text
N_DECIMALS = 7  # what a float32 between 1 and 10 holds
SCALE = 10**N_DECIMALS
NUMBER_WIDTH = 24  # sign, point, 7 decimals, a tab and the digits of any log10 of a float32


class NGramSection(NamedTuple):
    """The n-grams of one order, part by part in the order of writing, and their number."""

    n_ngrams: int
    parts: Iterable[NGrams]


def write_arpa(path: textio.StrPath, arpa: Arpa) -> None:
    """Write a model with 7 decimals, compressed by suffix; the file appears only when complete."""
    write_sections(path, arpa.words, [NGramSection(len(s.log_probs), [s]) for s in arpa.sections])


def write_sections(
    path: textio.StrPath, words: list[bytes], sections: Sequence[NGramSection]
) -> None:
    """See `write_arpa`; for a model with one part in memory at a time."""
    packed = pack_words(words)
    with (
        textio.open_write(path) as stream,
        Progress(Path(path).name, sum(s.n_ngrams for s in sections), "n-grams") as progress,
    ):
        stream.write(_header(sections))
        for order, section in enumerate(sections, start=1):
            stream.write(b"\n\\%d-grams:\n" % order)
            for part in section.parts:
                for first in range(0, len(part.log_probs), ROWS_AT_ONCE):
                    text = _format(packed, part, first, has_backoffs=order < len(sections))
                    stream.write(text.tobytes())
                    progress.update(len(part.log_probs[first : first + ROWS_AT_ONCE]))
        stream.write(b"\n\\end\\\n")


def _header(sections: Sequence[NGramSection]) -> bytes:
    counts = [b"ngram %d=%d\n" % (order, s.n_ngrams) for order, s in enumerate(sections, start=1)]
    return b"\\data\\\n" + b"".join(counts)


def _format(
    words: PackedWords, section: NGrams, first: int, *, has_backoffs: bool
) -> NDArray[np.uint8]:
    rows = slice(first, first + ROWS_AT_ONCE)
    ids = section.ids[rows]
    n_bytes = int(np.diff(words.starts)[ids].sum()) + ids.size + len(ids) * 2 * NUMBER_WIDTH
    text = np.empty(n_bytes, np.uint8)
    backoffs = section.backoffs[rows] if has_backoffs else np.empty(0, np.float32)
    return text[: _format_rows(text, words, ids, section.log_probs[rows], backoffs)]


@inner
def _put_number(text: Any, end: int, number: float) -> int:
    scaled = int(np.round(abs(number) * SCALE))
    if number < 0.0 and scaled > 0:
        text[end] = MINUS
        end += 1
    end, fraction = put_count(text, end, scaled // SCALE), scaled % SCALE
    if fraction > 0:
        text[end] = POINT
        end += 1
    divisor = SCALE // 10
    while fraction > 0:
        text[end] = ZERO + fraction // divisor
        end += 1
        fraction %= divisor
        divisor //= 10
    return end


@compiled
def _format_rows(text: Any, words: PackedWords, ids: Any, log_probs: Any, backoffs: Any) -> int:
    """Write the lines into `text` and return the number of bytes."""
    end = 0
    n_rows, order = ids.shape
    for row in range(n_rows):
        end = _put_number(text, end, float(log_probs[row]))
        for i in range(order):
            text[end] = TAB if i == 0 else BLANK
            end = put_word(text, end + 1, words, ids[row, i])
        if len(backoffs) > 0:
            text[end] = TAB
            end = _put_number(text, end + 1, float(backoffs[row]))
        text[end] = NEWLINE
        end += 1
    return end
