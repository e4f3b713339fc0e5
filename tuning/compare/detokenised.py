"""BLEU, chrF and TER of detokenised text, each as sacreBLEU counts it (Post 2018), with its signatures.

Outputs of one text have many lines in common, so the statistics of each distinct line are counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU as SacreBleu
from sacrebleu.metrics.chrf import CHRF as SacreChrf
from sacrebleu.metrics.ter import TER as SacreTer
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacremoses import MosesDetokenizer

from moses_bridge.base.progress import track
from moses_bridge.base.textio import read_lines
from tuning.pools.bleu_stats import References
from tuning.pools.chrf import CHRF, ChrfReferences
from tuning.pools.ter import TER, TerReferences

Line = tuple[int, str]  # the number of a sentence and its translation


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
    """

    def __init__(self, references: Sequence[Path], target: str) -> None:
        self._detokenizer = MosesDetokenizer(lang=target)
        self._tokenizer = Tokenizer13a()  # type: ignore[no-untyped-call]  # sacreBLEU leaves it so
        self._detokenised: dict[bytes, str] = {}
        sentences = list(zip(*map(self._read, references), strict=True))
        self._n_references = len(references)
        self._n_sentences = len(sentences)
        encoded = [[text.encode() for text in texts] for texts in sentences]
        self._bleu = References([[*map(self._tokens, texts)] for texts in sentences])
        self._chrf, self._ter = ChrfReferences(encoded), TerReferences(encoded)

    def scores(self, outputs: Sequence[Path]) -> list[DetokenisedScores]:
        """Scores of each output, tokenised and with as many lines as the references."""
        rows: dict[Line, int] = {}
        texts = [
            [rows.setdefault(line, len(rows)) for line in self._lines(path)]
            for path in track(outputs, "detokenise", len(outputs), "texts")
        ]
        plain = [(number, text.encode()) for number, text in rows]
        bleu = self._bleu.statistics((number, self._tokens(text)) for number, text in rows)
        chrf = self._chrf.statistics(plain)
        ter = self._ter.statistics(track(plain, "TER", len(plain), "sentences"))
        return [
            DetokenisedScores(
                _bleu_of(bleu[text].sum(axis=0)),
                float(CHRF.value(chrf[text].sum(axis=0))),
                float(TER.value(ter[text].sum(axis=0))),
            )
            for text in texts
        ]

    @property
    def signatures(self) -> list[str]:
        """How BLEU, chrF and TER were counted."""
        metrics = {"BLEU": SacreBleu(), "chrF": SacreChrf(), "TER": SacreTer()}
        for metric in metrics.values():
            metric.corpus_score([""], [[""]] * self._n_references)
        return [f"{name}|detokenised|{metric.get_signature()}" for name, metric in metrics.items()]

    def _lines(self, path: Path) -> list[Line]:
        texts = self._read(path)
        return [
            (number, text) for number, text in zip(range(self._n_sentences), texts, strict=True)
        ]

    def _read(self, path: Path) -> list[str]:
        return [*map(self._detokenise, read_lines(path))]

    def _detokenise(self, line: bytes) -> str:
        if line not in self._detokenised:
            words = line.decode("utf-8", "replace").split(" ")
            self._detokenised[line] = self._detokenizer.detokenize(words, unescape=True)
        return self._detokenised[line]

    def _tokens(self, text: str) -> bytes:
        """The words that sacreBLEU counts for BLEU."""
        return " ".join(self._tokenizer(text.rstrip()).split()).encode()


def _bleu_of(sums: NDArray[np.int64]) -> float:
    """BLEU of summed statistics, smoothed by sacreBLEU as it does by default."""
    matches, totals = sums[0:-1:2].tolist(), sums[1:-1:2].tolist()
    return SacreBleu.compute_bleu(
        matches, totals, totals[0], int(sums[-1]), smooth_method="exp"
    ).score
