"""All scores of files of translations, and their means over the files of a system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from tuning.compare.detokenised import DetokenisedReferences, DetokenisedScores
from tuning.compare.sentence_facts import read_documents
from tuning.compare.significance import SystemOutputs, bootstrap_deviation
from tuning.pools.bleu_stats import References, Statistics, bleu, length_ratio, precisions

AVERAGED = ("bleu", "bootstrap_sd", "length_ratio", "detokenised_bleu", "chrf", "ter")


@dataclass(frozen=True)
class OutputScores:
    """Scores of translations, 0 to 100 unless stated otherwise.

    Attributes:
        bleu: BLEU of the unchanged tokens, as by multi-bleu.
        bootstrap_sd: standard deviation of `bleu` over resampled sentences, or documents.
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


@dataclass(frozen=True)
class SystemScores:
    """Scores of the translations of a system, from one run or several.

    Attributes:
        system: its name.
        files: of the translations, one a run.
        means: of each number in `AVERAGED`, over the files; see `OutputScores`.
        deviations: standard deviations of the same over the files; {} for one file.
        outputs: the scores of each file.
    """

    system: str
    files: list[str]
    means: dict[str, float]
    deviations: dict[str, float]
    outputs: list[OutputScores]


def score_output(
    output: Path,
    references: Sequence[Path],
    target: str,
    n_samples: int = 1000,
    seed: int = 1,
    groups: Path | None = None,
) -> OutputScores:
    """Score a file of translations.

    Args:
        output: tokenised translations, one a line.
        references: tokenised in the same way.
        target: language of the detokenizer.
        n_samples: texts of the bootstrap.
        seed: seed of the bootstrap.
        groups: the name of each sentence's document, one a line; the bootstrap then draws documents.

    Raises:
        InputError: output, references and groups have different numbers of lines.
    """
    systems = {"": [output]}
    return score_systems(systems, references, target, n_samples, seed, groups)[0].outputs[0]


def score_systems(
    systems: Mapping[str, Sequence[Path]],
    references: Sequence[Path],
    target: str,
    n_samples: int = 1000,
    seed: int = 1,
    groups: Path | None = None,
) -> list[SystemScores]:
    """Score the translations of several systems.

    Args:
        systems: files of translations of each; see `score_output` for them and for the other arguments.
        references: see there.
        target: see there.
        n_samples: see there.
        seed: see there.
        groups: see there.

    Raises:
        InputError: a file has another number of lines than the references.
        ConfigError: a system has a file twice.
    """
    for name, files in systems.items():
        if len({path.resolve() for path in files}) < len(files):
            raise ConfigError(f"{name} has a file twice: its deviation would be too small")
    counted = References.read(references)
    documents = None if groups is None else read_documents(groups, references[0])
    paths = list(dict.fromkeys(path for files in systems.values() for path in files))
    statistics = [counted.output_statistics(path) for path in paths]
    detokenised = DetokenisedReferences(references, target)
    rest = (detokenised.signatures, documents, n_samples, seed)
    of_files = {
        path: _scores(of_path, scores, *rest)
        for path, of_path, scores in zip(paths, statistics, detokenised.scores(paths), strict=True)
    }
    return [
        _of_system(name, files, [of_files[path] for path in files])
        for name, files in systems.items()
    ]


def _scores(
    statistics: Statistics,
    detokenised: DetokenisedScores,
    signatures: list[str],
    documents: NDArray[np.int64] | None,
    n_samples: int,
    seed: int,
) -> OutputScores:
    units = statistics
    if documents is not None:
        units = SystemOutputs(statistics[None], [0]).by_document(documents).statistics[0]
    sums = statistics.sum(axis=0)
    return OutputScores(
        bleu=float(bleu(sums)),
        bootstrap_sd=bootstrap_deviation(units, n_samples, seed),
        precisions=[float(value) for value in precisions(sums)],
        length_ratio=length_ratio(sums),
        output_words=int(sums[1]),
        reference_words=int(sums[-1]),
        detokenised_bleu=detokenised.bleu,
        chrf=detokenised.chrf,
        ter=detokenised.ter,
        signatures=signatures,
    )


def _of_system(name: str, files: Sequence[Path], outputs: list[OutputScores]) -> SystemScores:
    values = {key: [float(getattr(scores, key)) for scores in outputs] for key in AVERAGED}
    return SystemScores(
        system=name,
        files=[str(path) for path in files],
        means={key: float(np.mean(row)) for key, row in values.items()},
        deviations={key: float(np.std(row, ddof=1)) for key, row in values.items()}
        if len(outputs) > 1
        else {},
        outputs=outputs,
    )
