"""Selecting the part of a text, or of a parallel text, closest to a domain."""

from __future__ import annotations

import heapq
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.config import AtLeast, AtMost, check_limits
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import track, track_lines
from moses_bridge.base.text_lines import read_parallel
from moses_bridge.base.textio import is_stream, open_write, write_lines
from moses_bridge.builtin.language_model.arpa import MAX_ORDER
from moses_bridge.builtin.language_model.kneser_ney import model_within, pruning_thresholds
from moses_bridge.builtin.language_model.lm_index import LN10, LmIndex
from moses_bridge.builtin.language_model.ngram_counts import SPECIAL_WORDS, words_of_line

ROWS_AT_ONCE = 4096

Rows = Iterable[tuple[bytes, ...]]


@dataclass(frozen=True)
class SelectConfig:
    """Settings of `select_text`; at most one of n_lines, share and n_words is set.

    Attributes:
        n_lines: number of lines to choose.
        share: share of the lines to choose.
        n_words: as many of the best lines are chosen as have at most that many words, of the first text.
        order: words of the longest n-grams, where the models are made from texts.
        min_count: words occurring less often in the domain's text are <unk> in both models.
        seed: seed of the sample of general text from which its model is made.
    """

    n_lines: Annotated[int, AtLeast(1)] | None = None
    share: Annotated[float, AtLeast(0), AtMost(1)] | None = None
    n_words: Annotated[int, AtLeast(1)] | None = None
    order: Annotated[int, AtLeast(1), AtMost(MAX_ORDER)] = 4
    min_count: Annotated[int, AtLeast(1)] = 2
    seed: int = 1

    def __post_init__(self) -> None:
        check_limits(self)
        if sum(size is not None for size in self._sizes) > 1:
            raise ConfigError("set one of n_lines, share and n_words")

    @property
    def _sizes(self) -> tuple[float | None, ...]:
        return self.n_lines, self.share, self.n_words

    @property
    def scores_only(self) -> bool:
        """Whether these settings select no lines."""
        return all(size is None for size in self._sizes)


@dataclass(frozen=True)
class Domain:
    """A domain: a text for each side, or two n-gram models for each side.

    Attributes:
        texts: text of the domain, one file per side.
        models: ARPA files of the domain, one per side, instead of the texts ...
        general_models: ... and those of general text.
    """

    texts: tuple[Path, ...] = ()
    models: tuple[Path, ...] = ()
    general_models: tuple[Path, ...] = ()


@dataclass(frozen=True)
class SelectReport:
    """The size of a selection.

    Attributes:
        n_chosen: lines chosen, 0 if none was requested.
        n_words: words of the first text.
        n_chosen_words: words of the first text in chosen lines.
    """

    n_lines: int
    n_chosen: int
    n_words: int
    n_chosen_words: int


def select_text(
    texts: Sequence[Path],
    domain: Domain,
    config: SelectConfig,
    outs: Sequence[Path] = (),
    scores_out: Path | None = None,
) -> SelectReport:
    """Score each line of a text, or of two parallel ones, by similarity to a domain; write the best ones.

    The score of one text is the difference of cross-entropies of Moore and Lewis (2010); of two parallel ones,
    the sum over both sides of Axelrod et al. (2011). Lines keep their bytes and order. Of equal lines the first
    ranks higher; a line without words on a side ranks last. The texts are read for the general model's sample,
    if one is made, to score them and to write.

    The chosen lines of each text go to one of `outs`; none if the settings choose nothing. `scores_out` has a
    score per line, nats per word, smaller is better; "inf" for a line without words.

    Raises:
        ConfigError: files or settings do not fit together.
        InputError: a text is empty or has fewer lines than the other one, or a model is malformed.
    """
    _check(texts, domain, config, outs, scores_out)
    if domain.texts:
        order, min_count, seed = config.order, config.min_count, config.seed
        models = estimate_domain_models(domain.texts, texts, order, min_count, seed)
    else:
        models = read_domain_models(domain.models, domain.general_models)
    scores, words = score_rows(
        track_lines(read_parallel(*texts), "score", texts[0], "lines"), models
    )
    if not len(scores):
        raise InputError(texts[0], None, "no lines", "a text with at least one line")
    if scores_out is not None:
        write_lines(scores_out, (b"%.6f" % score for score in scores))
    if config.scores_only:
        return SelectReport(len(scores), 0, int(words.sum()), 0)
    chosen = choose(scores, words, config)
    _write(texts, outs, chosen)
    return SelectReport(len(scores), int(chosen.sum()), int(words.sum()), int(words[chosen].sum()))


