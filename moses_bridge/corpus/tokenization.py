"""Many lines tokenised by several processes, and texts split into pairs of sentences."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from multiprocessing import get_context

from moses_bridge.base.machine import n_processors
from moses_bridge.base.programs import worker_pool
from moses_bridge.base.progress import Progress
from moses_bridge.corpus.text_pair import TextPair
from moses_bridge.formats.tokenization import split_sentences
from moses_bridge.formats.tokenization import tokenize_lines as tokenize_here

Task = tuple[Sequence[str], str, str]  # lines, their language and tokenizer

LINES_PER_TASK = 1000
FEWEST_LINES_FOR_PROCESSES = 8000


def tokenize_lines(lines: Sequence[str], language: str, tokenizer: str, jobs: int) -> list[str]:
    """Tokenise many lines, in order, on `jobs` processes; 0 takes one for each processor."""
    tasks = [
        (lines[start : start + LINES_PER_TASK], language, tokenizer)
        for start in range(0, len(lines), LINES_PER_TASK)
    ]
    tokenized: list[str] = []
    with Progress(f"tokenising {language}", len(lines)) as progress:
        is_long = len(lines) >= FEWEST_LINES_FOR_PROCESSES
        for chunk in _run(tasks, (jobs or n_processors()) if is_long else 1):
            tokenized.extend(chunk)
            progress.update(len(chunk))
    return tokenized


def _run(tasks: list[Task], n_processes: int) -> Iterator[list[str]]:
    if n_processes == 1:
        yield from map(_tokenize_task, tasks)
        return
    with worker_pool(n_processes, get_context("spawn"), _leave_interrupt_to_parent) as pool:
        yield from pool.map(_tokenize_task, tasks)


def _leave_interrupt_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tokenize_task(task: Task) -> list[str]:
    return tokenize_here(*task)


def sentence_pairs(
    group: str | None, left: str, right: str, source: str, target: str
) -> Iterator[TextPair]:
    """Split two texts into the same number of sentences; else yield them whole."""
    sources, targets = split_sentences(left, source), split_sentences(right, target)
    if len(sources) != len(targets):
        sources, targets = [left], [right]
    for one, other in zip(sources, targets, strict=True):
        yield TextPair(group, one, other)
