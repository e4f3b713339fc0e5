"""Moses's tokenisation (sacremoses), escaped and lowercased, on all processors."""

from __future__ import annotations

import multiprocessing
import re
import signal
from collections.abc import Iterator, Sequence
from functools import lru_cache

from sacremoses import MosesTokenizer

from moses_bridge.base.machine import n_processors
from moses_bridge.base.progress import Progress

Task = tuple[Sequence[str], str]  # lines and their language

LINES_PER_TASK = 1000
FEWEST_LINES_FOR_PROCESSES = 8000
LAST_WORD_WITH_STOP = re.compile(r"^(.*[^.])\.$")
UNSPACED_LANGUAGES = frozenset({"ja", "zh", "yue"})
UNSPACED_WORD = re.compile(
    "([\u30a0-\u30ff]+|[\u3005\u3040-\u309f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f])"
)


def tokenize(text: str, language: str) -> str:
    """Tokenise, escape (``&apos;``, ``&#124;`` …) and lowercase one line as Moses's scripts do.

    Chinese and Japanese mark no words: each letter becomes one, and each run of katakana.

    Args:
        text: one line.
        language: language code, as "en" or "pt_BR"; the part behind "_" is ignored.

    Returns:
        Words with one space between them.
    """
    code = language.partition("_")[0]
    if code in UNSPACED_LANGUAGES:
        code, text = "en", UNSPACED_WORD.sub(r" \1 ", text)
    tokens: list[str] = _tokenizer(code).tokenize(text, escape=True)
    words = " ".join(tokens).lower().split()
    # tokenizer.perl parts a line's last full stop even from an abbreviation; sacremoses does not.
    if words and (last := LAST_WORD_WITH_STOP.match(words[-1])):
        words[-1:] = [last[1], "."]
    return " ".join(words)


@lru_cache(maxsize=8)
def _tokenizer(code: str) -> MosesTokenizer:
    return MosesTokenizer(lang=code)


def tokenize_lines(lines: Sequence[str], language: str, jobs: int) -> list[str]:
    """Tokenise many lines, in order.

    Args:
        lines: the lines.
        language: language code.
        jobs: number of processes; 0 takes one for each processor.
    """
    tasks = [
        (lines[start : start + LINES_PER_TASK], language)
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
    context = multiprocessing.get_context("spawn")
    with context.Pool(n_processes, initializer=_leave_interrupt_to_parent) as pool:
        yield from pool.imap(_tokenize_task, tasks)


def _leave_interrupt_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tokenize_task(task: Task) -> list[str]:
    lines, language = task
    return [tokenize(line, language) for line in lines]
