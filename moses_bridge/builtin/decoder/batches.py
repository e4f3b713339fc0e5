"""Lines translated in batches by several processes, which share the memory of the model."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Protocol

from moses_bridge.base.errors import InputError, UserError
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.neural_feature import NeuralFeature
from moses_bridge.builtin.decoder.neural_translator import NeuralTranslator
from moses_bridge.builtin.decoder.translator import Translation, Translator
from moses_bridge.builtin.decoder.word_places import check_links
from moses_bridge.formats.ngram_scorer import NeuralLm, NgramScorer, NoScorer, ScorerProcesses

LINES_PER_TASK = 4  # few, so that no process waits long for the last one
LINES_PER_NEURAL_TASK = 64  # at least: the more, the larger the batches of the neural model
MOST_LINES_PER_NEURAL_TASK = 512  # of many lines those of like length are searched side by side
NEURAL_TASKS_PER_PROCESS = 3  # of several, so that none waits long for the last one
SECONDS_BETWEEN_LOOKS = 1.0  # at the parent process


class BatchTranslator(Protocol):
    """Translates lines that follow each other."""

    def translate_batch(
        self, first_id: int, lines: Sequence[bytes], nbest: NBestFormat | None
    ) -> list[Translation]:
        """The best translation and the n-best lines of each."""
        ...


@dataclass(frozen=True)
class NeuralWork:
    """Neural models among the features.

    Attributes:
        lms: the models.
        weights: of each.
    """

    lms: tuple[NeuralLm, ...]
    weights: tuple[float, ...]

    def start(self, translator: Translator, scorers: Sequence[NgramScorer]) -> NeuralTranslator:
        """A translator that asks scorers; see `NeuralTranslator`."""
        features = [
            NeuralFeature(lm.name, weight, scorer, translator.model.target_words)
            for lm, weight, scorer in zip(self.lms, self.weights, scorers, strict=True)
        ]
        return NeuralTranslator(translator, features)


@dataclass(frozen=True)
class Work:
    """What all processes share.

    Attributes:
        translator: of single sentences, without neural models.
        nbest: what the lines of the n-best lists hold; None for no lists.
        neural: the neural models, if there are some.
    """

    translator: Translator
    nbest: NBestFormat | None
    neural: NeuralWork | None = None

    @property
    def lines_per_task(self) -> int:
        """How many lines are translated at a time, at least."""
        return LINES_PER_TASK if self.neural is None else LINES_PER_NEURAL_TASK

    def open(self, processes: ScorerProcesses) -> BatchTranslator:
        """A translator for this process, with scorers out of such processes."""
        if self.neural is None:
            return self.translator
        scorers = [processes.of(lm.command) for lm in self.neural.lms]
        if any(scorer.reads_source for scorer in scorers):
            self._check_links()
        return self.neural.start(self.translator, scorers)

    def compile(self) -> None:
        """Translate a word, so that forked processes need not compile anything."""
        if self.neural is None:
            self.translator.translate_batch(0, [b"a"], self.nbest)
            return
        self._compile_with(self.neural, reads_source=False)
        with contextlib.suppress(InputError):  # it may be that no model sees the source
            self._check_links()
            self._compile_with(self.neural, reads_source=True)

    def _compile_with(self, neural: NeuralWork, reads_source: bool) -> None:
        scorers = [NoScorer(reads_source) for _ in neural.lms]
        neural.start(self.translator, scorers).translate_batch(0, [b"a"], self.nbest)

    def _check_links(self) -> None:
        """Make sure that a model which sees the source finds word links; see `check_links`."""
        model = self.translator.model
        check_links(model.table, model.table_path)


def translate_lines(
    work: Work, lines: Sequence[bytes], jobs: int, scorers: ScorerProcesses
) -> Iterator[Translation]:
    """The translation and the n-best lines of each line, in order.

    Args:
        work: what is translated with.
        lines: to translate.
        jobs: processes; with one, all is done in this process.
        scorers: of the neural models that this process asks, which live longer than the call; those of other
            processes end with it.

    Raises:
        UserError: a neural language model's command fails, or a process is killed.
    """
    size = _task_size(work, len(lines), jobs)
    firsts = range(0, len(lines), size)
    batches = [lines[first : first + size] for first in firsts]
    if jobs == 1 or len(batches) <= 1:
        yield from _translate_here(work, firsts, batches, scorers)
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


def _task_size(work: Work, n_lines: int, jobs: int) -> int:
    if work.neural is None:
        return work.lines_per_task
    n_tasks = NEURAL_TASKS_PER_PROCESS * jobs if jobs > 1 else 1
    share = -(-n_lines // n_tasks)
    return min(MOST_LINES_PER_NEURAL_TASK, max(work.lines_per_task, share))


def _translate_here(
    work: Work, firsts: Sequence[int], batches: Sequence[Sequence[bytes]], scorers: ScorerProcesses
) -> Iterator[Translation]:
    """Translate in this process. What breaks off leaves no scorer with an answer that nobody has read."""
    try:
        translator = work.open(scorers)
        for first, batch in zip(firsts, batches, strict=True):
            yield from translator.translate_batch(first, batch, work.nbest)
    except BaseException:
        scorers.end()
        raise


def _prepare(work: Work, lines: Sequence[bytes]) -> None:
    """Do once what each process would do: choose the phrase pairs, compile the search.

    With neural models the choice depends on what they see, which a process learns when it has started them.
    """
    if work.neural is None:
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
            _opened.append(_shared[0].open(ScorerProcesses()))
        return _opened[0].translate_batch(first_id, lines, _shared[0].nbest)
    except UserError as error:
        raise UserError(str(error)) from None  # the others cannot be sent to another process
