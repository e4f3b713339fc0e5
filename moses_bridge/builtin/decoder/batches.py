"""Lines translated in batches by several processes, which share the memory of the model."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Protocol

from moses_bridge.builtin.decoder.feature_slots import Vector
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.neural_translator import NeuralTranslator
from moses_bridge.builtin.decoder.translator import Translation, Translator
from moses_bridge.errors import UserError
from moses_bridge.ngram_scorer import NeuralLm, NgramScorer, NoScorer, ScorerProcess

LINES_PER_TASK = 4  # few, so that no process waits long for the last one
LINES_PER_NEURAL_TASK = 32  # the more, the larger the neural model's batches
SECONDS_BETWEEN_LOOKS = 1.0  # at the parent process


class BatchTranslator(Protocol):
    """Translates lines that follow each other."""

    def translate_batch(
        self, first_id: int, lines: Sequence[bytes], nbest: NBestFormat | None
    ) -> list[Translation]:
        """The best translation and the n-best lines of each."""
        ...


@dataclass(frozen=True)
class NeuralFeature:
    """A neural language model among the features.

    Attributes:
        lm: the model.
        weights: of all other features.
        weight: of it.
    """

    lm: NeuralLm
    weights: Vector
    weight: float

    def start(self, stand_in: Translator, scorer: NgramScorer) -> NeuralTranslator:
        """A translator that asks a scorer; see `NeuralTranslator`."""
        return NeuralTranslator(stand_in, self.weights, self.lm.name, self.weight, scorer)


@dataclass(frozen=True)
class Work:
    """What all processes share.

    Attributes:
        translator: of single sentences; of `stand_in_translator` if there is a neural model.
        nbest: what the lines of the n-best lists hold; None for no lists.
        neural: the neural language model, if there is one.
    """

    translator: Translator
    nbest: NBestFormat | None
    neural: NeuralFeature | None = None

    @property
    def lines_per_task(self) -> int:
        """How many lines are translated at a time."""
        return LINES_PER_TASK if self.neural is None else LINES_PER_NEURAL_TASK

    def open(self, stack: ExitStack) -> BatchTranslator:
        """A translator for this process, with a scorer that ends with the stack."""
        if self.neural is None:
            return self.translator
        scorer = stack.enter_context(ScorerProcess(self.neural.lm.command))
        return self.neural.start(self.translator, scorer)

    def compile(self) -> None:
        """Translate a word, so that forked processes need not compile anything."""
        translator: BatchTranslator = self.translator
        if self.neural is not None:
            translator = self.neural.start(self.translator, NoScorer())
        translator.translate_batch(0, [b"a"], self.nbest)


def translate_lines(work: Work, lines: Sequence[bytes], jobs: int) -> Iterator[Translation]:
    """The translation and the n-best lines of each line, in order, made by so many processes.

    Raises:
        UserError: a neural language model's command fails, or a process is killed.
    """
    firsts = range(0, len(lines), work.lines_per_task)
    batches = [lines[first : first + work.lines_per_task] for first in firsts]
    if jobs == 1 or len(batches) <= 1:
        with ExitStack() as stack:
            translator = work.open(stack)
            for first, batch in zip(firsts, batches, strict=True):
                yield from translator.translate_batch(first, batch, work.nbest)
        return
    _prepare(work, lines)
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("fork"), initializer=_share, initargs=(work, os.getpid())
    ) as pool:
        try:
            for translations in pool.map(_translate_shared, firsts, batches):
                yield from translations
        except BrokenProcessPool as error:
            raise UserError(
                "a process of the decoder was killed, perhaps for want of memory; use fewer jobs"
            ) from error


def _prepare(work: Work, lines: Sequence[bytes]) -> None:
    """Do once what each process would do: choose the phrase pairs, compile the search."""
    for line in lines:
        work.translator.choose(line)
    work.compile()


_shared: list[Work] = []
_opened: list[BatchTranslator] = []


def _share(work: Work, parent: int) -> None:
    _shared[:] = [work]
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, which a killed parent cannot arrange."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)


def _translate_shared(first_id: int, lines: Sequence[bytes]) -> list[Translation]:
    """Translate in a process of the pool; a scorer that it starts ends with the process."""
    try:
        if not _opened:
            _opened.append(_shared[0].open(ExitStack()))
        return _opened[0].translate_batch(first_id, lines, _shared[0].nbest)
    except UserError as error:
        raise UserError(str(error)) from None  # the others cannot be sent to another process
