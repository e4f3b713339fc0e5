"""BLEU, chrF and TER of detokenised text by sacreBLEU (Post 2018), with its signatures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacremoses import MosesDetokenizer

from moses_bridge.progress import track
from moses_bridge.textio import read_lines

PAIRS_A_TASK = 256  # a second or so of TER: much more than handing a task to a process costs

Pair = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class DetokenisedScores:
    """Scores of detokenised text, 0 to 100 (TER may be more; less of it is better)."""

    bleu: float
    chrf: float
    ter: float


class DetokenisedReferences:
    """References that outputs are compared with after both are detokenised.

    Args:
        references: one tokenised text each.
        target: language of the detokenizer.
        jobs: processes that count the edits of TER.
    """

    def __init__(self, references: Sequence[Path], target: str, jobs: int = 1) -> None:
        self._detokenizer = MosesDetokenizer(lang=target)
        self._texts = [self._read(path) for path in references]
        self._by_sentence = list(zip(*self._texts, strict=True))
        self._bleu, self._chrf = BLEU(), CHRF()
        self._jobs = jobs

    def scores(self, outputs: Sequence[Path]) -> list[DetokenisedScores]:
        """Scores of each output, tokenised and with as many lines as the references."""
        texts = [self._read(path) for path in track(outputs, "detokenise", len(outputs), "texts")]
        pairs = [list(zip(text, self._by_sentence, strict=True)) for text in texts]
        edits = _count_edits([pair for text in pairs for pair in text], self._jobs)
        return [
            DetokenisedScores(
                self._bleu.corpus_score(text, self._texts).score,
                self._chrf.corpus_score(text, self._texts).score,
                _ter_of(own_pairs, edits),
            )
            for text, own_pairs in track(
                zip(texts, pairs, strict=True), "BLEU and chrF", len(texts), "texts"
            )
        ]

    @property
    def signatures(self) -> list[str]:
        """How BLEU, chrF and TER were counted; known once there are scores."""
        metrics = {"BLEU": self._bleu, "chrF": self._chrf, "TER": _ter(len(self._texts))}
        return [f"{name}|detokenised|{metric.get_signature()}" for name, metric in metrics.items()]

    def _read(self, path: Path) -> list[str]:
        detokenize = self._detokenizer.detokenize
        return [
            detokenize(line.decode("utf-8", "replace").split(" "), unescape=True)
            for line in read_lines(path)
        ]


@cache
def _ter(n_references: int) -> TER:
    """The metric, ready to tell its signature."""
    metric = TER()
    metric.sentence_score("", [""] * n_references)
    return metric


def _count_edits(pairs: Sequence[Pair], jobs: int) -> dict[Pair, tuple[float, float]]:
    """Edits and reference words of each distinct pair of output and references.

    Outputs of one text have many lines in common, and the search for shifts is slow.
    """
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) <= PAIRS_A_TASK:
        return dict(zip(distinct, map(_edits, distinct), strict=True))
    if jobs == 1:
        return _shown(distinct, map(_edits, distinct))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as processes:
        counted = processes.map(_edits, distinct, chunksize=PAIRS_A_TASK)
        return _shown(distinct, counted)


def _shown(
    pairs: Sequence[Pair], counted: Iterable[tuple[float, float]]
) -> dict[Pair, tuple[float, float]]:
    return dict(zip(pairs, track(counted, "TER", len(pairs), "sentences"), strict=True))


def _edits(pair: Pair) -> tuple[float, float]:
    output, references = pair
    score = _ter(len(references)).sentence_score(output, list(references))
    return score.num_edits, score.ref_length


def _ter_of(pairs: Sequence[Pair], edits: Mapping[Pair, tuple[float, float]]) -> float:
    """Edits for a hundred reference words (Snover et al. 2006)."""
    n_edits, n_words = np.sum([edits[pair] for pair in pairs], axis=0)
    return float(100 * n_edits / max(n_words, 1e-9))
