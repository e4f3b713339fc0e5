"""The result of comparing tuned systems: values alone, without any formatting."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import read_json, record_of
from moses_bridge.base.provenance import Provenance
from tuning.loop.run_directory import check_finite

TABLE = "a table.json of tuning compare"
LOWERCASED = "lowercased BLEU"  # among the metrics of a row


@dataclass(frozen=True)
class Contrast:
    """A system set against another one; see `tuning.compare.significance.Difference`.

    Attributes:
        delta: its test BLEU minus that of the other one.
        interval: ends of the 95% interval of the delta.
        p_value: p-value of the delta, over texts and runs.
        corrected_p_value: corrected for the number of rows set against the other one (Holm 1979).
        smallest_found: the true difference detected with p_value < 0.05 in 80% of cases.
        covers_runs: False where both have one run; all values are then over texts alone.
        standard_error: of the delta, over texts and runs; None in tables of earlier versions.
        degrees_of_freedom: of the t distribution of interval and p-value; None in the same tables.
    """

    delta: float
    interval: tuple[float, float]
    p_value: float
    corrected_p_value: float
    smallest_found: float
    covers_runs: bool
    standard_error: float | None = None
    degrees_of_freedom: float | None = None


@dataclass(frozen=True)
class FarScores:
    """A system on the test sentences that are far from the training text; values as in `ResultRow`."""

    test_bleu: float
    test_sd: float | None
    bootstrap_sd: float
    length_ratio: float
    precisions: list[float]
    against_baseline: Contrast | None
    against_control: Contrast | None


@dataclass(frozen=True)
class WordAccuracy:
    """The target words that have been seen about as often in training.

    Attributes:
        fewest: occurrences in the target side of the training text.
        most: occurrences; None for the most frequent words.
        n_reference_words: number of them in the first reference.
        precision: share of the output's words that are right, 0 to 100; mean over the runs, as the next two.
        recall: share of the reference's words that are in the output, 0 to 100.
        f1: harmonic mean of both, 0 to 100.
    """

    fewest: int
    most: int | None
    n_reference_words: int
    precision: float
    recall: float
    f1: float

    @property
    def label(self) -> str:
        """The range of frequencies, like "5-9"."""
        if self.most is None:
            return f"{self.fewest}+"
        return str(self.fewest) if self.fewest == self.most else f"{self.fewest}-{self.most}"


@dataclass(frozen=True)
class RunSummary:
    """How one tuning run went.

    Attributes:
        n_iterations: number of decodings of the dev text; 0 for a file of translations.
        kept: number of the decoding whose weights were kept, from 1.
        end: why there was no further decoding.
        left_start: whether its weights differ from those it started from.
        dev_bleu: 0 to 100; None for a file of translations, as no run is known.
        constant: columns with a single value in all its n-best lists.
        same_output_as: directories of other runs with the same test output, line for line.
        caution: why its weights may be no good; "" if nothing speaks against them.
    """

    directory: str
    n_iterations: int
    kept: int
    end: str
    left_start: bool
    dev_bleu: float | None
    test_bleu: float
    constant: list[str]
    same_output_as: list[str]
    caution: str = ""


@dataclass(frozen=True)
class ResultRow:
    """One system in the table.

    Attributes:
        dev_bleu: mean over the runs, 0 to 100; tokenised. None for files of translations.
        dev_sd: standard deviation over the runs; None with one run.
        test_bleu, test_sd: the same on the test text.
        against_baseline: the system set against the first one; None in its own row.
        against_control: the system set against the control; None where there is none, and in its row.
        n_networks: networks or noise columns of its runs.
        network_sd: standard deviation over the means of these; None with one.
        length_ratio: test output words for one reference word.
        precisions: of 1- to 4-grams on the test text, 0 to 100.
        bootstrap_sd: of the first run's test BLEU over resampled test sets.
        detokenised_bleu, chrf: mean sacreBLEU and chrF of the detokenised output, 0 to 100.
        ter: its mean TER; less is better.
        weights: mean weight of each feature; {} for files of translations.
        far: the system on the sentences that are far from the training text; None if that is not known.
        same_models: whether its tables and models are those of the first system, as for two optimisers.
        words: accuracy of words by their frequency in training, rarest first; empty if that is not known.
        tuned_for: name of the metric its weights were tuned for; "" for BLEU, or if it is not known.
        metrics: its value by each metric other than BLEU that a system of the table was tuned for, on tokens;
            mean over the runs; and by "lowercased BLEU" if references have capitals.
    """

    system: str
    dev_bleu: float | None
    dev_sd: float | None
    test_bleu: float
    test_sd: float | None
    against_baseline: Contrast | None
    against_control: Contrast | None
    n_runs: int
    n_networks: int
    network_sd: float | None
    length_ratio: float
    precisions: list[float]
    bootstrap_sd: float
    detokenised_bleu: float
    chrf: float
    ter: float
    weights: dict[str, list[float]]
    runs: list[RunSummary]
    far: FarScores | None = None
    same_models: bool = False
    words: list[WordAccuracy] = field(default_factory=list)
    tuned_for: str = ""
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class NgramMatches:
    """How often an n-gram of the first reference occurs in it and is matched.

    Attributes:
        ngram: words, joined by blanks.
        baseline: matches of the first system, mean over its runs.
        system: matches of the system set against it, mean over its runs.
    """

    ngram: str
    baseline: float
    system: float
    reference: int


@dataclass(frozen=True)
class NgramContrast:
    """The n-grams that distinguish a system from the first one.

    Attributes:
        won: those it matches more often, largest difference first.
        lost: those it matches less often, in the same order.
    """

    system: str
    won: list[NgramMatches]
    lost: list[NgramMatches]


@dataclass(frozen=True)
class Comparison:
    """The table and how its numbers were made.

    Attributes:
        rows: one for each system; the others are compared with the first.
        control: the system known to be useless, "" if there is none.
        made: the version that made the table; None in tables of earlier versions.
        n_documents: documents of the test text that were left out one by one; 0 where sentences were.
        near_copies: share of test sentences at least as similar as "0.5", "0.7" and "0.8" to a training
            sentence; None if it is not known.
        n_far: test sentences below the lowest of these.
        ngrams: of the best system that is neither the first one nor the control; None without such a system,
            and in tables of earlier versions.
    """

    rows: list[ResultRow] = field(default_factory=list)
    signature: str = ""
    detokenised_signatures: list[str] = field(default_factory=list)
    n_sentences: int = 0
    control: str = ""
    made: Provenance | None = None
    n_documents: int = 0
    near_copies: dict[str, float] | None = None
    n_far: int = 0
    ngrams: NgramContrast | None = None


def read_comparison(path: Path) -> Comparison:
    """The comparison in a table.json; InputError if it is missing, no such table, or has numbers not finite."""
    value = read_json(path)
    if isinstance(value, dict) and "rows" not in value:
        raise InputError(path, None, "no key 'rows'", TABLE)
    check_finite(value, path)
    return record_of(Comparison, value, path, TABLE)
