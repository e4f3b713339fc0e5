"""What to know of texts before a number made of them is believed: faults that change it and stop nothing."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from moses_bridge.base.text_lines import read_text_lines, say
from moses_bridge.base.textio import StrPath
from moses_bridge.formats.words import ESCAPES, as_text

# No separators of words, or not in BLEU: other blanks, and marks without width that copied text brings along.
ODD_BLANK = re.compile("[^\\S \n]|[\u200b\u2060\ufeff]")
ESCAPE = re.compile("|".join(ESCAPES))
ESCAPED_LETTER = re.compile("['\"<>|\\[\\]]|&(?!(?:amp|lt|gt|quot|apos|#124|#91|#93);)")
# In the share of escaped characters: then one side is escaped and the other is not.
CLEAR_DIFFERENCE = 0.5


@dataclass(frozen=True)
class _Facts:
    """Counts of one text, or of several added up; `name` is the first file."""

    name: str
    n_words: int
    n_capitals: int
    n_escapes: int
    n_escapable: int


def text_notes(
    source: StrPath | None, references: Sequence[StrPath], outputs: Sequence[StrPath] = ()
) -> list[str]:
    """One line for each fault of texts that makes a number wrong without stopping anything.

    They are blanks inside words, empty lines among references, and escapes or capitals in translations
    (`outputs`) alone or in references alone. A fault of many files is one line. Texts are tokenised, one
    sentence a line.

    Raises:
        InputError: a file cannot be read.
    """
    known = [] if source is None else [source]
    texts = {path: [*read_text_lines(path)] for path in (*known, *references, *outputs)}
    shown = {path: as_text(b"\n".join(lines)) for path, lines in texts.items()}
    notes = [_first_of([_odd_blanks(path, text) for path, text in shown.items()])]
    given = [*zip_longest(*(texts[path] for path in references), fillvalue=b"x")]
    notes += [_first_of([_empty_lines(path, i, given) for i, path in enumerate(references)])]
    others = [texts[path] for path in known or outputs]
    notes += [_without_reference(references, given, others)]
    if references and outputs:
        expected = _facts(references[0], "\n".join(shown[path] for path in references))
        found = [_facts(path, shown[path]) for path in outputs]
        notes += [_first_of([compared(facts, expected) for facts in found]) for compared in _SIDES]
    return [note for note in notes if note]


def say_notes(
    source: StrPath | None, references: Sequence[StrPath], outputs: Sequence[StrPath] = ()
) -> None:
    """Print `text_notes` on standard error."""
    for note in text_notes(source, references, outputs):
        say(f"note: {note}")


def _first_of(notes: Sequence[str]) -> str:
    """The first note, with the number of other files that have one."""
    found = [note for note in notes if note]
    if len(found) < 2:
        return "".join(found)
    return f"{found[0]} ({len(found) - 1} more files likewise)"


def _odd_blanks(path: StrPath, text: str) -> str:
    first = ODD_BLANK.search(text)
    if first is None:
        return ""
    counts = Counter(ODD_BLANK.findall(text))
    kinds = ", ".join(f"U+{ord(blank):04X} {n:,} times" for blank, n in counts.most_common())
    line_number = text.count("\n", 0, first.start()) + 1
    return f"{os.fspath(path)}:{line_number}: a blank that separates no words; in the text {kinds}"


def _empty_lines(path: StrPath, place: int, given: Sequence[Sequence[bytes]]) -> str:
    """A note on sentences whose references, `given`, have words in another file alone."""
    empty = [
        i
        for i, lines in enumerate(given, 1)
        if not lines[place].strip() and any(map(bytes.strip, lines))
    ]
    if not empty:
        return ""
    return (
        f"{os.fspath(path)}:{empty[0]}: an empty reference; {len(empty):,} of {len(given):,} sentences "
        "have one reference less for this"
    )


def _without_reference(
    paths: Sequence[StrPath], given: Sequence[Sequence[bytes]], others: Sequence[Sequence[bytes]]
) -> str:
    """A note on sentences with words in `others`, and without any in all references."""
    words = zip_longest(*others, fillvalue=b"")
    numbers = [
        number
        for number, (lines, texts) in enumerate(zip(given, words, strict=False), start=1)
        if not any(map(bytes.strip, lines)) and any(map(bytes.strip, texts))
    ]
    if not numbers:
        return ""
    return (
        f"{', '.join(os.fspath(path) for path in paths)}:{numbers[0]}: the first of {len(numbers):,} of "
        f"{len(given):,} sentences that have no reference: all words of their translations count as wrong"
    )


def _facts(path: StrPath, text: str) -> _Facts:
    words = text.split()
    return _Facts(
        os.fspath(path),
        len(words),
        sum(word != word.lower() for word in words),
        len(ESCAPE.findall(text)),
        len(ESCAPED_LETTER.findall(text)),
    )


def _capitals(output: _Facts, reference: _Facts) -> str:
    if not output.n_words or bool(output.n_capitals) == bool(reference.n_capitals):
        return ""
    return (
        f"{output.name} has capitals in {output.n_capitals:,} of {output.n_words:,} words, "
        f"{reference.name} in {reference.n_capitals:,} of {reference.n_words:,}: they are other words to BLEU"
    )


def _escapes(output: _Facts, reference: _Facts) -> str:
    totals = [facts.n_escapes + facts.n_escapable for facts in (output, reference)]
    if not all(totals):
        return ""
    shares = output.n_escapes / totals[0], reference.n_escapes / totals[1]
    if abs(shares[0] - shares[1]) < CLEAR_DIFFERENCE:
        return ""
    return (
        f"{output.name} has {output.n_escapes:,} of {totals[0]:,} characters such as ' escaped (&apos;), "
        f"{reference.name} {reference.n_escapes:,} of {totals[1]:,}: they are other words to BLEU"
    )


_SIDES = (_escapes, _capitals)
