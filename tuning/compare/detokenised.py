"""BLEU, chrF and TER of detokenised text by sacreBLEU (Post 2018), with its signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacremoses import MosesDetokenizer

from moses_bridge.base.progress import track
from moses_bridge.base.textio import read_lines

PAIRS_A_TASK = 256  # a second or so of TER: much more than the cost of handing a task to a process

Pair = tuple[str, tuple[str, ...]]
InOrder = Callable[[Callable[[Any], Any], Sequence[Any], int], Iterable[Any]]


@dataclass(frozen=True)
class DetokenisedScores:
    """Scores of detokenised text, 0 to 100 (TER may be more; less of it is better)."""

    bleu: float
    chrf: float
    ter: float


class DetokenisedReferences:
    """References, compared with outputs after both are detokenised.

    Args:
        references: one tokenised text each.
        target: language of the detokenizer.
        jobs: number of counting processes.
    """

    def __init__(self, references: Sequence[Path], target: str, jobs: int = 1) -> None:
        self._detokenizer = MosesDetokenizer(lang=target)
        self._texts = [self._read(path) for path in references]
        self._by_sentence = list(zip(*self._texts, strict=True))
        self._jobs = jobs

    def scores(self, outputs: Sequence[Path]) -> list[DetokenisedScores]:
        """Scores of each output, tokenised and with as many lines as the references."""
        texts = [self._read(path) for path in track(outputs, "detokenise", len(outputs), "texts")]
        pairs = [list(zip(text, self._by_sentence, strict=True)) for text in texts]
        with _processes(self._jobs if sum(map(len, texts)) > PAIRS_A_TASK else 1) as in_order:
            edits = _count_edits([pair for text in pairs for pair in text], in_order)
            matches = in_order(_bleu_and_chrf, [(text, self._texts) for text in texts], 1)
            shown = track(matches, "BLEU and chrF", len(texts), "texts")
            return [
                DetokenisedScores(bleu, chrf, _ter_of(own_pairs, edits))
                for (bleu, chrf), own_pairs in zip(shown, pairs, strict=True)
            ]

    @property
    def signatures(self) -> list[str]:
        """How BLEU, chrF and TER were counted."""
        metrics = {"BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}
        for metric in metrics.values():
            metric.corpus_score([""], [[""]] * len(self._texts))
        return [f"{name}|detokenised|{metric.get_signature()}" for name, metric in metrics.items()]

    def _read(self, path: Path) -> list[str]:
        detokenize = self._detokenizer.detokenize
        return [
            detokenize(line.decode("utf-8", "replace").split(" "), unescape=True)
            for line in read_lines(path)
        ]


@contextmanager
def _processes(jobs: int) -> Iterator[InOrder]:
    """A function like `map`, with so many items a task, over so many processes."""
    if jobs == 1:
        yield lambda function, items, _: map(function, items)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as processes:
        yield lambda function, items, size: processes.map(function, items, chunksize=size)


def _count_edits(pairs: Sequence[Pair], in_order: InOrder) -> dict[Pair, tuple[float, float]]:
    """Edits and reference words of each distinct pair of output and references.

    Outputs of one text have many lines in common, and the search for shifts is slow.
    """
    distinct = list(dict.fromkeys(pairs))
    counted = track(in_order(_edits, distinct, PAIRS_A_TASK), "TER", len(distinct), "sentences")
    return dict(zip(distinct, counted, strict=True))


def _edits(pair: Pair) -> tuple[float, float]:
    output, references = pair
    score = TER().sentence_score(output, list(references))
    return score.num_edits, score.ref_length


def _bleu_and_chrf(texts: tuple[list[str], list[list[str]]]) -> tuple[float, float]:
    """Scores of a whole output against references."""
    output, references = texts
    return (
        BLEU().corpus_score(output, references).score,
        CHRF().corpus_score(output, references).score,
    )


def _ter_of(pairs: Sequence[Pair], edits: Mapping[Pair, tuple[float, float]]) -> float:
    """Edits for a hundred reference words (Snover et al. 2006)."""
    n_edits, n_words = np.sum([edits[pair] for pair in pairs], axis=0)
    return float(100 * n_edits / max(n_words, 1e-9))
