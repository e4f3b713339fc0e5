"""All scores of files of translations, and their means over the files of a system.

BLEU, chrF and TER of detokenised text are as sacreBLEU counts them (Post 2018), with its signatures. Outputs
of one text have many lines in common, so the statistics of each distinct line are counted once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU as SacreBleu
from sacrebleu.metrics.chrf import CHRF as SacreChrf

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import track
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.formats.text_notes import say_notes
from tuning.compare.system_outputs import SystemOutputs, bootstrap_deviation, read_documents
from tuning.compare.target_text import TargetText
from tuning.metrics.bleu import References, Statistics, bleu, length_ratio, precisions
from tuning.metrics.by_name import MetricChoice, metric_weights
from tuning.metrics.chrf import CHRF, ChrfReferences
from tuning.metrics.edit_rates import TER, TerReferences
from tuning.metrics.metric import n_references, read_references

AVERAGED = ("bleu", "bootstrap_sd", "length_ratio", "detokenised_bleu", "chrf", "ter")


@dataclass(frozen=True)
class OutputScores:
    """Scores of translations, 0 to 100 unless stated otherwise.

    Attributes:
        bleu: BLEU of the unchanged tokens, as by multi-bleu.
        bootstrap_sd: standard deviation of `bleu` over resampled sentences, or documents.
        length_ratio: output words for one reference word.
        reference_words: tokens of the references closest in length.
        detokenised_bleu, chrf, ter: by sacreBLEU, of the detokenised text; less TER is better.
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
        means: of each number in `AVERAGED`, over the files; see `OutputScores`.
        deviations: standard deviations of the same over the files; {} for one file.
    """

    system: str
    files: list[str]
    means: dict[str, float]
    deviations: dict[str, float]
    outputs: list[OutputScores]


def score_output(
    output: Path,
    references: Sequence[Path],
    target: TargetText,
    n_samples: int = 1000,
    seed: int = 1,
    groups: Path | None = None,
) -> OutputScores:
    """Score a file of translations, one a line, tokenised as the references are.

    The bootstrap draws `n_samples` texts: of sentences, or of documents if `groups` has the name of each
    sentence's.

    Raises:
        InputError: output, references and groups have different numbers of lines.
        ConfigError: a tokenizer of sacreBLEU cannot be loaded.
    """
    systems = {"": [output]}
    return score_systems(systems, references, target, n_samples, seed, groups)[0].outputs[0]


def score_systems(
    systems: Mapping[str, Sequence[Path]],
    references: Sequence[Path],
    target: TargetText,
    n_samples: int = 1000,
    seed: int = 1,
    groups: Path | None = None,
) -> list[SystemScores]:
    """Score the translations of several systems, files of each; the other arguments as in `score_output`.

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
    say_notes(None, references, paths)
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


Line = tuple[int, str]  # the number of a sentence and its translation


@dataclass(frozen=True)
class DetokenisedScores:
    """Scores of detokenised text, 0 to 100 (TER may be more; less of it is better)."""

    bleu: float
    chrf: float
    ter: float


