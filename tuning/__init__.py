"""Tuning of log-linear weights against BLEU, and comparison of the tuned systems.

Names in `__all__` are public. Functions import what they need when they are called, so
`import tuning` costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moses_bridge.base.errors import UserError, arguments_named, extra_named

if TYPE_CHECKING:
    import pandas as pd

    from moses_bridge.formats.python_text import Texts
    from tuning.compare.target_text import TokenizerName
    from tuning.compare.worth import worth
    from tuning.loop.rerank import Reranked
    from tuning.loop.reranker import Reranker
    from tuning.report.results import Compared, Tuned

__all__ = [
    "Compared",
    "Reranker",
    "Tuned",
    "UserError",
    "compare_systems",
    "evaluate",
    "rerank",
    "run",
    "tune",
    "worth",
]

StrPath = str | os.PathLike[str]


# Where names are that are loaded on first use.
PLACES = {
    "Compared": "tuning.report.results",
    "Reranker": "tuning.loop.reranker",
    "Tuned": "tuning.report.results",
    "worth": "tuning.compare.worth",
}


@extra_named("report")
def __getattr__(name: str) -> object:
    """Load a class or `worth` on first use (PEP 562)."""
    if name in PLACES:
        from importlib import import_module

        return getattr(import_module(PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@arguments_named()
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
    overwrite: bool = False,
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
        overwrite: replace the run in out.

    Raises:
        UserError: a file is malformed, settings do not fit, or out holds a run that is not to be continued or
            replaced.
    """
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
    run = run_tuning(system, text, directory, config, seed, Workers(jobs), resume, overwrite)
    return Tuned(directory, run)


@arguments_named()
@extra_named("report")
def rerank(
    dev_list: StrPath,
    source: StrPath,
    references: StrPath | Sequence[StrPath],
    out: StrPath,
    test_list: StrPath | None = None,
    test_source: StrPath | None = None,
    models: Mapping[str, StrPath] | None = None,
    nbest_features: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    jobs: int = 1,
    overwrite: bool = False,
) -> Reranked:
    """Tune weights for reranking n-best lists of any decoder, as `tuning rerank --list` does.

    Args:
        dev_list: n-best list of the dev text.
        source: dev source text, tokenised.
        references: its reference, tokenised as the list is; or several.
        out: directory to write.
        test_list: n-best list of a test text, of which translations are chosen.
        test_source: its source text.
        models: directories of models whose scores are added, by the names of their features.
        nbest_features: NAME=COMMAND each, further features to add.
        settings: what a file for `--config` says: {"list_format": "marian", "n_runs": 1}.
        seed: of the first run.
        jobs: threads of the optimiser.
        overwrite: replace the reranking in out.

    Returns:
        The weights and files of each system; `outputs(out)` are the translations for `compare_systems`.

    Raises:
        UserError: a file is malformed, settings or arguments do not fit, or there is a reranking in out.
    """
    from moses_bridge.base.config import from_mapping
    from tuning.loop.list_features import NBestFeature, feature_of_model
    from tuning.loop.rerank import ListedText, rerank_lists
    from tuning.loop.settings import RerankConfig

    if (test_list is None) != (test_source is None):
        raise UserError("test_list and test_source belong together")
    config = from_mapping(RerankConfig, settings or {}, "settings")
    features = [NBestFeature.parse(text) for text in nbest_features]
    features += [feature_of_model(f"{name}={path}") for name, path in (models or {}).items()]
    dev, test = ListedText(Path(dev_list), Path(source), _paths(references)), None
    if test_list is not None and test_source is not None:
        test = ListedText(Path(test_list), Path(test_source))
    return rerank_lists(dev, test, Path(out), config, features, seed, jobs, None, overwrite)


@arguments_named()
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


@arguments_named()
@extra_named("report")
def evaluate(
    output: StrPath | Texts,
    references: StrPath | Sequence[StrPath] | Texts | Sequence[Texts],
    target_language: str = "",
    n_samples: int = 1000,
    seed: int = 1,
    groups: StrPath | None = None,
    tokenize: TokenizerName | None = None,
) -> pd.DataFrame:
    """All scores of one file or list of translations, as `tuning evaluate` prints them.

    Args:
        output: tokenised translations: a file with one a line, or a list or Series of texts.
        references: the reference, tokenised in the same way, or several: files, or lists of as many texts.
        target_language: code of the target language, as "fr" or "pt_BR"; "" for that of the references' suffix.
        n_samples: texts of the bootstrap.
        seed: of the bootstrap.
        groups: names of the documents of the sentences, one a line; the bootstrap then draws documents.
        tokenize: tokenizer of sacreBLEU for BLEU of detokenised text; None for that of the language.

    Returns:
        One row; its columns are those of `tuning.compare.output_scores.OutputScores`, the precisions as
        `precision1` to `precision4`.

    Raises:
        UserError: output and references have other numbers of lines, or cannot be read, or the language is not
            known.
    """
    from moses_bridge.base.textio import temporary_directory
    from tuning.compare.output_scores import score_output
    from tuning.compare.target_text import target_text
    from tuning.report.results import scores_in_a_row

    with temporary_directory("texts") as folder:
        if isinstance(output, str | os.PathLike):
            files = [Path(output), *_paths(references)]  # type: ignore[arg-type]
        else:
            files = _files_of_texts(output, references, folder)
        documents = None if groups is None else Path(groups)
        target = target_text(files[1:], target_language, tokenize)
        rest = (files[1:], target, n_samples, seed, documents)
        return scores_in_a_row(score_output(files[0], *rest))


def _files_of_texts(output: Texts, references: object, folder: Path) -> list[Path]:
    from moses_bridge.base.textio import write_lines
    from moses_bridge.formats.python_text import encoded_all

    if isinstance(references, str | bytes) or not isinstance(references, Iterable):
        raise UserError(f"references: found {references!r:.60}, expected texts, as output has")
    given: list[Any] = [*references]
    is_one = all(isinstance(text, str | bytes) for text in given)
    named = (
        {"references": given} if is_one else {f"references[{n}]": g for n, g in enumerate(given)}
    )
    sides = {name: encoded_all(texts, name) for name, texts in {"output": output, **named}.items()}
    for name, lines in sides.items():
        if len(lines) != len(sides["output"]):
            n_texts = len(sides["output"])
            raise UserError(
                f"{name}: found {len(lines)} texts, expected {n_texts}, as many as output"
            )
        write_lines(folder / name, lines)
    return [folder / name for name in sides]


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
    from tuning.experiments.settings import RunSettings

    given = {"out": out, **(settings or {})}
    run_experiment(_paths(experiment), from_mapping(RunSettings, given, "settings"))


def _paths(given: StrPath | Sequence[StrPath]) -> list[Path]:
    if isinstance(given, str | os.PathLike):
        return [Path(given)]
    return [Path(path) for path in given]
