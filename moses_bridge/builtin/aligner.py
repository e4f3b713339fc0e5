"""Word alignment in both directions by a library (sil-thot), then symmetrisation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import thot.alignment

from moses_bridge.base.choices import Aligner
from moses_bridge.base.errors import UserError
from moses_bridge.base.programs import worker_pool
from moses_bridge.base.progress import is_quiet, quiet, track
from moses_bridge.base.text_lines import read_parallel, read_text_lines
from moses_bridge.base.textio import temporary_directory, write_lines
from moses_bridge.builtin.symmetrization import symmetrize
from moses_bridge.formats.words import split_words

PAIRS_AT_ONCE = 500_000
SEED = 1
IBM1_ITERATIONS = 4
HMM_ITERATIONS = 4
FAST_ALIGN_ITERATIONS = 5
EFLOMAL_ITERATIONS = (4, 4, 8)
EFLOMAL_SAMPLERS = 3
EFLOMAL_DECODING = (1, 6, 2)


def align(
    source: Path,
    target: Path,
    out: Path,
    aligner: Aligner,
    jobs: int,
    pairs_at_once: int = PAIRS_AT_ONCE,
) -> None:
    """Write the grow-diag-final-and links of a parallel text, in Pharaoh format.

    Args:
        source: source text, tokenised.
        target: target text, line by line as the source.
        out: the links, source-target, one line a sentence pair.
        aligner: the model; see docs/aligners.md.
        jobs: 1 aligns one direction after the other, more both at once.
        pairs_at_once: most sentence pairs aligned together; longer texts are cut into equal parts with
            models of their own.

    Raises:
        InputError: one text has fewer lines.
        UserError: the library failed.
    """
    n_sentences = sum(1 for _ in read_parallel(source, target))
    n_parts = max(1, -(-n_sentences // pairs_at_once))
    bounds = [n_sentences * part // n_parts for part in range(n_parts + 1)]
    with (
        temporary_directory("align", out.parent) as folder,
        worker_pool(min(jobs, 2), get_context("spawn")) as processes,
    ):
        parts = _Parts(source, target, folder, aligner, processes, both_at_once=jobs > 1)
        write_lines(out, parts.links([end - first for first, end in pairwise(bounds)]))


@dataclass(frozen=True)
class _Parts:
    """Aligns a parallel text part by part; of two processes at once, only one shows its progress."""

    source: Path
    target: Path
    folder: Path
    aligner: Aligner
    processes: ProcessPoolExecutor
    both_at_once: bool

    def links(self, sizes: Sequence[int]) -> Iterator[bytes]:
        """Yield the lines of all parts, given their sizes in sentence pairs."""
        texts = read_text_lines(self.source), read_text_lines(self.target)
        for number, size in enumerate(sizes, start=1):
            source, target = self.folder / "source", self.folder / "target"
            for text, copy in zip(texts, (source, target), strict=True):
                _write_numbered(islice(text, size), copy)
            self._align(source, target, f" ({number} of {len(sizes)})" if len(sizes) > 1 else "")
            links = symmetrize(self.folder / "forward", self.folder / "reverse")
            yield from track(links, "symmetrise", size, "sentences")

    def _align(self, source: Path, target: Path, part: str) -> None:
        is_second_quiet = is_quiet() or self.both_at_once
        directions = [
            (source, target, self.folder / "forward", False, part, is_quiet()),
            (target, source, self.folder / "reverse", True, part, is_second_quiet),
        ]
        try:
            tasks = [
                self.processes.submit(_align_one_way, self.aligner, *args) for args in directions
            ]
            for task in tasks:
                task.result()
        except BrokenProcessPool as error:
            raise UserError(f"the word aligner died on {self.source} and {self.target}") from error


def _write_numbered(text: Iterable[bytes], copy: Path) -> None:
    """Write a number for each word, so that no byte has a special meaning to the library."""
    numbers: dict[bytes, int] = {}
    lines = (
        b" ".join(b"%d" % numbers.setdefault(word, len(numbers) + 1) for word in split_words(line))
        for line in text
    )
    write_lines(copy, lines)


def _align_one_way(
    aligner: Aligner, source: Path, target: Path, out: Path, turned: bool, part: str, be_quiet: bool
) -> None:
    quiet(be_quiet)
    label = f"align {'target to source' if turned else 'source to target'}{part}"
    model = MODELS[aligner](str(source), str(target), label)
    model.end_training()
    write_lines(out, _links(model, turned))


def _links(model: Any, turned: bool) -> Iterator[bytes]:
    for number in range(model.num_sentence_pairs):
        _, matrix = model.get_training_alignment(number)
        rows, columns = matrix.to_numpy().nonzero()
        pairs = zip(columns, rows, strict=True) if turned else zip(rows, columns, strict=True)
        yield b" ".join(b"%d-%d" % pair for pair in pairs)


def _train(model: Any, n_iterations: int, label: str) -> Any:
    model.start_training()
    for _ in track(range(n_iterations), label, n_iterations, "iterations"):
        model.train()
    return model


def _hmm(source: str, target: str, label: str) -> Any:
    """IBM model 1, then the HMM of Vogel et al. (1996)."""
    first = thot.alignment.Ibm1AlignmentModel()
    first.read_sentence_pairs(source, target)
    _train(first, IBM1_ITERATIONS, f"{label}, IBM 1")
    model = thot.alignment.HmmAlignmentModel(first)
    model.emit_training_alignments = True
    return _train(model, HMM_ITERATIONS, f"{label}, HMM")


def _fast_align(source: str, target: str, label: str) -> Any:
    """The reparameterised IBM model 2 of Dyer et al. (2013)."""
    model = thot.alignment.FastAlignModel()
    model.emit_training_alignments = True
    model.read_sentence_pairs(source, target)
    return _train(model, FAST_ALIGN_ITERATIONS, label)


def _eflomal(source: str, target: str, label: str) -> Any:
    """Gibbs sampling of Östling and Tiedemann (2016): IBM 1, HMM, HMM with fertility."""
    model = thot.alignment.EflomalAlignmentModel()
    model.deterministic = True
    model.seed = SEED
    model.num_samplers = EFLOMAL_SAMPLERS
    model.auto_iterations = False
    model.set_iterations(*EFLOMAL_ITERATIONS)
    model.set_decode_params(*EFLOMAL_DECODING)
    model.emit_training_alignments = True
    model.read_sentence_pairs(source, target)
    return _train(model, model.scheduled_iterations, label)


MODELS: dict[str, Callable[[str, str, str], Any]] = {
    "hmm": _hmm,
    "fast-align": _fast_align,
    "eflomal": _eflomal,
}
