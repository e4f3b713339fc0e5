"""Word alignment in both directions by a library (sil-thot), then symmetrisation; aligners that are kept."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import thot.alignment

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.choices import Aligner
from moses_bridge.base.errors import InputError, UserError
from moses_bridge.base.json_files import read_record, write_json
from moses_bridge.base.lock import held_file
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.programs import worker_pool
from moses_bridge.base.progress import is_quiet, quiet, track, track_lines
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.text_lines import read_parallel, read_text_lines
from moses_bridge.base.textio import (
    open_directory,
    open_write,
    read_lines,
    temporary_directory,
    write_lines,
)
from moses_bridge.builtin.symmetrization import Link, grow_diag_final_and, symmetrize
from moses_bridge.formats.alignment import format_links
from moses_bridge.formats.words import split_words

# On a model of the library, an output, and whether its source is the target text.
Work = Callable[[Any, Path, bool], None]
PAIRS_AT_ONCE = 500_000
NUMBERED = ("source", "target")  # names of the numbered texts
SEED = 1
IBM1_ITERATIONS = 4
HMM_ITERATIONS = 4
FAST_ALIGN_ITERATIONS = 5
EFLOMAL_ITERATIONS = (4, 4, 8)
EFLOMAL_SAMPLERS = 3
EFLOMAL_DECODING = (1, 6, 2)
RECORD_NAME = "aligner.json"
PREFIXES = ("source-to-target", "target-to-source")
# The library's copies of the text and its links; it reads them, but needs nothing in them.
TEXT_SUFFIXES = (".src", ".trg", ".srctrgc", ".aligns")
PAIRS_IN_BLOCK = 10_000
UNKNOWN = "0"  # the number of no word
NO_SCORES = (-math.inf, -math.inf)


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
        run = partial(_run_both_ways, processes, _link, aligner, jobs > 1, folder, folder)
        texts = read_text_lines(source), read_text_lines(target)
        write_lines(
            out, _links(texts, [end - first for first, end in pairwise(bounds)], folder, run)
        )


def _links(
    texts: Sequence[Iterator[bytes]], sizes: Sequence[int], folder: Path, run: Callable[[str], None]
) -> Iterator[bytes]:
    """Yield the lines of all parts, given their sizes in sentence pairs."""
    for number, size in enumerate(sizes, start=1):
        for text, name in zip(texts, NUMBERED, strict=True):
            _write_numbered(islice(text, size), folder / name)
        run(f" ({number} of {len(sizes)})" if len(sizes) > 1 else "")
        links = symmetrize(folder / PREFIXES[0], folder / PREFIXES[1])
        yield from track(links, "symmetrise", size, "sentences")


def _run_both_ways(
    processes: ProcessPoolExecutor,
    work: Work,
    aligner: Aligner,
    at_once: bool,
    folder: Path,
    out: Path,
    part: str = "",
) -> None:
    """Train on the numbered texts of a folder in both directions; of two at once, one shows its progress."""
    tasks = [
        processes.submit(_run_one_way, work, aligner, folder, out / prefix, prefix + part, hides)
        for prefix, hides in zip(PREFIXES, (is_quiet(), is_quiet() or at_once), strict=True)
    ]
    for task in tasks:
        task.result()


def _run_one_way(
    work: Work, aligner: Aligner, folder: Path, out: Path, label: str, be_quiet: bool
) -> None:
    quiet(be_quiet)
    turned = out.name == PREFIXES[1]
    texts = folder / NUMBERED[turned], folder / NUMBERED[not turned]
    model = _trained(aligner, texts, f"align {label.replace('-', ' ')}")
    model.end_training()
    work(model, out, turned)


def _write_numbered(text: Iterable[bytes], copy: Path) -> list[bytes]:
    """Write a number for each word, so that no byte has a special meaning to the library.

    The words with numbers 1, 2 ... are returned.
    """
    numbers: dict[bytes, int] = {}
    lines = (
        b" ".join(b"%d" % numbers.setdefault(word, len(numbers) + 1) for word in split_words(line))
        for line in text
    )
    write_lines(copy, lines)
    return list(numbers)


def _link(model: Any, out: Path, turned: bool) -> None:
    results = map(model.get_training_alignment, range(model.num_sentence_pairs))
    write_lines(out, (format_links(_links_of(matrix, turned)) for _, matrix in results))


def _links_of(matrix: Any, turned: bool) -> list[tuple[int, int]]:
    """The links in a matrix of the library, (source, target) also where the direction is turned."""
    rows, columns = (places.tolist() for places in matrix.to_numpy().nonzero())
    return list(zip(columns, rows, strict=True) if turned else zip(rows, columns, strict=True))


def _train(model: Any, n_iterations: int, label: str) -> Any:
    model.start_training()
    for _ in track(range(n_iterations), label, n_iterations, "iterations"):
        model.train()
    return model


def _trained(aligner: Aligner, texts: tuple[Path, Path], label: str) -> Any:
    """A model of the library, trained on numbered texts.

    "hmm" is IBM model 1, then the HMM of Vogel et al. (1996); "fast-align" the reparameterised IBM model 2 of
    Dyer et al. (2013); "eflomal" Gibbs sampling of IBM 1, HMM, HMM with fertility (Östling & Tiedemann 2016).
    """
    first: Any = thot.alignment.Ibm1AlignmentModel() if aligner == "hmm" else KINDS[aligner]()
    if aligner == "eflomal":
        first.deterministic = True
        first.seed = SEED
        first.num_samplers = EFLOMAL_SAMPLERS
        first.auto_iterations = False
        first.set_iterations(*EFLOMAL_ITERATIONS)
        first.set_decode_params(*EFLOMAL_DECODING)
    first.emit_training_alignments = aligner != "hmm"
    first.read_sentence_pairs(*map(str, texts))
    match aligner:
        case "eflomal":
            return _train(first, first.scheduled_iterations, label)
        case "fast-align":
            return _train(first, FAST_ALIGN_ITERATIONS, label)
    model = KINDS[aligner](_train(first, IBM1_ITERATIONS, f"{label}, IBM 1"))
    model.emit_training_alignments = True
    return _train(model, HMM_ITERATIONS, f"{label}, HMM")


KINDS: dict[Aligner, Any] = {
    "hmm": thot.alignment.HmmAlignmentModel,
    "fast-align": thot.alignment.FastAlignModel,
    "eflomal": thot.alignment.EflomalAlignmentModel,
}


@dataclass(frozen=True)
class AlignerRecord:
    """Content of aligner.json: the model, and the SHA-256 of each other file by name."""

    aligner: Aligner
    files: dict[str, str]


@dataclass
class LinkReport:
    """Numbers of sentence pairs, those without links and scores, running words, and unknown ones of them."""

    n_pairs: int = 0
    n_unlinked: int = 0
    n_words: int = 0
    n_unknown: int = 0


def train_aligner(
    source: Path,
    target: Path,
    out: Path,
    aligner: Aligner = "eflomal",
    jobs: int = 1,
    most_pairs: int = PAIRS_AT_ONCE,
) -> None:
    """Train a word aligner in both directions and keep its parameters.

    Args:
        source: source text, tokenised.
        target: target text, line by line as the source.
        out: new or empty directory; docs/formats.md lists its files.
        aligner: the model; see docs/aligners.md.
        jobs: 1 trains one direction after the other, more both at once.
        most_pairs: most sentence pairs trained on; of a longer text every second, third ... pair is taken.

    Raises:
        InputError: a text has fewer lines or no words, or cannot be read twice.
        ConfigError: the directory has files.
        UserError: the library failed.
    """
    step = max(1, -(-sum(1 for _ in read_parallel(source, target)) // most_pairs))
    with (
        held_file(out),
        open_directory(out) as kept,
        temporary_directory("align", out.parent) as folder,
        worker_pool(min(jobs, 2), get_context("spawn")) as processes,
    ):
        for text, name in zip((source, target), NUMBERED, strict=True):
            words = _write_numbered(islice(read_text_lines(text), 0, None, step), folder / name)
            if not words:
                raise InputError(text, None, "no words", "text in a file, which is read twice")
            write_lines(kept / f"{name}.words", words)
        _run_both_ways(processes, _keep, aligner, jobs > 1, folder, kept)
        digests = {path.name: file_digest(path) for path in sorted(kept.iterdir())}
        write_json(kept / RECORD_NAME, asdict(AlignerRecord(aligner, digests)))


def _keep(model: Any, out: Path, _: bool) -> None:
    if not model.print(str(out)):
        raise UserError(f"{out}: the word aligner could not write its parameters")
    for suffix in TEXT_SUFFIXES:
        out.with_suffix(suffix).write_bytes(b"")


def link_text(
    source: Path, target: Path, aligner: Path, links: Path, scores: Path | None = None
) -> LinkReport:
    """Link a text with the parameters of `train_aligner`, block by block.

    The links are the best ones of each direction, joined by grow-diag-final-and. A score is the natural
    logarithm of the probability of the best links and all words of the other side, given the words of one side,
    divided by the number of words of the other side. A pair with a side without words, or with more words than
    the library takes (200 for `hmm`, else 1,024), has no links and the score -inf.

    Args:
        source: source text, tokenised as the text of the training.
        target: target text, line by line as the source.
        aligner: directory of the parameters.
        links: the links, source-target, one line a sentence pair.
        scores: the scores, one line a sentence pair: given the source, a tab, given the target.

    Raises:
        InputError: one text has fewer lines, the parameters are incomplete or were changed, or the words of
            the texts are those of the other side.
        ConfigError: an output is an input, or a file of the parameters.
    """
    refuse_overwriting([links, *([scores] if scores else [])], [source, target, *aligner.glob("*")])
    numbers, models = _load(aligner)
    report = LinkReport()
    pairs = track_lines(read_parallel(source, target), "link", source, "sentences")
    with contextlib.ExitStack() as files:
        links_out = files.enter_context(open_write(links))
        scores_out = files.enter_context(open_write(scores)) if scores else None
        for block in blocks_of(pairs, PAIRS_IN_BLOCK):
            sides = [[split_words(line) for line in lines] for lines in zip(*block, strict=True)]
            unknown = [
                [sum(word not in known for line in lines for word in line) for known in numbers]
                for lines in sides
            ]
            is_exchanged = unknown[0][1] < unknown[0][0] and unknown[1][0] < unknown[1][1]
            if is_exchanged and not report.n_pairs:
                found, hint = "words that the aligner knows as target words", "Exchange the texts"
                raise InputError(source, None, found, "text in the language of its source", hint)
            report.n_unknown += unknown[0][0] + unknown[1][1]
            for lengths, pair_links, pair_scores in _linked(sides, numbers, models):
                links_out.write(format_links(pair_links) + b"\n")
                if scores_out:
                    scores_out.write(b"%.6f\t%.6f\n" % pair_scores)
                report.n_pairs += 1
                report.n_unlinked += pair_scores == NO_SCORES
                report.n_words += sum(lengths)
    return report


def _linked(
    sides: Sequence[list[list[bytes]]],
    numbers: Sequence[Mapping[bytes, str]],
    models: Sequence[Any],
) -> Iterator[tuple[tuple[int, int], list[Link], tuple[float, float]]]:
    """Yield the numbers of words, the links and the scores of sentence pairs."""
    sources, targets = (
        [[known.get(word, UNKNOWN) for word in line] for line in lines]
        for lines, known in zip(sides, numbers, strict=True)
    )
    forward = models[0].get_best_alignments(sources, targets)
    reverse = models[1].get_best_alignments(targets, sources)
    for source, target, there, back in zip(sources, targets, forward, reverse, strict=True):
        lengths = len(source), len(target)
        if min(lengths) > 0 and max(lengths) <= models[0].max_sentence_length:
            links = grow_diag_final_and(_links_of(there[1], False), _links_of(back[1], True))
            yield lengths, links, (there[0] / lengths[1], back[0] / lengths[0])
        else:
            yield lengths, [], NO_SCORES


def _load(directory: Path) -> tuple[list[dict[bytes, str]], list[Any]]:
    """The numbers of source and target words, and the models of both directions, as they were written."""
    what, hint = "the parameters of a word aligner", "`moses-bridge align --out` writes them"
    record = read_record(AlignerRecord, directory / RECORD_NAME, what, hint)
    for name, digest in record.files.items():
        if file_digest(directory / name) != digest:
            expected = f"those with the digest in {RECORD_NAME}"
            raise InputError(directory / name, None, "other bytes", expected, hint)
    models = [KINDS[record.aligner]() for _ in PREFIXES]
    for model, prefix in zip(models, PREFIXES, strict=True):
        if not model.load(str(directory / prefix)):
            raise InputError(
                directory / prefix, None, "files that sil-thot cannot read", what, hint
            )
    words = (enumerate(read_lines(directory / f"{name}.words"), start=1) for name in NUMBERED)
    return [{word: str(number) for number, word in each} for each in words], models