def choose(
    scores: NDArray[np.float64], words: NDArray[np.int32], config: SelectConfig
) -> NDArray[np.bool_]:
    """Whether each line is chosen, (n,), from scores (n,), smaller is better, and numbers of words (n,)."""
    order = np.argsort(scores, kind="stable")
    if config.n_words is not None:
        n_chosen = int(
            np.searchsorted(words[order].cumsum(dtype=np.int64), config.n_words, "right")
        )
    elif config.share is not None:
        n_chosen = round(config.share * len(scores))
    else:
        n_chosen = config.n_lines or 0
    chosen = np.zeros(len(scores), np.bool_)
    chosen[order[:n_chosen]] = True
    return chosen


def _check(
    texts: Sequence[Path],
    domain: Domain,
    config: SelectConfig,
    outs: Sequence[Path],
    scores_out: Path | None,
) -> None:
    if len(texts) not in (1, 2):
        raise ConfigError(f"found {len(texts)} texts, expected one, or two that are parallel")
    has_models = bool(domain.models or domain.general_models)
    if bool(domain.texts) == has_models:
        raise ConfigError("give a text of the domain, or a model of the domain and a general one")
    wanted = (domain.models, domain.general_models) if has_models else (domain.texts,)
    if any(len(files) != len(texts) for files in wanted):
        raise ConfigError("each text needs its own file of the domain, in the same order")
    if config.scores_only and (outs or scores_out is None):
        raise ConfigError(
            "say how much to choose: n_lines, share or n_words; or ask for scores alone"
        )
    if not config.scores_only and len(outs) != len(texts):
        raise ConfigError("each text needs a file for its chosen lines, in the same order")
    if stream := next((path for path in texts if is_stream(path)), None):
        raise ConfigError(f"{stream} is read more than once: name a file")
    written = [*outs, *([] if scores_out is None else [scores_out])]
    read = [*texts, *domain.texts, *domain.models, *domain.general_models]
    refuse_overwriting(written, read)


def _write(texts: Sequence[Path], outs: Sequence[Path], chosen: NDArray[np.bool_]) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(open_write(path)) for path in outs]
        rows = track(read_parallel(*texts), "select", len(chosen))
        for row, is_chosen in zip(rows, chosen, strict=True):
            if is_chosen:
                for stream, line in zip(streams, row, strict=True):
                    stream.write(line + b"\n")


