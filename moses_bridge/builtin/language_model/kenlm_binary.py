"""Reads KenLM's binary files (`build_binary`) without KenLM: all types but probing with rest costs.

A probing file has no words of its n-grams, only a hash of each one's words from the last to the first. So a
model read from a file is a map from these codes; n-grams of a trie get the same codes.

The format is version 5, little-endian: a header, the hashes of the vocabulary (not needed), the n-grams by
order, and the words, each ended by a zero byte.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base import textio
from moses_bridge.base.compiled.inner import inner
from moses_bridge.base.errors import InputError
from moses_bridge.builtin.language_model.arpa import MAX_ORDER

Bytes = NDArray[np.uint8]
Codes = NDArray[np.uint64]
Floats = NDArray[np.float32]

MAGIC = b"mmap lm http://kheafield.com/code"
VERSION_5 = MAGIC + b" format version 5\n\0"
# Behind the magic bytes, padded: 0, 1 and -0.5 as floats, 1 and the largest number of 32 bits, 1 in 64 bits.
TEST_VALUES = (
    np.array([0, 1, -0.5], "<f4").tobytes()
    + bytes.fromhex("01000000ffffffff00000000")
    + b"\1"
    + bytes(7)
)
TEST_START = 56
FIXED = np.dtype(
    {
        "names": ["order", "multiplier", "type", "has_words", "search_version"],
        "formats": ["u1", "<f4", "<u4", "u1", "<u4"],
        "offsets": [0, 4, 8, 12, 16],
        "itemsize": 20,
    }
)
TYPES = (
    "probing",
    "probing with rest costs",
    "trie",
    "quantised trie",
    "trie with array-compressed pointers",
    "quantised trie with array-compressed pointers",
)
PROBING = 0
QUANTISED, COMPRESSED = (3, 5), (4, 5)
SEARCH_VERSIONS = {PROBING: 0, 2: 1, 3: 1, 4: 1, 5: 1}
QUANTISATION_VERSION, COMPRESSION_VERSION = 2, 0
VALUE = np.dtype([("log_prob", "<f4"), ("backoff", "<f4")])
HASHED_VALUE = np.dtype([("code", "<u8"), ("log_prob", "<f4"), ("backoff", "<f4")])
HASHED_LONGEST = np.dtype([("code", "<u8"), ("log_prob", "<f4")])
TRIE_VALUE = np.dtype([("log_prob", "<f4"), ("backoff", "<f4"), ("next", "<u8")])
# The hash of an n-gram and the word before it.
OF_NGRAM, OF_WORD = np.uint64(8978948897894561157), np.uint64(17894857484156487943)
MOST_PLACES = 1000  # of a hash table for each n-gram; KenLM has 1.5 by default
BUILD_ANEW = "Build it anew from the ARPA file: build_binary model.arpa model.binary"


class UnreadTypeError(InputError):
    """A binary file read by KenLM but not by this module."""


class CodedNGrams(NamedTuple):
    """N-grams of two words or more by their codes (`code_of`).

    Attributes:
        codes: (n,) uint64.
        log_probs: (n,) float32, log10.
        backoffs: (n,) float32, log10; -0.0 where no longer n-gram begins with this one, 0.0 where one does.
    """

    codes: Codes
    log_probs: Floats
    backoffs: Floats


@dataclass(frozen=True)
class CodedModel:
    """A back-off language model whose n-grams are given by codes.

    Attributes:
        words: the words by their numbers; <unk> is 0.
        log_probs: of the words, (n_words,) float32, log10.
        backoffs: of the words, as in `CodedNGrams`.
        sections: sections[n - 2] has the n-grams.
    """

    words: list[bytes]
    log_probs: Floats
    backoffs: Floats
    sections: list[CodedNGrams]


def _extended(code: Any, word: Any) -> Any:
    """The code of an n-gram extended by the word before it, uint64; a single word's code is its number."""
    return (np.uint64(code) * OF_NGRAM) ^ ((np.uint64(word) + np.uint64(1)) * OF_WORD)


code_of = inner(_extended)


