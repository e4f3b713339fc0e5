"""All scores of one file of translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuning.compare.detokenised import DetokenisedReferences
from tuning.compare.significance import bootstrap_deviation
from tuning.pools.bleu_stats import References, bleu, length_ratio, precisions


@dataclass(frozen=True)
class OutputScores:
    """Scores of translations, 0 to 100 unless stated otherwise.

    Attributes:
        bleu: BLEU of the unchanged tokens, as by multi-bleu.
        bootstrap_sd: standard deviation of `bleu` over resampled texts.
        precisions: of 1- to 4-grams.
        length_ratio: output words for one reference word.
        output_words: number of tokens.
        reference_words: tokens of the references closest in length.
        detokenised_bleu: sacreBLEU of the detokenised text.
        chrf: of the detokenised text.
        ter: of the detokenised text; less is better.
        signatures: how the last three were counted.
    """

    bleu: float
    bootstrap_sd: float
    precisions: list[float]
    length_ratio: float
    output_words: int
    reference_words: int
    detokenised_bleu: float
    chrf: float
    ter: float
    signatures: list[str]


def score_output(
    output: Path, references: Sequence[Path], target: str, n_samples: int = 1000, seed: int = 1
) -> OutputScores:
    """Score a file of translations.

    Args:
        output: tokenised translations, one a line.
        references: tokenised in the same way.
        target: language of the detokenizer.
        n_samples: texts of the bootstrap.
        seed: seed of the bootstrap.

    Raises:
        InputError: output and references have different numbers of lines.
    """
    statistics = References.read(references).output_statistics(output)
    detokenised = DetokenisedReferences(references, target)
    (scores,) = detokenised.scores([output])
    sums = statistics.sum(axis=0)
    return OutputScores(
        bleu=float(bleu(sums)),
        bootstrap_sd=bootstrap_deviation(statistics, n_samples, seed),
        precisions=[float(value) for value in precisions(sums)],
        length_ratio=length_ratio(sums),
        output_words=int(sums[1]),
        reference_words=int(sums[-1]),
        detokenised_bleu=scores.bleu,
        chrf=scores.chrf,
        ter=scores.ter,
        signatures=detokenised.signatures,
    )