@dataclass(frozen=True)
class DomainModels:
    """The models of one side: of text from the domain, and of general text."""

    domain: LmIndex
    general: LmIndex

    def differences(self, lines: Sequence[bytes]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """H_domain - H_general of lines, their cross-entropies in nats per word, (n,), and their words, (n,).

        The score is that of Moore and Lewis (Intelligent selection of language model training data, ACL 2010);
        smaller is closer to the domain. </s> counts as a word; a line without words has infinity.
        """
        split = [words_of_line(line) for line in lines]
        lengths = np.fromiter(map(len, split), np.int64, len(split))
        words = [word for sentence in split for word in sentence]
        sums = [model.sentence_sums(words, lengths) for model in (self.domain, self.general)]
        differences = (sums[1] - sums[0]) * LN10 / (lengths + 1)
        return np.where(lengths > 0, differences, np.inf), lengths


def read_domain_models(domain: Sequence[Path], general: Sequence[Path]) -> list[DomainModels]:
    """Read the models of each side, ARPA files; InputError if a file is malformed."""
    pairs = zip(domain, general, strict=True)
    return [DomainModels(LmIndex.read(one), LmIndex.read(other)) for one, other in pairs]


def estimate_domain_models(
    domain: Sequence[Path], general: Sequence[Path], order: int, min_count: int, seed: int
) -> list[DomainModels]:
    """Make the models of each side from text of the domain and the same number of words of general text.

    Domain and general text are a file per side; two sides are parallel. General text is read once: lines are
    drawn at random until they have as many words, on both sides together, as the domain's text. Both models of
    a side know the words occurring at least `min_count` times in the domain's text; all others are <unk> (Moore
    and Lewis 2010). Smoothing is modified Kneser-Ney.

    Raises:
        InputError: a text is empty, has no word often enough, or has fewer lines than another one.
    """
    rows = list(track_lines(read_parallel(*domain), "domain", domain[0], "lines"))
    sample = draw_rows(
        track_lines(read_parallel(*general), "draw general text", general[0], "lines"),
        sum(map(_row_words, rows)),
        seed,
    )
    thresholds = pruning_thresholds(order, ())
    models = []
    for i, (one, other) in enumerate(zip(domain, general, strict=True)):
        texts = [[words_of_line(row[i]) for row in part] for part in (rows, sample)]
        for path, text in zip((one, other), texts, strict=True):
            if not any(text):
                raise InputError(path, None, "no words", "a text with at least one word")
        vocabulary = frequent_words(texts[0], min_count)
        if not vocabulary:
            found = f"no word at least {min_count} times"
            raise InputError(one, None, found, "more text of the domain", "Or set min_count = 1")
        arpas = [model_within(text, vocabulary, thresholds) for text in texts]
        models.append(DomainModels(LmIndex.of(arpas[0], one), LmIndex.of(arpas[1], other)))
    return models


def frequent_words(text: Iterable[Sequence[bytes]], min_count: int) -> list[bytes]:
    """The words occurring at least `min_count` times in a text, by first appearance, without markers."""
    counts = Counter(word for sentence in text for word in sentence)
    return [word for word, n in counts.items() if n >= min_count and word not in SPECIAL_WORDS]


def _row_words(row: tuple[bytes, ...]) -> int:
    return sum(len(words_of_line(line)) for line in row)


def draw_rows(rows: Rows, size: int, seed: int) -> list[tuple[bytes, ...]]:
    """Draw rows at random, without replacement, until they have `size` words; in one pass.

    The rows with the smallest random keys stay, in the order of the text; all if there are too few. No more
    rows than needed are ever kept.
    """
    chance = random.Random(seed)
    heap: list[tuple[float, int, int, tuple[bytes, ...]]] = []  # the largest key first
    total = 0
    for position, row in enumerate(rows):
        key = -chance.random()
        if total >= size and heap and key < heap[0][0]:
            continue
        length = _row_words(row)
        if length == 0:
            continue
        heapq.heappush(heap, (key, position, length, row))
        total += length
        while heap and total - heap[0][2] >= size:
            total -= heapq.heappop(heap)[2]
    return [row for _, _, _, row in sorted(heap, key=lambda entry: entry[1])]


def score_rows(
    rows: Rows, models: Sequence[DomainModels]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The sum of the sides' differences for each row, (n,), and the words of its first side, (n,).

    The score is that of Axelrod et al. (Domain adaptation via pseudo in-domain data selection, EMNLP 2011);
    with one side that of Moore and Lewis. Smaller is closer to the domain.
    """
    scores, words = array("d"), array("i")
    for block in blocks_of(rows, ROWS_AT_ONCE):
        columns = zip(models, zip(*block, strict=True), strict=True)
        sides = [model.differences(lines) for model, lines in columns]
        scores.frombytes(np.sum([values for values, _ in sides], axis=0).tobytes())
        words.frombytes(sides[0][1].astype(np.int32).tobytes())
    return np.frombuffer(scores), np.frombuffer(words, np.int32)
