"""The result of comparing tuned systems: values alone, without any formatting."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    """

    delta: float
    interval: tuple[float, float]
    p_value: float
    corrected_p_value: float
    smallest_found: float
    covers_runs: bool


@dataclass(frozen=True)
class RunSummary:
    """How one tuning run went.

    Attributes:
        directory: of the run.
        n_iterations: number of decodings of the dev text.
        kept: number of the decoding whose weights were kept, from 1.
        end: why there was no further decoding.
        left_start: whether its weights differ from those it started from.
        dev_bleu: 0 to 100.
        test_bleu: 0 to 100.
        constant: columns with a single value in all its n-best lists.
        same_output_as: directories of other runs with the same test output, line for line.
    """

    directory: str
    n_iterations: int
    kept: int
    end: str
    left_start: bool
    dev_bleu: float
    test_bleu: float
    constant: list[str]
    same_output_as: list[str]


@dataclass(frozen=True)
class ResultRow:
    """One system in the table.

    Attributes:
        system: its name.
        dev_bleu: mean over the runs, 0 to 100; tokenised.
        dev_sd: standard deviation over the runs; None with one run.
        test_bleu: the same on the test text.
        test_sd: the same on the test text.
        against_baseline: the system set against the first one; None in its own row.
        against_control: the system set against the control; None where there is none, and in its row.
        n_runs: tuning runs.
        n_networks: networks or noise columns among them.
        network_sd: standard deviation over the means of these; None with one.
        length_ratio: test output words for one reference word.
        precisions: of 1- to 4-grams on the test text, 0 to 100.
        bootstrap_sd: of the first run's test BLEU over resampled test sets.
        detokenised_bleu: mean sacreBLEU of the detokenised output, 0 to 100.
        chrf: mean chrF of the detokenised output, 0 to 100.
        ter: mean TER of the detokenised output; less is better.
        weights: mean weight of each feature.
        runs: how each run went.
    """

    system: str
    dev_bleu: float
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


@dataclass(frozen=True)
class Comparison:
    """The table and how its numbers were made.

    Attributes:
        rows: one for each system; the others are compared with the first.
        signature: of BLEU on tokens.
        detokenised_signatures: of BLEU, chrF and TER on detokenised text.
        n_sentences: of the test text.
        control: the system known to be useless, "" if there is none.
    """

    rows: list[ResultRow] = field(default_factory=list)
    signature: str = ""
    detokenised_signatures: list[str] = field(default_factory=list)
    n_sentences: int = 0
    control: str = ""
