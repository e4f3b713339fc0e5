"""Moses's tokenisation (sacremoses), escaped and lowercased, and sentence splitting."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from functools import lru_cache
from multiprocessing import get_context

from sacremoses import MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from moses_bridge.base.machine import n_processors
from moses_bridge.base.programs import worker_pool
from moses_bridge.base.progress import Progress
from moses_bridge.corpus.text_pair import TextPair

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
        language: language code, as "en" or "pt_BR"; the part after "_" is ignored.

    Returns:
        Words joined by single spaces.
    """
    code = language.partition("_")[0]
    if code in UNSPACED_LANGUAGES:
        code, text = "en", UNSPACED_WORD.sub(r" \1 ", text)
    tokens: list[str] = _tokenizer(code).tokenize(text, escape=True)
    words = " ".join(tokens).lower().split()
    # tokenizer.perl separates a line's last full stop even from an abbreviation; sacremoses does not.
    if words and (last := LAST_WORD_WITH_STOP.match(words[-1])):
        words[-1:] = [last[1], "."]
    return " ".join(words)


@lru_cache(maxsize=8)
def _tokenizer(code: str) -> MosesTokenizer:
    return MosesTokenizer(lang=code)


def tokenize_lines(lines: Sequence[str], language: str, jobs: int) -> list[str]:
    """Tokenise many lines, in order, on `jobs` processes; 0 takes one for each processor."""
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
    with worker_pool(n_processes, get_context("spawn"), _leave_interrupt_to_parent) as pool:
        yield from pool.map(_tokenize_task, tasks)


def _leave_interrupt_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tokenize_task(task: Task) -> list[str]:
    lines, language = task
    return [tokenize(line, language) for line in lines]


CLOSING = "\"'”’»)\\]"
OPENING = "\"'“‘«„([¿¡"
BOUNDARY = re.compile(rf"[.!?…।؟][.!?…]*[{CLOSING}]*(?: [»”])?\s+|[。！？][」』）]*\s*")
ACRONYM = re.compile(r"(?:^|\.)[^\W\d](?:\.[^\W\d])*$")
NUMERIC_ONLY = "#NUMERIC_ONLY#"
ALWAYS_NONBREAKING = frozenset({"e.g", "i.e", "eg", "ie", "cf", "vs", "p.ex", "z.B", "d.h"})


def split_sentences(text: str, language: str) -> list[str]:
    """Split a paragraph on one line into sentences, as Moses's split-sentences.perl does.

    A full stop ends a sentence unless an abbreviation of the language (Moses's non-breaking prefixes) or an
    acronym precedes it or a small letter follows it. Joined by a space (by nothing in scripts without
    spaces), the sentences give the text again.

    Args:
        text: the paragraph.
        language: language code, as "en" or "pt_BR".
    """
    sentences = []
    start = 0
    for match in BOUNDARY.finditer(text):
        if _ends_sentence(text, match, language):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def sentence_pairs(
    group: str | None, left: str, right: str, source: str, target: str
) -> Iterator[TextPair]:
    """Split two texts into the same number of sentences; else yield them whole."""
    sources, targets = split_sentences(left, source), split_sentences(right, target)
    if len(sources) != len(targets):
        sources, targets = [left], [right]
    for one, other in zip(sources, targets, strict=True):
        yield TextPair(group, one, other)


def _ends_sentence(text: str, match: re.Match[str], language: str) -> bool:
    if match.group()[0] in "。！？":
        return True
    follower = text[match.end() :].lstrip(OPENING + " ")[:1]
    if not follower.isalnum() or follower.islower():
        return False
    if match.group().rstrip() != ".":
        return True
    word = text[: match.start()].rpartition(" ")[2].lstrip(OPENING)
    return not _is_abbreviation(word, follower, language)


def _is_abbreviation(word: str, follower: str, language: str) -> bool:
    always, before_number = _prefixes(language.partition("_")[0])
    if word in always or ACRONYM.search(word):
        return True
    return word in before_number and follower.isdigit()


@lru_cache(maxsize=8)
def _prefixes(language: str) -> tuple[frozenset[str], frozenset[str]]:
    always, before_number = set(ALWAYS_NONBREAKING), set()
    for line in NonbreakingPrefixes().words(language):
        if line.endswith(NUMERIC_ONLY):
            before_number.add(line.removesuffix(NUMERIC_ONLY).strip())
        else:
            always.add(line)
    return frozenset(always), frozenset(before_number)
