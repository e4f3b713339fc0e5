"""Word alignment in both directions by a library (sil-thot), then symmetrised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import thot.alignment

from moses_bridge.builtin.symmetrization import symmetrize
from moses_bridge.errors import UserError
from moses_bridge.progress import track
from moses_bridge.textio import count_lines, read_lines, write_lines

Aligner = Literal["hmm", "fast-align", "eflomal"]
SEED = 1
IBM1_ITERATIONS = 4
HMM_ITERATIONS = 4
FAST_ALIGN_ITERATIONS = 5


def align(source: Path, target: Path, out: Path, aligner: Aligner, jobs: int) -> None:
    """Write the grow-diag-final-and links of a parallel text, in Pharaoh format.

    Args:
        source: source text, tokenised.
        target: target text, line by line as the source.
        out: the links, source-target, one line a sentence pair.
        aligner: the model; see docs/aligners.md.
        jobs: 1 aligns one direction after the other, more both at once.

    Raises:
        InputError: one text has fewer lines.
        UserError: the library failed.
    """
    with TemporaryDirectory(dir=out.parent, prefix=".align.") as name:
        folder = Path(name)
        texts = {"source": source, "target": target}
        plain = {key: _readable(path, folder / key) for key, path in texts.items()}
        directions = [
            (plain["source"], plain["target"], folder / "forward", False),
            (plain["target"], plain["source"], folder / "reverse", True),
        ]
        context = get_context("spawn")
        try:
            with ProcessPoolExecutor(min(jobs, 2), mp_context=context) as processes:
                tasks = [processes.submit(_align_one_way, aligner, *args) for args in directions]
                for task in tasks:
                    task.result()
        except BrokenProcessPool as error:
            raise UserError(f"the word aligner died on {source} and {target}") from error
        links = symmetrize(folder / "forward", folder / "reverse")
        write_lines(out, track(links, "symmetrise", count_lines(source), "sentences"))


def _readable(path: Path, copy: Path) -> Path:
    """A plain UTF-8 copy whose words are those that splitting at blanks gives."""
    lines = (
        b" ".join(line.split()).decode("utf-8", "replace").replace("\u0085", "?").encode()
        for line in read_lines(path)
    )
    write_lines(copy, lines)
    return copy


def _align_one_way(aligner: Aligner, source: Path, target: Path, out: Path, turned: bool) -> None:
    label = f"align {'target to source' if turned else 'source to target'}"
    model = MODELS[aligner](str(source), str(target), label)
    write_lines(out, _links(model, turned))


def _links(model: Any, turned: bool) -> Iterator[bytes]:
    for number in range(model.num_sentence_pairs):
        _, matrix = model.get_training_alignment(number)
        rows, columns = matrix.to_numpy().nonzero()
        pairs = zip(columns, rows, strict=True) if turned else zip(rows, columns, strict=True)
        yield b" ".join(b"%d-%d" % pair for pair in pairs)


def _train(model: Any, n_iterations: int, label: str) -> None:
    n_iterations = n_iterations or model.scheduled_iterations
    for _ in track(range(n_iterations), label, n_iterations, "iterations"):
        model.train()


def _hmm(source: str, target: str, label: str) -> Any:
    """IBM model 1, then the HMM of Vogel et al. (1996)."""
    first = thot.alignment.Ibm1AlignmentModel()
    first.read_sentence_pairs(source, target)
    first.start_training()
    _train(first, IBM1_ITERATIONS, f"{label}, IBM 1")
    model = thot.alignment.HmmAlignmentModel(first)
    model.emit_training_alignments = True
    model.start_training()
    _train(model, HMM_ITERATIONS, f"{label}, HMM")
    model.end_training()
    return model


def _fast_align(source: str, target: str, label: str) -> Any:
    """The reparameterised IBM model 2 of Dyer et al. (2013)."""
    model = thot.alignment.FastAlignModel()
    model.emit_training_alignments = True
    model.read_sentence_pairs(source, target)
    model.start_training()
    _train(model, FAST_ALIGN_ITERATIONS, label)
    model.end_training()
    return model


def _eflomal(source: str, target: str, label: str) -> Any:
    """Gibbs sampling of Östling & Tiedemann (2016)."""
    model = thot.alignment.EflomalAlignmentModel()
    model.deterministic = True
    model.seed = SEED
    model.emit_training_alignments = True
    model.read_sentence_pairs(source, target)
    model.start_training()
    _train(model, 0, label)
    model.end_training()
    return model


MODELS: dict[str, Callable[[str, str, str], Any]] = {
    "hmm": _hmm,
    "fast-align": _fast_align,
    "eflomal": _eflomal,
}
