"""Cutting a parallel text into folds by document, and joining the folds' n-best lists.

A system trained on the rest of the text has not seen the sentences of a fold, so its n-best lists of the fold
are like those of a new text.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.text_lines import read_parallel
from moses_bridge.base.textio import StrPath, count_lines, open_write, read_lines
from moses_bridge.corpus.corpus_config import random_key
from moses_bridge.formats.nbest import BAR, parse_entry

FOLDS_NAME = "folds"
MOST_FOLDS = 100  # each has five open files, and 1,024 is the usual limit of a process


@dataclass(frozen=True)
class FoldedText:
    """A parallel text to cut into folds.

    Attributes:
        prefix: prefix of both sides: corpus/train for corpus/train.en and corpus/train.fr.
        groups: the document of each sentence, one per line; None if unknown.
        links: word alignment, one line per sentence pair; None if the systems align their own text.
    """

    prefix: Path
    source: str
    target: str
    groups: Path | None = None
    links: Path | None = None

    def files(self) -> dict[str, Path]:
        """The files to cut, by the suffix of their parts."""
        sides = {code: Path(f"{self.prefix}.{code}") for code in (self.source, self.target)}
        return sides | ({} if self.links is None else {"links": self.links})


def cut_folds(text: FoldedText, out: Path, n_folds: int = 10, seed: int = 1) -> list[int]:
    """Cut a parallel text into folds, for systems that have not seen the sentences they translate; count these.

    For each fold, from 1, OUT/NUMBER/fold.SOURCE and fold.TARGET are its sentences; rest.SOURCE, rest.TARGET
    and, with word links, rest.links are all others. OUT/folds has the fold of each line of the text; it is
    written last and marks complete folds.

    In the order of a keyed hash of their names, documents go to the fold with the fewest sentences so far.
    Sentences without a document (no groups, or an empty line there) are cut into contiguous pieces of the same
    size.

    Raises:
        ConfigError: fewer than two folds or more than a hundred, or an output is an input.
        InputError: files have different numbers of lines, or there are fewer documents than folds.
        UserError: another command writes into the directory.
    """
    if not 2 <= n_folds <= MOST_FOLDS:
        raise ConfigError(f"found {n_folds} folds, expected 2 to {MOST_FOLDS}")
    files = text.files()
    outputs = _outputs(text, out, n_folds)
    inputs = [*files.values(), *([text.groups] if text.groups else [])]
    refuse_overwriting([out / FOLDS_NAME, *outputs.values()], inputs)
    with held_directory(out):
        folds = _folds(text, n_folds, seed)
        sizes = np.bincount(folds, minlength=n_folds + 1)[1:]
        if not sizes.all():
            where = text.groups or files[text.source]
            raise InputError(
                where, None, "too few documents", f"at least one for each of {n_folds} folds"
            )
        (out / FOLDS_NAME).unlink(missing_ok=True)
        _write(files, out / FOLDS_NAME, outputs, folds)
    return [int(size) for size in sizes]


def _outputs(text: FoldedText, out: Path, n_folds: int) -> dict[tuple[int, str, str], Path]:
    """The files to write, by fold, part ("fold" or "rest") and suffix."""
    suffixes = {"fold": (text.source, text.target), "rest": tuple(text.files())}
    return {
        (number, part, suffix): out / str(number) / f"{part}.{suffix}"
        for number in range(1, n_folds + 1)
        for part in suffixes
        for suffix in suffixes[part]
    }


def _folds(text: FoldedText, n_folds: int, seed: int) -> NDArray[np.uint16]:
    """The fold of each line, from 1, *Shape:* (n_lines,)."""
    source = text.files()[text.source]
    names: Iterator[bytes] = repeat(b"", count_lines(source))
    if text.groups is not None:
        names = (name for name, _ in read_parallel(text.groups, source))
    documents: dict[bytes, int] = {}
    document_of = np.fromiter(
        (documents.setdefault(name, len(documents)) for name in names), np.int64
    )
    sizes = np.bincount(document_of, minlength=len(documents))
    fold_of = np.zeros(len(documents), np.uint16)
    fewest = [(0, number) for number in range(1, n_folds + 1)]
    for name in sorted(documents.keys() - {b""}, key=lambda name: random_key(seed, name)):
        document = documents[name]
        n_lines, number = heapq.heappop(fewest)
        fold_of[document] = number
        heapq.heappush(fewest, (n_lines + int(sizes[document]), number))
    folds: NDArray[np.uint16] = fold_of[document_of]
    nameless = np.flatnonzero(folds == 0)
    folds[nameless] = np.arange(len(nameless)) * n_folds // max(1, len(nameless)) + 1
    return folds


def _write(
    files: dict[str, Path],
    folds_path: Path,
    outputs: dict[tuple[int, str, str], Path],
    folds: NDArray[np.uint16],
) -> None:
    numbers = sorted({number for number, _, _ in outputs})
    with ExitStack() as stack:
        # The file entered first is published last.
        listed = stack.enter_context(open_write(folds_path))
        streams = {key: stack.enter_context(open_write(path)) for key, path in outputs.items()}
        for fold, lines in zip(folds.tolist(), read_parallel(*files.values()), strict=True):
            listed.write(b"%d\n" % fold)
            for suffix, line in zip(files, lines, strict=True):
                for number in numbers:
                    stream = streams.get((number, "fold" if number == fold else "rest", suffix))
                    if stream is not None:
                        stream.write(line + b"\n")


def join_folds(folds: StrPath, lists: Sequence[StrPath], out: StrPath) -> int:
    """Join n-best lists made fold by fold, in their order, to one list of the whole text; count the entries.

    Sentence n of a fold's list gets the number of the fold's n-th line in the text; nothing else changes.
    `folds` has the fold of each line of the text, from 1: OUT/folds of `cut_folds`.

    Raises:
        InputError: the file of folds or an entry is malformed, an entry has no sentence in the fold, or there
            are more or fewer lists than folds.
        ConfigError: the output is an input.
    """
    refuse_overwriting([out], [folds, *lists])
    fold_of = np.fromiter(_numbers(folds), np.int64)
    n_folds = int(fold_of.max(initial=0))
    if n_folds != len(lists):
        raise InputError(folds, None, f"{n_folds} folds", f"{len(lists)}, one for each list")
    n_entries = 0
    with open_write(out) as stream:
        for number, path in enumerate(lists, start=1):
            for entry in _renumbered(path, np.flatnonzero(fold_of == number)):
                stream.write(entry)
                n_entries += 1
    return n_entries


def _numbers(folds: StrPath) -> Iterator[int]:
    for line_number, line in enumerate(read_lines(folds), start=1):
        if not line.isdigit() or not 0 < int(line) <= MOST_FOLDS:
            raise InputError(
                folds, line_number, repr(line), f"the number of a fold, 1 to {MOST_FOLDS}"
            )
        yield int(line)


def _renumbered(path: StrPath, sentences: NDArray[np.int64]) -> Iterator[bytes]:
    """The lines of a list, numbered by sentences of the whole text."""
    for line_number, line in enumerate(read_lines(path), start=1):
        number = parse_entry(line, path, line_number).sentence_id
        if number >= len(sentences):
            expected = f"an id below {len(sentences)}, the sentences of the fold"
            raise InputError(path, line_number, f"the sentence id {number}", expected)
        yield b"%d " % sentences[number] + line[line.index(BAR) :] + b"\n"
