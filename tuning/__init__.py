"""Tuning of log-linear weights against BLEU, and comparison of the tuned systems.

Names in `__all__` are public. Functions import what they need when they are called, so
`import tuning` costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moses_bridge.base.errors import UserError, extra_named

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from tuning.report.results import Compared, Tuned

__all__ = ["Compared", "Tuned", "UserError", "compare_systems", "evaluate", "run", "tune"]

StrPath = str | os.PathLike[str]


@extra_named("report")
def __getattr__(name: str) -> object:
    """Load the classes of results on first use (PEP 562)."""
    if name in ("Compared", "Tuned"):
        from tuning.report import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@extra_named("report")
def tune(
    ini: StrPath,
    source: StrPath,
    references: StrPath | Sequence[StrPath],
    out: StrPath,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    resume: bool = False,
    init_weights: StrPath | None = None,
    nbest_features: Sequence[str] = (),
    jobs: int = 1,
) -> Tuned:
    """Find weights with a high dev BLEU, as `tuning tune` does.

    Args:
        ini: the moses.ini to tune; its weights are the start.
        source: dev source text, tokenised.
        references: its reference, tokenised as the output is; or several.
        out: run directory to write.
        settings: what a file for `--config` says, a table inside another one as a mapping:
            {"nbest_size": 200, "decoder": {"stack_size": 100}}.
        seed: of the optimiser and of the scattered start.
        resume: continue the run in out.
        init_weights: weights.json of the run whose weights are the start.
        nbest_features: NAME=COMMAND each, features that are added to the n-best lists.
        jobs: processes of the decoder and threads of the optimiser.

    Raises:
        UserError: a file is malformed, settings do not fit, or out holds another run.
    """
    from pathlib import Path

    from moses_bridge.base.config import from_mapping
    from tuning.loop.fingerprints import ParallelText
    from tuning.loop.list_features import NBestFeature
    from tuning.loop.settings import TuningConfig
    from tuning.loop.tuning_loop import TunedSystem, Workers
    from tuning.loop.tuning_loop import tune as run_tuning
    from tuning.report.results import Tuned

    config = from_mapping(TuningConfig, settings or {}, "settings")
    features = [NBestFeature.parse(text) for text in nbest_features]
    start = None if init_weights is None else Path(init_weights)
    system = TunedSystem(Path(ini), features, start)
    text, directory = ParallelText(Path(source), _paths(references)), Path(out)
    run = run_tuning(system, text, directory, config, seed, Workers(jobs), resume)
    return Tuned(directory, run)


@extra_named("report")
def compare_systems(
    systems: Mapping[str, StrPath | Sequence[StrPath]],
    source: StrPath,
    references: StrPath | Sequence[StrPath],
    settings: Mapping[str, Any] | None = None,
    training: StrPath | Sequence[StrPath] = (),
    groups: StrPath | None = None,
    jobs: int = 1,
) -> Compared:
    """Translate a test text with tuned systems and compare them, as `tuning compare` does.

    The name `compare` is taken by a folder of this package.

    Args:
        systems: the run directory or directories of each system, or files of translations; the first one is
            the baseline.
        source: test source text, tokenised.
        references: its reference, tokenised as the output is; or several.
        settings: what a file for `--config` says: {"target_language": "de", "n_samples": 1000}.
        training: source sides of training texts; the systems are then also compared on the sentences far from
            them.
        groups: names of the documents of the test sentences, one a line.
        jobs: processes of the decoder. For more than one, a script needs `if __name__ == "__main__":`.

    Raises:
        UserError: a run or text is malformed, or does not fit the others.
    """
    from pathlib import Path

    from moses_bridge.base.config import from_mapping
    from tuning.compare.sentence_facts import TextContext
    from tuning.compare.systems import CompareConfig, compare
    from tuning.report.results import Compared

    if not systems:
        raise UserError("systems: found none, expected the runs of one at least by its name")
    config = from_mapping(CompareConfig, settings or {}, "settings")
    named = {name: _paths(runs) for name, runs in systems.items()}
    texts = (Path(source), _paths(references))
    documents = None if groups is None else Path(groups)
    context = TextContext(_paths(training), groups=documents)
    return Compared(compare(named, *texts, config, jobs, context))


@extra_named("report")
def evaluate(
    output: StrPath,
    references: StrPath | Sequence[StrPath],
    target_language: str = "fr",
    n_samples: int = 1000,
    seed: int = 1,
    groups: StrPath | None = None,
) -> pd.DataFrame:
    """All scores of one file of translations, as `tuning evaluate` prints them.

    Args:
        output: tokenised translations, one a line.
        references: the reference, tokenised in the same way; or several.
        target_language: code of the target language, for the detokenizer.
        n_samples: texts of the bootstrap.
        seed: of the bootstrap.
        groups: names of the documents of the sentences, one a line; the bootstrap then draws documents.

    Returns:
        One row; its columns are those of `tuning.compare.output_scores.OutputScores`, the precisions as
        `precision1` to `precision4`.

    Raises:
        UserError: output and references have other numbers of lines, or cannot be read.
    """
    from pathlib import Path

    from tuning.compare.output_scores import score_output
    from tuning.report.results import scores_in_a_row

    documents = None if groups is None else Path(groups)
    rest = (_paths(references), target_language, n_samples, seed, documents)
    return scores_in_a_row(score_output(Path(output), *rest))


def run(
    experiment: StrPath | Sequence[StrPath], out: StrPath, settings: Mapping[str, Any] | None = None
) -> None:
    """Run an experiment and print its tables, as `tuning run` does; needs GNU make.

    Args:
        experiment: an experiment of the package, such as "table1", a file of TOML, or several.
        out: folder of the build; what is finished there is not made again.
        settings: the other options of the command: {"corpus": "corpus", "languages": ["en", "de"]}.

    Raises:
        UserError: a setting is faulty, make or a file is missing, or a step failed.
    """
    from moses_bridge.base.config import from_mapping
    from tuning.experiments.run import run_experiment
    from tuning.experiments.run_settings import RunSettings

    given = {"out": out, **(settings or {})}
    run_experiment(_paths(experiment), from_mapping(RunSettings, given, "settings"))


def _paths(given: StrPath | Sequence[StrPath]) -> list[Path]:
    """One path or several as a list."""
    from pathlib import Path

    if isinstance(given, str | os.PathLike):
        return [Path(given)]
    return [Path(path) for path in given]
