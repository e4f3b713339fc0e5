"""Many lines tokenised by several processes, and texts split into pairs of sentences."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.machine import n_processors
from moses_bridge.base.programs import worker_pool
from moses_bridge.base.progress import Progress
from moses_bridge.corpus.text_pair import TextPair
from moses_bridge.formats.tokenization import split_sentences
from moses_bridge.formats.tokenization import tokenize_lines as tokenize_here

LINES_PER_TASK = 1000
FEWEST_LINES_FOR_PROCESSES = 8000


def tokenize_lines(lines: Sequence[str], language: str, tokenizer: str, jobs: int) -> list[str]:
    """Tokenise many lines, in order, on `jobs` processes; 0 takes one for each processor."""
    tokenize = partial(tokenize_here, language=language, tokenizer=tokenizer)
    tasks = list(blocks_of(lines, LINES_PER_TASK))
    n_processes = (jobs or n_processors()) if len(lines) >= FEWEST_LINES_FOR_PROCESSES else 1
    tokenized: list[str] = []
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(f"tokenising {language}", len(lines)))
        chunks: Iterator[list[str]] = map(tokenize, tasks)
        if n_processes > 1:
            ignore_interrupt = signal.signal, (signal.SIGINT, signal.SIG_IGN)  # left to the parent
            pool = worker_pool(n_processes, get_context("spawn"), *ignore_interrupt)
            chunks = stack.enter_context(pool).map(tokenize, tasks)
        for chunk in chunks:
            tokenized.extend(chunk)
            progress.update(len(chunk))
    return tokenized


def sentence_pairs(
    group: str | None, left: str, right: str, source: str, target: str
) -> Iterator[TextPair]:
    """Split two texts into the same number of sentences; else yield them whole."""
    sources, targets = split_sentences(left, source), split_sentences(right, target)
    if len(sources) != len(targets):
        sources, targets = [left], [right]
    for one, other in zip(sources, targets, strict=True):
        yield TextPair(group, one, other)