class DetokenisedReferences:
    """References, one tokenised text each, compared with outputs after both are detokenised.

    Raises:
        InputError: see `read_references`.
        ConfigError: a tokenizer of sacreBLEU cannot be loaded.
    """

    def __init__(self, references: Sequence[Path], target: TargetText) -> None:
        self._target = target
        self._detokenised: dict[bytes, str] = {}
        tokenised = read_references(references)
        self._n_references = n_references(tokenised)
        sentences = [[*map(self._detokenise, lines)] for lines in tokenised]
        self._n_sentences = len(sentences)
        self._bleu = References([[*map(self._tokens, texts)] for texts in sentences])
        self._chrf = ChrfReferences([[text.encode() for text in texts] for texts in sentences])
        self._ter = TerReferences([[*map(self._ter_tokens, texts)] for texts in sentences])

    def scores(self, outputs: Sequence[Path]) -> list[DetokenisedScores]:
        """Scores of each output, tokenised and with as many lines as the references."""
        rows: dict[Line, int] = {}
        texts = [
            [rows.setdefault(line, len(rows)) for line in self._lines(path)]
            for path in track(outputs, "detokenise", len(outputs), "texts")
        ]
        plain = [(number, text.encode()) for number, text in rows]
        for_ter = [(number, self._ter_tokens(text)) for number, text in rows]
        bleu = self._bleu.statistics((number, self._tokens(text)) for number, text in rows)
        chrf = self._chrf.statistics(plain)
        ter = self._ter.statistics(track(for_ter, "TER", len(for_ter), "sentences"))
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
        numbers = (
            [self._n_references] if self._n_references else [1, 2]
        )  # as of sentences of a text
        given = [["" if i < number else None for number in numbers] for i in range(max(numbers))]
        target = self._target
        metrics = {"BLEU": target.bleu, "chrF": SacreChrf(), "TER": target.ter}
        for metric in metrics.values():
            metric.corpus_score([""] * len(numbers), given)  # type: ignore[arg-type]  # None is none
        return [
            f"{name}|detokenised|lang:{target.language}|{metric.get_signature()}"
            for name, metric in metrics.items()
        ]

    def _lines(self, path: Path) -> list[Line]:
        texts = map(self._detokenise, read_text_lines(path))
        return list(zip(range(self._n_sentences), texts, strict=True))

    def _detokenise(self, line: bytes) -> str:
        if line not in self._detokenised:
            words = line.decode("utf-8", "replace").split(" ")
            self._detokenised[line] = self._target.detokenise(words)
        return self._detokenised[line]

    def _tokens(self, text: str) -> bytes:
        return " ".join(self._target.bleu.tokenizer(text.rstrip()).split()).encode()

    def _ter_tokens(self, text: str) -> bytes:
        return self._target.ter.tokenizer(text.rstrip()).encode()


def _bleu_of(sums: NDArray[np.int64]) -> float:
    """BLEU of summed statistics, smoothed by sacreBLEU as it does by default; its 100.00000000000004 is 100."""
    matches, totals = sums[0:-1:2].tolist(), sums[1:-1:2].tolist()
    n_words = totals[0], int(sums[-1])
    return min(100.0, SacreBleu.compute_bleu(matches, totals, *n_words, smooth_method="exp").score)


def metrics_of_runs(names: Sequence[str]) -> list[MetricChoice]:
    """The metrics of tuned runs that can be counted on another text, in alphabetic order."""
    countable = {name for name in names if "column" not in metric_weights(name)}
    return [MetricChoice(name) for name in sorted(countable - {"bleu"})]


def lowercased_bleu(
    systems: Mapping[str, Sequence[Path]], references: Sequence[Path]
) -> dict[str, float]:
    """Each system by BLEU of its lowercased tokens, mean over its outputs; {} if no reference has capitals."""
    cased = read_references(references)
    lower = [tuple(map(_lower, texts)) for texts in cased]
    if lower == cased:
        return {}
    counter = References(lower)

    def value(output: Path) -> float:
        lines = enumerate(map(_lower, read_text_lines(output)))
        return float(bleu(counter.statistics(lines).sum(axis=0)))

    return {name: float(np.mean([*map(value, paths)])) for name, paths in systems.items()}


def _lower(text: bytes) -> bytes:
    return text.decode("utf-8", "surrogateescape").lower().encode("utf-8", "surrogateescape")


def tuned_metrics(
    systems: Mapping[str, Sequence[Path]],
    metrics: Sequence[MetricChoice],
    references: Sequence[Path],
    source: Path,
) -> dict[str, dict[str, float]]:
    """Each system by each of the metrics, as the mean over its outputs of the translated text `source`.

    Raises:
        InputError: an output has another number of lines than the references, or a metric's command wrote
            something else than a number for each line.
        ToolError: a metric's command failed.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in systems}
    for choice in metrics:
        counter = choice.references(references, source)
        for name, outputs in systems.items():
            sums = [counter.output_statistics(path).sum(axis=0) for path in outputs]
            values = [float(counter.metric.value(of_output)) for of_output in sums]
            found[name][choice.name] = float(np.mean(values))
    return found
