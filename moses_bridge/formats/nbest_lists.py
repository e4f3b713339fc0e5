"""N-best lists of several programs, checked as a whole and written in Moses's format."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import InputError
from moses_bridge.base.progress import track_lines
from moses_bridge.base.textio import StrPath, open_write
from moses_bridge.formats.fairseq_nbest import read_fairseq_nbest
from moses_bridge.formats.json_nbest import read_json_nbest
from moses_bridge.formats.marian_nbest import read_marian_nbest
from moses_bridge.formats.nbest import NBestEntry, format_entry, parse_features, read_nbest
from moses_bridge.formats.words import split_words

Reader = Callable[[StrPath], Iterator[NBestEntry]]
READERS: dict[ListFormat, Reader] = {
    "moses": read_nbest,
    "marian": read_marian_nbest,
    "fairseq": read_fairseq_nbest,
    "jsonl": read_json_nbest,
}
ESCAPES_BARS: tuple[ListFormat, ...] = (
    "fairseq",
    "jsonl",
)  # the others cannot have three bars in a text
WORD_PENALTY = "WordPenalty0"


def write_moses_list(
    path: StrPath,
    form: ListFormat,
    n_sentences: int,
    out: StrPath,
    word_penalty: bool = False,
    blank: Container[int] = (),
) -> None:
    """Write a list in Moses's format.

    Args:
        path: the list.
        form: its format.
        n_sentences: number of sentences that were translated.
        out: the list to write, compressed by suffix.
        word_penalty: whether to add the feature WordPenalty0, minus the number of words, if the list has
            no such feature.
        blank: sentences without words, whose hypotheses may be empty.

    Raises:
        InputError: a line is malformed, has other features than the first one or no words, or belongs to no
            sentence; or a sentence has no hypothesis.
    """
    with open_write(out) as stream:
        entries = checked(path, form, n_sentences, blank)
        for entry in track_lines(entries, "read", path, "hypotheses"):
            if word_penalty and f"{WORD_PENALTY}=".encode() not in entry.features.split():
                penalty = f" {WORD_PENALTY}= {-len(split_words(entry.words))}".encode()
                entry = replace(entry, features=(entry.features + penalty).strip())
            stream.write(format_entry(entry) + b"\n")


def checked(
    path: StrPath, form: ListFormat, n_sentences: int, blank: Container[int] = ()
) -> Iterator[NBestEntry]:
    """Yield the entries of a whole list; see `write_moses_list`.

    Names with "_" are sparse features, which a hypothesis may have or not.
    """
    first: tuple[tuple[str, int], ...] | None = None
    with_hypothesis: set[int] = set()
    for entry in READERS[form](path):
        features = parse_features(entry, path)
        shape = tuple((name, len(row)) for name, row in features.items() if "_" not in name)
        first = shape if first is None else first
        if shape != first:
            found = f"the features {_in_words(shape)}"
            hint = "All hypotheses must have the features of the first one, in its order"
            raise InputError(path, entry.line_number, found, _in_words(first), hint)
        if entry.sentence_id >= n_sentences:
            found = f"the sentence id {entry.sentence_id}"
            expected = f"an id below {n_sentences}, the number of sentences of the source"
            raise InputError(path, entry.line_number, found, expected)
        if entry.sentence_id not in blank and not split_words(entry.words):
            hint = "Leave it out, and keep another one of its sentence"
            raise InputError(path, entry.line_number, "a hypothesis without words", "words", hint)
        with_hypothesis.add(entry.sentence_id)
        yield entry
    for number in range(n_sentences):
        if number not in with_hypothesis:
            found = f"no hypothesis of sentence {number}"
            expected = f"one at least for each of the {n_sentences} sentences of the source"
            raise InputError(path, None, found, expected, "Is the list complete?")


def _in_words(shape: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} ({n_values})" for name, n_values in shape) or "none"
