"""A back-off language model as one hash table, searched by compiled code (`lm_score`).

A sentence starts with context = [bos_id], n_context = 1 (0 if order is 1) and ends with a call for eos_id. The
new context is minimal as in KenLM: the longest suffix continued by some longer n-gram of the model or with its
own back-off, so hypotheses with equal contexts may be recombined. Places after it are left unchanged. Values
are log10; Moses's feature is their natural logarithm (multiply with LN10). An unknown word has the probability
of <unk>, -100 if the model has none, and breaks the context.

The table is a trie of reversed n-grams: a node is an index into `entries`, and a child is found by the exact
key (node, preceding word), so there are no false hits. Nodes 0 .. n_words - 1 are the words themselves.
N-grams of KenLM's binary files have no words, only codes of 64 bits (`kenlm_binary`), used as keys; a false
hit is as improbable as in KenLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base import textio
from moses_bridge.base.compiled.hash_table import FREE, hash_number, slot_of
from moses_bridge.base.compiled.inner import expanded, inlined, inner
from moses_bridge.base.compiled.kept_code import compiled
from moses_bridge.base.errors import InputError, shown
from moses_bridge.builtin.language_model.arpa import Arpa, NGrams, read_arpa
from moses_bridge.builtin.language_model.kenlm_binary import (
    CodedModel,
    CodedNGrams,
    code_of,
    is_kenlm_binary,
    read_kenlm_binary,
)

LN10 = 2.302585092994046
UNKNOWN_LOG10_PROB = -100.0
NO_EXTENSION = np.int32(-(2**31))  # the bits of -0.0: no back-off and no longer n-gram
MAX_NODES = 2**31 - 1  # a node's number is half of a key of 64 bits
GOOD, FULL, NO_CONTEXT, DUPLICATE = range(4)


class LmTables(NamedTuple):
    """Three views of one block of memory, 16 bytes a node, for compiled code.

    Attributes:
        entries: int64; entries[2 * node] is the node's key.
        values: float32; values[4 * node + 2] is the log10 probability, + 3 the log10 back-off.
        bits: int32 view of values, to distinguish -0.0 (nothing continues this n-gram) from 0.0.
        n_words: number of one-word nodes, which come first.
        mask: number of hash slots - 1.
        has_codes: whether keys are the codes of KenLM's n-grams.
    """

    entries: NDArray[np.int64]
    values: NDArray[np.float32]
    bits: NDArray[np.int32]
    n_words: int
    mask: int
    has_codes: bool = False


@dataclass(frozen=True)
class LmIndex:
    """A language model ready for lookup; see the module's docstring."""

    order: int
    vocabulary: dict[bytes, int]
    tables: LmTables
    unk_id: int
    bos_id: int
    eos_id: int

    @classmethod
    def read(cls, path: textio.StrPath) -> LmIndex:
        """Index an ARPA file or one of KenLM's binary files.

        Raises:
            InputError: the file is malformed, lacks <s> or </s>, has an n-gram twice or without its context
                (all words but the last), or is a binary file of an unsupported type.
        """
        if is_kenlm_binary(path):
            return cls._of_codes(read_kenlm_binary(path), path)
        return cls.of(read_arpa(path), path)

    @classmethod
    def of(cls, arpa: Arpa, path: textio.StrPath) -> LmIndex:
        """Index a model in memory; `path` is for error messages, as in `read`."""
        arpa = _with_unknown_word(arpa)
        return cls.of_tables(arpa.order, _numbered(arpa.words, path), _build(path, arpa))

    @classmethod
    def _of_codes(cls, model: CodedModel, path: textio.StrPath) -> LmIndex:
        vocabulary = _numbered(model.words, path)
        return cls.of_tables(len(model.sections) + 1, vocabulary, _build_of_codes(path, model))

    @classmethod
    def of_tables(cls, order: int, vocabulary: dict[bytes, int], tables: LmTables) -> LmIndex:
        """A model of complete tables."""
        markers = (vocabulary[marker] for marker in (b"<unk>", b"<s>", b"</s>"))
        return cls(order, vocabulary, tables, *markers)

    def word_id(self, word: bytes) -> int:
        """The word's number, unk_id if the model does not know it."""
        return self.vocabulary.get(word, self.unk_id)

    def score_sentence(self, words: Sequence[bytes]) -> tuple[list[float], list[int]]:
        """Log10 probabilities of the words and of </s>, and the lengths of the n-grams found."""
        ids = np.array([self.word_id(word) for word in words] + [self.eos_id], np.int32)
        end = np.array([len(words)])
        scores, lengths = _score_sentences(self.tables, ids, end, self.bos_id, self.order)
        return scores.tolist(), lengths.tolist()

    def sentence_sums(
        self, words: Sequence[bytes], lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Log10 probability of each sentence, </s> included, (n,).

        `words` are those of all sentences, one after another, `lengths` (n,) the words of each sentence.
        """
        numbers = map(self.vocabulary.get, words, repeat(self.unk_id))
        ids = np.fromiter(numbers, np.int32, len(words))
        ids = np.insert(ids, np.cumsum(lengths), self.eos_id)
        ends = np.cumsum(lengths + 1) - 1
        scores, _ = _score_sentences(self.tables, ids, ends, self.bos_id, self.order)
        sentences = np.repeat(np.arange(len(lengths)), lengths + 1)
        return np.asarray(np.bincount(sentences, scores, len(lengths)), np.float64)


def _numbered(words: Sequence[bytes], path: textio.StrPath) -> dict[bytes, int]:
    vocabulary = {word: number for number, word in enumerate(words)}
    for marker in (b"<s>", b"</s>"):
        if marker not in vocabulary:
            raise InputError(path, None, f"no 1-gram {marker.decode()}", "sentence markers")
    return vocabulary


def _with_unknown_word(arpa: Arpa) -> Arpa:
    if b"<unk>" in arpa.words:
        return arpa
    unigrams = arpa.sections[0]
    extended = NGrams(
        np.append(unigrams.ids, np.array([[len(arpa.words)]], np.int32), axis=0),
        np.append(unigrams.log_probs, np.float32(UNKNOWN_LOG10_PROB)),
        np.append(unigrams.backoffs, np.float32(0.0)),
        unigrams.first_line,
    )
    return Arpa([*arpa.words, b"<unk>"], [extended, *arpa.sections[1:]])


def _build(path: textio.StrPath, arpa: Arpa) -> LmTables:
    """Enter all n-grams, doubling the table while suffixes missing from the file need more room."""
    unigrams, *longer = arpa.sections
    backoffs = np.where(unigrams.backoffs == 0, np.float32(-0.0), unigrams.backoffs)
    n_ngrams, n_slots = sum(len(section.log_probs) for section in longer), 0
    while True:
        n_slots = _n_slots(path, len(arpa.words), n_ngrams, n_slots)
        tables = _tables_of_words(unigrams.log_probs, backoffs, n_slots)
        problem, n_used = GOOD, 0
        for section in longer:
            problem, row, n_used = _insert_section(tables, section, n_used)
            if problem == FULL:
                break
            if problem != GOOD:
                raise _refused(path, arpa, section, row, problem)
        if problem == GOOD:
            return tables


def _n_slots(path: textio.StrPath, n_words: int, n_ngrams: int, n_before: int = 0) -> int:
    """Slots for longer n-grams, at most three quarters of them taken; twice as many as before."""
    n_slots = 2 * n_before or 1 << max(4, (3 * n_ngrams // 2).bit_length())
    if n_words + n_slots > MAX_NODES:
        raise InputError(path, None, f"{n_ngrams} n-grams", "at most a thousand million")
    return n_slots


def _build_of_codes(path: textio.StrPath, model: CodedModel) -> LmTables:
    """Enter all n-grams by their codes; suffixes are among them."""
    n_words, n_ngrams = len(model.words), sum(len(section.codes) for section in model.sections)
    n_slots = _n_slots(path, n_words, n_ngrams)
    tables = _tables_of_words(model.log_probs, model.backoffs, n_slots)._replace(has_codes=True)
    tables.entries[: 2 * n_words : 2] = np.arange(n_words)
    for section in model.sections:
        if _insert_codes(tables, section) != GOOD:
            raise InputError(path, None, "an n-gram twice", "each n-gram once", "Build it anew")
    return tables


def _tables_of_words(
    log_probs: NDArray[np.float32], backoffs: NDArray[np.float32], n_slots: int
) -> LmTables:
    """Tables of single words with free slots for longer n-grams."""
    n_words = len(log_probs)
    entries = np.full(2 * (n_words + n_slots), FREE, np.int64)
    values = entries.view(np.float32)
    values[2 : 4 * n_words : 4] = log_probs
    values[3 : 4 * n_words : 4] = backoffs
    return LmTables(entries, values, entries.view(np.int32), n_words, n_slots - 1)


def _refused(
    path: textio.StrPath, arpa: Arpa, section: NGrams, row: int, problem: int
) -> InputError:
    words = shown(b" ".join(arpa.words[i] for i in section.ids[row]))
    expected = {
        NO_CONTEXT: "an n-gram whose first words are an n-gram of the section before",
        DUPLICATE: "each n-gram once",
    }[problem]
    return InputError(path, section.first_line + row, words, expected)


@expanded
def _key(tables: LmTables, node: int, word: int) -> int:
    if tables.has_codes:
        return int(np.int64(code_of(tables.entries[2 * node], word)))
    return int((np.int64(node) << 32) | np.int64(word))


@inlined
def _find(tables: LmTables, key: int) -> int:
    """The node with this key, or the free node where it belongs."""
    slot = slot_of(hash_number(key), tables.mask + 1)
    found = tables.entries[np.uintp(2 * (tables.n_words + slot))]
    while found != key and found != FREE:
        slot = (slot + 1) & tables.mask
        found = tables.entries[np.uintp(2 * (tables.n_words + slot))]
    return int(tables.n_words + slot)


@inner
def _walk(tables: LmTables, ids: Any, first: int, last: int) -> int:
    """The node of the n-gram ids[first:last + 1] in text order, -1 if it is not there."""
    node = int(ids[last])
    for i in range(last - 1, first - 1, -1):
        key = _key(tables, node, ids[i])
        node = _find(tables, key)
        if tables.entries[2 * node] == FREE:
            return -1
    return node


@inner
def _mark_continued(tables: LmTables, node: int) -> None:
    if tables.bits[4 * node + 3] == NO_EXTENSION:
        tables.bits[4 * node + 3] = 0


@inner
def _insert_missing_suffix(tables: LmTables, ids: Any, first: int, last: int) -> tuple[int, int]:
    """Enter ids[first:last + 1] and its suffixes where absent, as in models pruned by other programs."""
    node = int(ids[last])
    n_new = 0
    for i in range(last - 1, first - 1, -1):
        shorter_prob = tables.values[4 * node + 2]
        key = _key(tables, node, ids[i])
        node = _find(tables, key)
        if tables.entries[2 * node] == FREE:
            context = _walk(tables, ids, i, last - 1)
            backoff = np.float32(0.0)
            if context >= 0:
                _mark_continued(tables, context)
                backoff = tables.values[4 * context + 3]
            tables.entries[2 * node] = key
            tables.values[4 * node + 2] = shorter_prob + backoff
            tables.bits[4 * node + 3] = NO_EXTENSION
            n_new += 1
    return node, n_new


@compiled
def _insert_section(tables: LmTables, section: NGrams, n_used: int) -> tuple[int, int, int]:
    """Enter the n-grams of one order; return the problem, its row, and the number of slots taken."""
    ids, log_probs, backoffs = section.ids, section.log_probs, section.backoffs
    n_rows, order = ids.shape
    for row in range(n_rows):
        if (n_used + order) * 4 > (tables.mask + 1) * 3:
            return FULL, row, n_used
        context = _walk(tables, ids[row], 0, order - 2)
        if context < 0:
            return NO_CONTEXT, row, n_used
        _mark_continued(tables, context)
        suffix, n_new = _insert_missing_suffix(tables, ids[row], 1, order - 1)
        key = _key(tables, suffix, ids[row, 0])
        node = _find(tables, key)
        if tables.entries[2 * node] != FREE:
            return DUPLICATE, row, n_used
        tables.entries[2 * node] = key
        tables.values[4 * node + 2] = log_probs[row]
        tables.values[4 * node + 3] = backoffs[row]
        if backoffs[row] == 0:
            tables.bits[4 * node + 3] = NO_EXTENSION
        n_used += n_new + 1
    return GOOD, 0, n_used


@compiled
def _insert_codes(tables: LmTables, section: CodedNGrams) -> int:
    """Enter the n-grams of one order of a model with codes; return the problem."""
    for row in range(len(section.codes)):
        key = np.int64(section.codes[row])
        node = _find(tables, key)
        if tables.entries[2 * node] != FREE:
            return DUPLICATE
        tables.entries[2 * node] = key
        tables.values[4 * node + 2] = section.log_probs[row]
        tables.values[4 * node + 3] = section.backoffs[row]
    return GOOD


@inlined
def _backoff(tables: LmTables, context: Any, n_context: int, n_matched: int) -> float:
    """Sum of the log10 back-offs of the contexts of n_matched words and more."""
    total = 0.0
    node = int(context[0])
    for length in range(1, n_context + 1):
        if length >= n_matched:
            total += np.float64(
                tables.values[np.uintp(4 * node + 3)]
            )  # NumPy alone would add as float32
        if length < n_context:
            node = _find(tables, _key(tables, node, context[length]))
            if tables.entries[np.uintp(2 * node)] == FREE:
                break
    return total


@inlined
def lm_score_matched(
    tables: LmTables, context: Any, n_context: int, word: int, new_context: Any
) -> tuple[float, int, int]:
    """See `lm_score`; also returns the length of the longest n-gram found."""
    node = int(word)
    n_matched = 1
    n_new = 1 if tables.bits[np.uintp(4 * node + 3)] != NO_EXTENSION else 0
    log_prob = float(tables.values[np.uintp(4 * node + 2)])
    for i in range(n_context):
        node = _find(tables, _key(tables, node, context[i]))
        if tables.entries[np.uintp(2 * node)] == FREE:
            break
        n_matched = i + 2
        log_prob = float(tables.values[np.uintp(4 * node + 2)])
        if tables.bits[np.uintp(4 * node + 3)] != NO_EXTENSION:
            n_new = n_matched
    if n_matched <= n_context:
        log_prob += _backoff(tables, context, n_context, n_matched)
    for i in range(n_new - 1, 0, -1):
        new_context[i] = context[i - 1]
    if n_new > 0:
        new_context[0] = word
    return log_prob, n_new, n_matched


@expanded
def lm_score(
    tables: LmTables, context: Any, n_context: int, word: int, new_context: Any
) -> tuple[float, int]:
    """Log10 probability of `word` after context[:n_context], and the length of the new context.

    Both contexts are int32 arrays with order - 1 places, most recent word first, and may be the same one.
    """
    # As 64-bit numbers, so that one function serves all callers.
    log_prob, n_new, _ = lm_score_matched(
        tables, context, np.int64(n_context), np.int64(word), new_context
    )
    return log_prob, n_new


@compiled
def _score_sentences(
    tables: LmTables, ids: Any, ends: Any, bos_id: int, order: int
) -> tuple[Any, Any]:
    """Log10 probabilities and lengths of n-grams of sentences, each up to its place in `ends`."""
    context = np.zeros(max(1, order - 1), np.int32)
    log_probs, lengths = np.zeros(len(ids)), np.zeros(len(ids), np.int64)
    start = 0
    for end in ends:
        context[0] = bos_id
        n_context = min(1, order - 1)
        for i in range(start, end + 1):
            log_probs[i], n_context, lengths[i] = lm_score_matched(
                tables, context, n_context, np.int64(ids[i]), context
            )
        start = end + 1
    return log_probs, lengths
