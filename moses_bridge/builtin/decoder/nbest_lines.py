"""Paths as text, and as the lines of Moses's n-best lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.lattice import Paths, words_of_options
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.options import UNKNOWN_ROW, Options
from moses_bridge.builtin.decoder.sparse_values import SentenceValues
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.marked_text import Given
from moses_bridge.formats.nbest import escape_bars

AddedValues = Mapping[str, NDArray[np.float64]]
NOTHING_ADDED: AddedValues = {}


@dataclass(frozen=True)
class NBestFormat:
    """Size of an n-best list and format of its lines.

    Attributes:
        size: largest number of translations of a sentence, all with different words.
        factor: size * factor paths are examined; 0 means 1000.
        segmentation: whether to print the source and target spans of the phrases.
        alignment: whether to print the word links.
    """

    size: int
    factor: int
    segmentation: bool
    alignment: bool

    @property
    def n_pops(self) -> int:
        """Number of paths to examine (Manager.cpp)."""
        return self.size * (self.factor if self.factor > 0 else 1000)


@dataclass(frozen=True)
class SentenceOptions:
    """A sentence to translate, with its options and the translations given by it."""

    options: Options
    names: Mapping[int, bytes]  # the words unknown to the model, by their numbers in this sentence
    given: tuple[Given, ...] = ()
    sparse: SentenceValues | None = None  # of its options, if the model has any


def sentence_texts(model: Model, sentence: SentenceOptions, paths: Paths) -> list[bytes]:
    """Return the words of each path, each unknown one between its marks."""
    known, n_known = model.target_words, len(model.target_words)
    options, names = sentence.options, sentence.names
    # All paths at once: a call for each would take most of the time.
    ids = words_of_options(paths.options, options).tolist()
    words = [known[j] if j < n_known else names[j] for j in ids]
    lengths = np.diff(options.word_starts)[paths.options]
    before, after = model.values.unknown_marks
    if before or after:
        unknown = np.repeat(options.rows[paths.options] == UNKNOWN_ROW, lengths).tolist()
        pairs = zip(words, unknown, strict=True)
        words = [before + word + after if is_unknown else word for word, is_unknown in pairs]
    starts = np.concatenate(([0], np.cumsum(lengths)))[paths.phrase_starts].tolist()
    return [b" ".join(words[start:end]) for start, end in pairwise(starts)]


def nbest_lines(
    model: Model, sentence_id: int, sentence: SentenceOptions, texts: list[bytes], paths: Paths,
    nbest: NBestFormat, added: AddedValues = NOTHING_ADDED,
) -> list[bytes]:  # fmt: skip
    """Write a line for each path, best first, without its newline; `added` are values of further features."""
    template, columns = _feature_template(model, added)
    values = np.column_stack([paths.features[:, columns], *added.values()]).tolist()
    sparse = sentence.sparse.fields(paths, sentence.options) if sentence.sparse else None
    totals = paths.totals.tolist()
    lines = []
    for i, text in enumerate(texts):
        features = template % tuple(values[i]) + (sparse[i] if sparse else b"")
        words = escape_bars(text)
        line = b"%d ||| %b  ||| %b ||| %g" % (sentence_id, words, features, totals[i])
        if nbest.segmentation or nbest.alignment:
            phrases = paths.options[paths.phrase_starts[i] : paths.phrase_starts[i + 1]]
            line += _fields(model, phrases.tolist(), sentence.options, nbest)
        lines.append(line)
    return lines


def _feature_template(model: Model, added: AddedValues) -> tuple[bytes, list[int]]:
    listed = [feature for feature in model.features if feature.listed]
    names = [f"{feature.name}={' %g' * feature.size}" for feature in listed]
    names += [f"{name}= %g" for name in added]
    columns = [feature.first + i for feature in listed for i in range(feature.size)]
    return " ".join(names).encode("utf-8", "surrogateescape"), columns


def _fields(model: Model, phrases: list[int], options: Options, nbest: NBestFormat) -> bytes:
    """Write the fields of segmentation and word links; as in Moses, a blank follows each link."""
    segments, links = b"", b""
    place = 0
    for option in phrases:
        start, end = int(options.starts[option]), int(options.ends[option])
        length = int(options.word_starts[option + 1] - options.word_starts[option])
        segments += b"%b=%b " % (_span(start, end), _span(place, place + length))
        of_phrase = _links(model, int(options.rows[option])) if nbest.alignment else []
        for source, target in of_phrase:
            links += b"%d-%d " % (start + source, place + target)
        place += length
    fields = b" ||| " + segments[:-1] if nbest.segmentation else b""
    return fields + (b" ||| " + links if nbest.alignment else b"")


def _links(model: Model, row: int) -> list[tuple[int, int]]:
    if row < 0:
        return [(0, 0)] if row == UNKNOWN_ROW else []
    rows = model.table.rows
    text = rows.links[rows.link_starts[row] : rows.link_starts[row + 1]].tobytes()
    return sorted(parse_links(text, "phrase table", row + 1))


def _span(start: int, end: int) -> bytes:
    return b"%d" % start if end <= start + 1 else b"%d-%d" % (start, end - 1)
