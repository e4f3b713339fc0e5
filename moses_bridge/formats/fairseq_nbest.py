"""What `fairseq-generate --nbest` prints, as the entries of an n-best list.

A hypothesis has a line `H-id <tab> score <tab> words`. Behind it may be `D-id`, its text without subwords, and
`P-id`, the log-probabilities of its subwords. `S-id`, the source, is in front of the hypotheses of a sentence.
Logarithms are to base 2 (fairseq_cli/generate.py); those of the entries are natural. Other lines are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.textio import StrPath, read_lines
from moses_bridge.formats.nbest import MAX_DIGITS, NBestEntry, escape_bars

LABEL = re.compile(rb"([SHDP])-(\d+)\t")
HYPOTHESIS = "H-id <tab> score <tab> words"


@dataclass
class _Hypothesis:
    """What is known of a hypothesis: log-probabilities are natural, and None where a line is missing."""

    sentence_id: int
    words: bytes
    score: float
    line_number: int
    log_prob: float | None = None

    def entry(self) -> NBestEntry:
        features = f"Score0= {self.score:.9g}"
        if self.log_prob is not None:
            features += f" LogProb0= {self.log_prob:.9g}"
        words = escape_bars(self.words.strip(b" "))
        return NBestEntry(
            self.sentence_id, words, features.encode(), self.score, (), self.line_number
        )


def read_fairseq_nbest(path: StrPath) -> Iterator[NBestEntry]:
    """Yield the hypotheses as entries of an n-best list.

    The words are those of the line D-id where there is one. The features are Score0, fairseq's score, divided
    by the length as its --lenpen says, and LogProb0, the sum of the line P-id, where there is one.

    Raises:
        InputError: a hypothesis has no source line, a line D-id or P-id has no hypothesis, or a number is
            malformed.
    """
    sources: set[int] = set()
    begun: _Hypothesis | None = None
    for line_number, line in enumerate(read_lines(path), start=1):
        label = LABEL.match(line)
        if label is None:
            continue
        kind, number, rest = label[1], _number(label[2], path, line_number), line[label.end() :]
        if kind in b"SH" and begun is not None:
            yield begun.entry()
            begun = None
        if kind == b"S":
            sources.add(number)
        elif kind == b"H":
            if number not in sources:
                found, expected = f"a hypothesis of sentence {number}", f"S-{number} before it"
                raise InputError(path, line_number, found, expected)
            score, tab, words = rest.partition(b"\t")
            if not tab:
                raise InputError(path, line_number, shown(line), HYPOTHESIS)
            begun = _Hypothesis(number, words, _natural([score], path, line_number), line_number)
        elif begun is None or begun.sentence_id != number:
            found = f"{kind.decode()}-{number}"
            raise InputError(path, line_number, found, f"the hypothesis H-{number} before it")
        elif kind == b"D":
            begun.words = _text_of(rest, path, line_number)
        else:
            begun.log_prob = _natural(rest.split(), path, line_number)
    if begun is not None:
        yield begun.entry()


def _text_of(rest: bytes, path: StrPath, line_number: int) -> bytes:
    _, tab, words = rest.partition(b"\t")
    if not tab:
        raise InputError(path, line_number, shown(rest), "score <tab> text behind D-id")
    return words


def _number(digits: bytes, path: StrPath, line_number: int) -> int:
    if len(digits) > MAX_DIGITS:
        found = f"the sentence id {shown(digits)}"
        raise InputError(path, line_number, found, "a whole number from 0")
    return int(digits)


def _natural(logarithms: list[bytes], path: StrPath, line_number: int) -> float:
    """The sum of logarithms to base 2, as a natural one."""
    try:
        total = math.fsum(map(float, logarithms))
    except ValueError:
        total = math.nan
    if not math.isfinite(total):
        found = f"the score {shown(b' '.join(logarithms))}"
        raise InputError(path, line_number, found, "finite numbers")
    return total * math.log(2)