def is_kenlm_binary(path: textio.StrPath) -> bool:
    """Whether the path is a file that begins like KenLM's binary files; a pipe is not, as KenLM maps files."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_kenlm_binary(path: textio.StrPath) -> CodedModel:
    """Read a file for which `is_kenlm_binary` is true.

    Raises:
        UnreadTypeError: it has rest costs, or no words.
        InputError: it is cut, damaged or of another version.
    """
    return _File(path).model()


class _File:
    def __init__(self, path: textio.StrPath) -> None:
        self.path = path
        self.data: Bytes = np.memmap(os.fspath(path), np.uint8, "r")
        if bytes(self.data[: len(VERSION_5)]) != VERSION_5:
            raise self._error("a binary file that is incomplete or of another version", "version 5")
        if bytes(self.data[TEST_START : TEST_START + len(TEST_VALUES)]) != TEST_VALUES:
            raise self._error("numbers of another machine, or damage", "little-endian numbers")
        self.place = TEST_START + len(TEST_VALUES)
        fixed = self.take(FIXED, 1)[0]
        self.type, order = int(fixed["type"]), int(fixed["order"])
        if SEARCH_VERSIONS.get(self.type) != fixed["search_version"]:
            kind = TYPES[self.type] if self.type < len(TYPES) else f"type {self.type}"
            raise self._unread(
                f"a model of the type {kind}, version {fixed['search_version']}",
                f"one of the types {', '.join(TYPES[number] for number in SEARCH_VERSIONS)}",
            )
        if not 2 <= order <= MAX_ORDER:
            raise self._error(f"n-grams of {order} words", f"2 to {MAX_ORDER}")
        if not fixed["has_words"]:
            raise self._unread("no words", "a file built without the option -v of build_binary")
        self.multiplier = np.float32(fixed["multiplier"])
        if not 1 <= self.multiplier <= MOST_PLACES:
            raise self._error(f"{self.multiplier} places for an n-gram", f"1 to {MOST_PLACES}")
        self.counts = self.take(np.dtype("<u8"), order).tolist()
        self.place = -(-self.place // 8) * 8

    def model(self) -> CodedModel:
        if self.type == PROBING:
            n_words, unigrams, sections = self._probing()
        else:
            n_words, unigrams, sections = self._trie()
        words = bytes(self.data[self.place :]).split(b"\0")[:-1]
        if len(words) != n_words or words[0] != b"<unk>":
            raise self._error(f"{len(words)} words", f"{n_words} words, <unk> first")
        log_probs = -np.abs(unigrams["log_prob"][:n_words])
        model = CodedModel(words, log_probs, unigrams["backoff"][:n_words].copy(), sections)
        parts: list[CodedModel | CodedNGrams] = [model, *sections]
        for part in parts:
            if np.isnan(part.log_probs).any() or not np.isfinite(part.backoffs).all():
                raise self._error("a value that is no number", "log10 probabilities")
        return model

    def _probing(self) -> tuple[int, NDArray[Any], list[CodedNGrams]]:
        n_words = self._checked(int(self.take(np.dtype("<u4"), 2)[1]))
        self.take(np.dtype("V12"), n_buckets(self.counts[0], self.multiplier))
        unigrams = self.take(VALUE, self.counts[0] + 1)
        sizes = [n_buckets(count, self.multiplier) for count in self.counts[1:]]
        middle = [self.take(HASHED_VALUE, size) for size in sizes[:-1]]
        longest = self.take(HASHED_LONGEST, sizes[-1])
        sections = []
        for table in (*middle, longest):
            taken = table[table["code"] != 0]
            backoffs = _no_backoffs(len(taken)) if table is longest else taken["backoff"].copy()
            sections.append(CodedNGrams(taken["code"].copy(), -np.abs(taken["log_prob"]), backoffs))
        return n_words, unigrams, sections

    def _checked(self, n_words: int) -> int:
        """The number of words; its header may leave out <unk>."""
        if n_words > self.counts[0] + 1:
            raise self._error(f"{n_words} words", f"{self.counts[0]}, as its header says")
        return n_words

    def _trie(self) -> tuple[int, NDArray[Any], list[CodedNGrams]]:
        n_words = self._checked(int(self.take(np.dtype("<u8"), 1)[0]) + 1)
        self.take(np.dtype("<u8"), self.counts[0])
        bins = self._bins() if self.type in QUANTISED else None
        unigrams = self.take(TRIE_VALUE, self.counts[0] + 2)
        codes = np.arange(n_words, dtype=np.uint64)
        starts = unigrams["next"][: n_words + 1].astype(np.int64)
        sections = []
        for level, count in enumerate(self.counts[1:]):
            is_longest = level == len(self.counts) - 2
            fields = _Fields(
                self, count, None if is_longest else self.counts[level + 2], bins, level
            )
            if starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
                raise self._error(f"pointers that do not fit {count} n-grams", "a whole trie")
            parents = np.repeat(codes, np.diff(starts))
            codes = _extended(parents, fields.words)
            sections.append(CodedNGrams(codes, fields.log_probs, fields.backoffs))
            starts = fields.starts
        return n_words, unigrams, sections

    def _bins(self) -> list[Floats]:
        """Values of a quantised trie: probabilities and back-offs of each order, from two on."""
        version, prob_bits, backoff_bits = self.take(np.dtype("u1"), 8)[:3].tolist()
        if version != QUANTISATION_VERSION or not (0 < prob_bits <= 25 and 0 < backoff_bits <= 25):
            raise self._error(
                f"quantisation of version {version}", f"version {QUANTISATION_VERSION}"
            )
        bits = [prob_bits, backoff_bits] * (len(self.counts) - 2) + [prob_bits]
        return [self.take(np.dtype("<f4"), 1 << n) for n in bits]

    def pointers(self, count: int, n_longer: int) -> tuple[int, Codes]:
        """Bits of pointers in `count` n-grams to n_longer ones, and where the part above them grows by 1."""
        needed = n_longer.bit_length()
        if self.type not in COMPRESSED:
            return needed, np.zeros(1, np.uint64)
        first = self.place
        version, most = self.take(np.dtype("u1"), 2).tolist()
        if version != COMPRESSION_VERSION:
            raise self._error(f"compression of version {version}", f"version {COMPRESSION_VERSION}")
        moved = min(  # from the n-grams to the array, whatever takes the fewest bits
            range(min(needed, most) + 1),
            key=lambda bits: (n_longer >> (needed - bits)) * 64 - (count + 1) * bits,
        )
        self.place = -(-first // 8) * 8 + 8
        steps = self.take(np.dtype("<u8"), (n_longer >> (needed - moved)) + 1)
        self.place = first + 8 + steps.nbytes + 7
        return needed - moved, steps

    def take(self, kind: np.dtype[Any], count: int) -> NDArray[Any]:
        end = self.place + kind.itemsize * count
        if end > len(self.data):
            raise self._error(f"{len(self.data):,} bytes", f"at least {end:,}, as its header says")
        part = self.data[self.place : end]
        self.place = end
        return part.view(kind)

    def _unread(self, found: str, expected: str) -> UnreadTypeError:
        return UnreadTypeError(self.path, None, found, expected, BUILD_ANEW)

    def _error(self, found: str, expected: str) -> InputError:
        return InputError(self.path, None, found, expected, BUILD_ANEW)


class _Fields:
    """The n-grams of one order of a trie: first words, values, and `starts`, (n + 1,), of the longer ones."""

    def __init__(
        self, file: _File, count: int, n_longer: int | None, bins: list[Floats] | None, level: int
    ) -> None:
        word_bits = int(file.counts[0]).bit_length()
        sizes = (
            (31, 32) if bins is None else tuple(len(values).bit_length() - 1 for values in bins[:2])
        )
        prob_bits, backoff_bits = (sizes[0], 0) if n_longer is None else (sizes[0], sizes[1])
        next_bits, steps = (0, None) if n_longer is None else file.pointers(count, n_longer)
        total = word_bits + prob_bits + backoff_bits + next_bits
        packed = file.take(np.dtype("u1"), ((1 + count) * total + 7) // 8 + 8)
        starts = np.arange(count + 1, dtype=np.int64) * total

        def field(offset: int, bits: int, n: int = count) -> Codes:
            return _bit_field(packed, starts[:n] + offset, bits)

        self.words = field(0, word_bits)
        if bins is None:
            self.log_probs = _floats(field(word_bits, 31) | np.uint64(1 << 31))
            backoff = field(word_bits + 31, backoff_bits)
            self.backoffs = _no_backoffs(count) if n_longer is None else _floats(backoff)
        else:  # the back-off comes first
            self.log_probs = bins[2 * level][field(word_bits + backoff_bits, prob_bits)]
            backoff = field(word_bits, backoff_bits)
            self.backoffs = (
                _no_backoffs(count) if n_longer is None else bins[2 * level + 1][backoff]
            )
        self.starts = field(total - next_bits, next_bits, count + 1).astype(np.int64)
        if steps is not None:
            upper = np.searchsorted(steps, np.arange(count + 1), "right") - 1
            self.starts |= upper << next_bits


def n_buckets(n_entries: int, multiplier: np.float32) -> int:
    """Places of a hash table, in KenLM's 32-bit arithmetic (util/probing_hash_table.hh, Size)."""
    return max(n_entries + 1, int(multiplier * np.float32(n_entries)))


def _bit_field(packed: Bytes, starts: NDArray[np.int64], bits: int) -> Codes:
    """Numbers of at most 57 bits at places given in bits, the lowest bit first."""
    places = starts >> 3
    values = np.zeros(len(starts), np.uint64)
    for byte in range(8):
        values |= packed[places + byte].astype(np.uint64) << np.uint64(8 * byte)
    values >>= (starts & 7).astype(np.uint64)
    values &= np.uint64((1 << bits) - 1)
    return values


def _floats(bits: Codes) -> Floats:
    return bits.astype(np.uint32).view(np.float32)


def _no_backoffs(n: int) -> Floats:
    return np.full(n, -0.0, np.float32)
