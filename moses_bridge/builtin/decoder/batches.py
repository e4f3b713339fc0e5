"""Translation of lines in batches by several processes sharing the memory of the model."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

from moses_bridge.base.errors import InputError
from moses_bridge.base.machine import keep_freed_memory
from moses_bridge.base.programs import worker_pool
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.neural_feature import NeuralFeature
from moses_bridge.builtin.decoder.neural_translator import NeuralTranslator
from moses_bridge.builtin.decoder.ngram_memo import CachedScorers, Command, NewValues
from moses_bridge.builtin.decoder.translator import Translation, Translator
from moses_bridge.builtin.decoder.word_places import check_links
from moses_bridge.formats.ngram_scorer import LostScorer, NeuralLm, NgramScorer, NoScorer

LINES_PER_TASK = 4  # few, so that no process waits long for the last one
LINES_PER_NEURAL_TASK = 64  # at least: more lines mean larger batches of the neural model
MOST_LINES_PER_NEURAL_TASK = 512  # among many lines, those of similar length are searched together
NEURAL_TASKS_PER_PROCESS = 3  # several, so that no process waits long for the last one
PARENT_CHECK_SECONDS = 1.0


BatchTranslator = Translator | NeuralTranslator  # translates consecutive lines


@dataclass(frozen=True)
class Work:
    """The part of the work common to all processes; without `nbest` there are no n-best lists.

    `lms` are the neural models among the features, with their weights.
    """

    translator: Translator
    nbest: NBestFormat | None
    lms: tuple[NeuralLm, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def lines_per_task(self) -> int:
        """Smallest number of lines translated at a time."""
        return LINES_PER_NEURAL_TASK if self.lms else LINES_PER_TASK

    def open(self, cached: CachedScorers, number: int = 0) -> BatchTranslator:
        """Return a translator for this process, by its number among those translating the text."""
        if not self.lms:
            return self.translator
        keep_freed_memory()  # each text has tables of n-grams that grow
        scorers = [cached.of(lm.command, number) for lm in self.lms]
        if any(scorer.reads_source for scorer in scorers):
            check_links(self.translator.model.table)
        return self._with_scorers(scorers)

    def _with_scorers(self, scorers: Sequence[NgramScorer]) -> NeuralTranslator:
        features = [
            NeuralFeature(lm.name, weight, scorer, self.translator.model.target_words)
            for lm, weight, scorer in zip(self.lms, self.weights, scorers, strict=True)
        ]
        return NeuralTranslator(self.translator, features)

    def compile(self) -> None:
        """Translate a word, so that forked processes need not compile anything."""
        if not self.lms:
            self.translator.translate_batch(0, [b"a"], self.nbest)
            return
        self._compile_with(reads_source=False)
        with contextlib.suppress(InputError):  # without good links, no model may see the source
            check_links(self.translator.model.table)
            self._compile_with(reads_source=True)

    def _compile_with(self, reads_source: bool) -> None:
        scorers = [NoScorer(reads_source) for _ in self.lms]
        self._with_scorers(scorers).translate_batch(0, [b"a"], self.nbest)


def translate_lines(
    work: Work, lines: Sequence[bytes], jobs: int, scorers: CachedScorers
) -> Iterator[Translation]:
    """Yield the translation and the n-best lines of each line, in order.

    With one job, this process translates all lines. The scorers of the neural models are kept after the call.

    Raises:
        UserError: the command of a neural model fails, a model sees the source but the table lacks valid
            word links, or a process is killed.
    """
    size = _task_size(work, len(lines), jobs)
    firsts = range(0, len(lines), size)
    batches = [lines[first : first + size] for first in firsts]
    n_processes = min(jobs, len(batches))
    try:
        if n_processes > 1:
            _prepare(work, lines, n_processes, scorers)
            yield from _translate_in_parallel(work, firsts, batches, n_processes, scorers)
        else:
            translator = work.open(scorers)
            for first, batch in zip(firsts, batches, strict=True):
                yield from translator.translate_batch(first, batch, work.nbest)
    except BaseException:
        scorers.end()  # a process may have an unread answer
        raise


def _task_size(work: Work, n_lines: int, jobs: int) -> int:
    if not work.lms:
        return work.lines_per_task
    n_tasks = NEURAL_TASKS_PER_PROCESS * jobs if jobs > 1 else 1
    share = -(-n_lines // n_tasks)
    return min(MOST_LINES_PER_NEURAL_TASK, max(work.lines_per_task, share))


def _translate_in_parallel(
    work: Work, firsts: Sequence[int], batches: Sequence[Sequence[bytes]], n_processes: int,
    scorers: CachedScorers,
) -> Iterator[Translation]:  # fmt: skip
    """Translate in processes forked from this one, keeping the values they request from the models."""
    context = get_context("fork")
    numbers = context.SimpleQueue()
    for number in range(n_processes):
        numbers.put(number)
    shared = work, scorers, numbers, os.getpid()
    try:
        with worker_pool(n_processes, context, _share, shared) as pool:
            for translations, news in pool.map(_translate_shared, firsts, batches):
                scorers.queue(news)
                yield from translations
    except LostScorer as lost:
        raise scorers.processes.failure(lost) from lost


def _prepare(work: Work, lines: Sequence[bytes], n_processes: int, scorers: CachedScorers) -> None:
    """Choose the phrase pairs and compile the search once, before the processes start."""
    if not work.lms:
        for line in lines:
            work.translator.choose(line)
    else:  # each process chooses for itself, since the choice depends on what the models see
        scorers.processes.start([lm.command for lm in work.lms], n_processes)
        work.open(scorers)
    work.compile()


_shared: list[tuple[Work, CachedScorers, int]] = []
_opened: list[BatchTranslator] = []


def _share(work: Work, scorers: CachedScorers, numbers: SimpleQueue[int], parent: int) -> None:
    _shared[:] = [(work, scorers, numbers.get())]
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    """End this process once its parent is gone: a killed parent cannot do it."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def _translate_shared(
    first_id: int, lines: Sequence[bytes]
) -> tuple[list[Translation], dict[Command, NewValues]]:
    """Translate in a process of the pool; return the values newly requested from the models as well."""
    ((work, scorers, number),) = _shared
    if not _opened:
        _opened.append(work.open(scorers, number))
    translations = _opened[0].translate_batch(first_id, lines, work.nbest)
    return translations, scorers.take_queued()
