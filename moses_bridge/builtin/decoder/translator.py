"""One sentence from bytes to its translations, and the n-best lines of Moses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_bridge.builtin.decoder.hypotheses import make_groups, make_hypotheses
from moses_bridge.builtin.decoder.lattice import Paths, best_paths, words_of_options
from moses_bridge.builtin.decoder.model import MAX_WINDOW, Model
from moses_bridge.builtin.decoder.options import (
    UNKNOWN_ROW,
    Knowledge,
    Options,
    choose_for_sentence,
    make_options,
)
from moses_bridge.builtin.decoder.phrase_choice import Language, no_choices
from moses_bridge.builtin.decoder.search import Limits, make_workspace, search
from moses_bridge.formats.alignment import parse_links

ROOM_FOR_WORDS = 64
BAR, ESCAPED_BAR = b"|||", b"&#124;&#124;&#124;"


@dataclass(frozen=True)
class NBestFormat:
    """What an n-best line holds.

    Attributes:
        size: at most so many translations of a sentence, all with different words.
        factor: size * factor paths are looked at; 0 = 1000.
        segmentation: whether the source and target spans of the phrases are printed.
        alignment: whether the word links are printed.
    """

    size: int
    factor: int
    segmentation: bool
    alignment: bool

    @property
    def n_pops(self) -> int:
        """How many paths are looked at (Manager.cpp)."""
        return self.size * (self.factor if self.factor > 0 else 1000)


def make_knowledge(
    model: Model, lm_scores: NDArray[np.float32], weights: NDArray[np.float64]
) -> Knowledge:
    """What options are made of, under some weights; lm_scores is kept from one to the next."""
    pairs = model.pairs
    lm = model.lm
    language = Language(lm.tables, len(lm.vocabulary), lm.unk_id, lm.bos_id, lm.eos_id, lm.order)
    return Knowledge(
        pairs.rows, pairs.trie, pairs.node_starts, pairs.node_rows, model.reordering, lm_scores,
        language, no_choices(pairs.node_starts, model.table_limit), weights,
    )  # fmt: skip


def split_words(line: bytes) -> list[bytes]:
    """The words of a line, which blanks and tabs set off, as in Moses."""
    return [word for word in line.replace(b"\t", b" ").split(b" ") if word]


class Translator:
    """Translates one sentence after the other under fixed weights.

    Args:
        model: tables.
        knowledge: tables and weights for compiled code.
        limits: of the search.
    """

    def __init__(self, model: Model, knowledge: Knowledge, limits: Limits) -> None:
        self.model = model
        self.knowledge = knowledge
        self.limits = limits
        self._room = 0
        self._work = make_workspace(limits, model.max_phrase_words, model.lm.order)
        self._make_room(ROOM_FOR_WORDS)

    def choose(self, line: bytes) -> None:
        """Choose the options of all phrases of a line; see `choose_for_sentence`."""
        choose_for_sentence(
            self._source(split_words(line)), self.model.max_phrase_words, self.knowledge
        )

    def translate(
        self, sentence_id: int, line: bytes, nbest: NBestFormat | None
    ) -> tuple[bytes, list[bytes]]:
        """The best translation, and the lines of the n-best list (none for an empty sentence)."""
        words = split_words(line)
        if not words:
            return b"", []
        self._make_room(len(words))
        copies, names = self._copies(words)
        options = make_options(
            self._source(words), copies, self.model.max_phrase_words, self.knowledge
        )
        search(
            options, self.knowledge.language, self.knowledge.weights, self.limits,
            self._hyps, self._groups, self._work,
        )  # fmt: skip
        paths = self._paths(options, nbest)
        texts = self._texts(options, paths, names)
        if nbest is None:
            return texts[0], []
        return texts[0], self._lines(sentence_id, texts, options, paths, nbest)

    def _make_room(self, n_words: int) -> None:
        if n_words > self._room:
            self._room = n_words + n_words // 2
            pop_limit = self.limits.pop_limit
            self._hyps = make_hypotheses(self._room, pop_limit, self.model.lm.order)
            self._groups = make_groups(self._room, self.limits.stack_size, pop_limit)

    def _source(self, words: Sequence[bytes]) -> NDArray[np.int32]:
        return np.array([self.model.source_ids.get(word, -1) for word in words], np.int32)

    def _copies(self, words: Sequence[bytes]) -> tuple[NDArray[np.int32], dict[int, bytes]]:
        """Each word as a target word; words that are none get numbers behind all others."""
        known, n_known = self.model.target_ids, len(self.model.target_words)
        new: dict[bytes, int] = {}
        for word in words:
            if word not in known:
                new.setdefault(word, n_known + len(new))
        ids = [new[word] if word in new else known[word] for word in words]
        return np.array(ids, np.int32), {number: word for word, number in new.items()}

    def _paths(self, options: Options, nbest: NBestFormat | None) -> Paths:
        groups = self._groups
        first_group, end_group = groups.stack_starts[options.n_words : options.n_words + 2]
        finals = groups.members[groups.starts[first_group] : groups.starts[end_group]]
        size, n_pops = (1, 1) if nbest is None else (nbest.size, nbest.n_pops)
        paths: Paths = best_paths(finals, size, n_pops, self._hyps, options, self.knowledge)
        return paths

    def _texts(self, options: Options, paths: Paths, names: Mapping[int, bytes]) -> list[bytes]:
        known, n_known = self.model.target_words, len(self.model.target_words)
        starts = paths.phrase_starts.tolist()
        texts = []
        for i in range(len(paths.totals)):
            ids = words_of_options(paths.options[starts[i] : starts[i + 1]], options).tolist()
            texts.append(b" ".join([known[j] if j < n_known else names[j] for j in ids]))
        return texts

    def _lines(
        self, sentence_id: int, texts: list[bytes], options: Options, paths: Paths,
        nbest: NBestFormat,
    ) -> list[bytes]:  # fmt: skip
        template, columns = self._feature_template()
        values = paths.features[:, columns].tolist()
        totals = paths.totals.tolist()
        lines = []
        for i, text in enumerate(texts):
            features = template % tuple(values[i])
            text = text.replace(BAR, ESCAPED_BAR)
            line = b"%d ||| %b  ||| %b ||| %g" % (sentence_id, text, features, totals[i])
            if nbest.segmentation or nbest.alignment:
                phrases = paths.options[paths.phrase_starts[i] : paths.phrase_starts[i + 1]]
                line += self._fields(phrases.tolist(), options, nbest)
            lines.append(line)
        return lines

    def _feature_template(self) -> tuple[bytes, list[int]]:
        listed = [feature for feature in self.model.features if feature.listed]
        names = [f"{feature.name}={' %g' * feature.size}" for feature in listed]
        columns = [feature.first + i for feature in listed for i in range(feature.size)]
        return " ".join(names).encode("utf-8", "surrogateescape"), columns

    def _fields(self, phrases: list[int], options: Options, nbest: NBestFormat) -> bytes:
        """The segmentation and the word links, each number with a blank behind it as in Moses."""
        segments, links = b"", b""
        place = 0
        for option in phrases:
            start, end = int(options.starts[option]), int(options.ends[option])
            length = int(options.word_starts[option + 1] - options.word_starts[option])
            segments += b"%b=%b " % (_span(start, end), _span(place, place + length))
            for source, target in self._links(int(options.rows[option])):
                links += b"%d-%d " % (start + source, place + target)
            place += length
        fields = b" ||| " + segments[:-1] if nbest.segmentation else b""
        return fields + (b" ||| " + links if nbest.alignment else b"")

    def _links(self, row: int) -> list[tuple[int, int]]:
        if row == UNKNOWN_ROW:
            return [(0, 0)]
        rows = self.model.pairs.rows
        text = rows.links[rows.link_starts[row] : rows.link_starts[row + 1]].tobytes()
        return sorted(parse_links(text, "phrase table", row + 1))


def _span(start: int, end: int) -> bytes:
    return b"%d" % start if end <= start + 1 else b"%d-%d" % (start, end - 1)


def effective_distortion_limit(limit: int) -> int:
    """The limit as the search keeps it: at most MAX_WINDOW, which also stands for no limit."""
    return min(limit, MAX_WINDOW) if limit >= 0 else MAX_WINDOW
