"""Neural scorers for phrase pairs: training, scoring, and adding columns to Moses's files.

Names in `__all__` are public. Functions import what they need when called, so `import rescorer`
costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moses_bridge.base.errors import UserError, arguments_named, extra_named

if TYPE_CHECKING:
    import pandas as pd

    from moses_bridge.base.choices import ListFormat
    from rescorer.contract.choices import ColumnFormat, Device, Mean, Precision
    from rescorer.contract.scorer import NamedScorer
    from rescorer.models.model import Model
    from rescorer.training.loop import TrainingReport

__all__ = [
    "Model",
    "UserError",
    "load",
    "read_nbest",
    "read_table",
    "rescore",
    "rescore_nbest",
    "score_lines",
    "train",
    "write_nbest",
    "write_table",
]

StrPath = str | os.PathLike[str]


def __getattr__(name: str) -> object:
    """Load the class `Model`, or find the version, on first use (PEP 562)."""
    if name == "Model":
        from rescorer.models.model import Model

        return Model
    if name == "__version__":
        from importlib.metadata import version

        return version("rescorer")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@arguments_named()
def load(
    model: StrPath,
    device: Device = "auto",
    precision: Precision = "float32",
    unnormalized: bool = False,
    trust_code: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Model:
    """Load a trained model, which gives values, vectors and targets.

    Args:
        model: a directory written by `rescorer train`, or the name of a pretrained model, which
            gives values only: hf:, hf-lm:, hf-mlm:, ct2: or ct2-lm: and its directory.
        device: "auto" uses a GPU if there is one.
        precision: of the products, "float32" or "bfloat16".
        unnormalized: leave out the softmax's denominator; for models trained with
            self_normalisation.
        trust_code: import an architecture from outside this package, which runs its code.
        settings: text settings of a pretrained model: {"case": "sentence", "target_language":
            "fra_Latn"}; see `rescorer.models.pretrained.settings.PretrainedSettings`.

    Raises:
        UserError: the path is no whole model, or the settings do not fit it or this machine.
    """
    from pathlib import Path

    from rescorer.contract.compute import let_waiting_threads_sleep

    let_waiting_threads_sleep()
    from moses_bridge.base.config import from_mapping
    from rescorer.contract import choices
    from rescorer.contract.compute import Compute
    from rescorer.models.model import Model
    from rescorer.models.pretrained.settings import PretrainedSettings

    _check_choice("device", device, choices.Device)
    _check_choice("precision", precision, choices.Precision)

    given = from_mapping(PretrainedSettings, settings or {}, "settings")
    return Model(Path(model), Compute(precision, device, unnormalized), trust_code, given)


@extra_named("views")
def read_table(path: StrPath) -> pd.DataFrame:
    """Read a phrase table into a DataFrame; see `moses_bridge.formats.table_frame.read_frame`.

    Returns:
        Columns `source`, `target`, `score0`, `score1`, ..., `alignment`, `count_target`,
        `count_source`, `count_pair`, and `line`, the row as it is in the file.

    Raises:
        UserError: a row is malformed, or the file cannot be read.
    """
    from moses_bridge.formats.table_frame import read_frame

    return read_frame(path)


@extra_named("views")
def write_table(frame: pd.DataFrame, path: StrPath) -> None:
    """Write a phrase table; an unchanged frame of `read_table` gives the same bytes.

    Args:
        frame: with the columns of `read_table`; scores may be changed, added (the next number) or
            dropped.
        path: the table to write, compressed by suffix; it appears only when complete. Every row
            ends in a line end, also the last one of a table read without.

    Raises:
        UserError: a column is missing or unknown, or a value cannot be in a table.
    """
    from moses_bridge.formats.table_frame import write_frame

    write_frame(frame, path)


@extra_named("views")
def read_nbest(
    path: StrPath, list_format: ListFormat = "moses", list_size: int = 0
) -> pd.DataFrame:
    """Read an n-best list into a DataFrame, a row for each hypothesis.

    The size is the number of hypotheses of each sentence in a list of the format "plain".

    Returns:
        `sentence` (its number from 0), `target`, a column for each value of a feature (`LM0`, or `TM0_0`,
        `TM0_1`, ... for several; NaN where a hypothesis has none), `total`, and `rest`, further fields.

    Raises:
        UserError: a line is malformed, or the file cannot be read.
    """
    from moses_bridge.base.choices import ListFormat
    from moses_bridge.formats.nbest_frame import read_nbest_frame

    _check_choice("list_format", list_format, ListFormat)
    return read_nbest_frame(path, list_format, list_size)


@extra_named("views")
def write_nbest(frame: pd.DataFrame, path: StrPath) -> None:
    """Write an n-best list in Moses's format.

    Args:
        frame: with the columns of `read_nbest`; values may be changed, features added or dropped, and `total`
            and `rest` missing. Features get at most 12 digits, totals 6, as Moses's.
        path: the list to write, compressed by suffix; it appears only when complete.

    Raises:
        UserError: a column is missing or unknown, or a value cannot be in a list.
    """
    from moses_bridge.formats.nbest_frame import write_nbest_frame

    write_nbest_frame(frame, path)


@arguments_named()
def train(
    data: StrPath,
    out: StrPath,
    arch: str = "encdec",
    settings: Mapping[str, Any] | None = None,
    source: StrPath | None = None,
    links: StrPath | None = None,
    texts: tuple[StrPath, StrPath] | None = None,
    cache: StrPath | None = None,
    resume: bool = False,
    device: Device = "auto",
    seed: int = 1,
    overwrite: bool = False,
) -> TrainingReport:
    """Train a network and write its model directory, as `rescorer train` does.

    Args:
        data: a phrase table, or target text for language models and models of sentences.
        out: the model directory; `load` reads it.
        arch: the architecture, one of `rescorer train --help`, or package.module:NAME.
        settings: the content of a `--config` file, tables as mappings: {"loop": {"n_epochs": 1}}.
        source: source text, if data is its translation line by line.
        links: word alignment of source and data, for architectures that need it.
        texts: source and target text for counting the words of the shortlists.
        cache: directory for keeping the table's pairs for later trainings.
        resume: continue an interrupted training in out.
        device: "auto" uses a GPU if there is one.
        seed: of weights, held-out data, order and samples.
        overwrite: replace the training in out.

    Returns:
        Losses and other figures of the training.

    Raises:
        UserError: the data are malformed, settings and data do not fit the architecture, or there is a training
            in out and neither resume nor overwrite.
        KeyboardInterrupt: somebody interrupted it; out has a model of the best weights so far.
    """
    from pathlib import Path

    from rescorer.contract.compute import let_waiting_threads_sleep

    let_waiting_threads_sleep()
    from moses_bridge.base.config import from_mapping
    from rescorer.contract import choices
    from rescorer.contract.architectures import load as load_architecture
    from rescorer.contract.compute import choose_device
    from rescorer.contract.training import Data
    from rescorer.runs.train import train as run_training

    _check_choice("device", device, choices.Device)
    given = from_mapping(load_architecture(arch).settings, settings or {}, "settings")
    files = Data(data, source, links, texts, cache)
    where = choose_device(device)
    return run_training(arch, files, Path(out), given, resume, where, seed, overwrite=overwrite)


@arguments_named()
def rescore(
    table: StrPath,
    out: StrPath,
    models: Model | Sequence[Model],
    columns: str = "sum",
    mean: Mean | None = None,
    column_format: ColumnFormat = "prob",
    ini: StrPath | None = None,
    ini_out: StrPath | None = None,
    replace: bool = False,
    resume: bool = False,
    jobs: int | None = None,
) -> list[str]:
    """Append the columns of models to a phrase table, as `rescorer score` does.

    Args:
        table: the phrase table.
        out: the table to write, compressed by suffix.
        models: one or several, from `load`; each adds its columns.
        columns: of each model, joined by commas: sum, per-word, over-targets, unknown-words.
        mean: combine all models into one scorer by this mean; None for columns of each.
        column_format: "prob" for the probabilities read by Moses, "log" for a table of logarithms.
        ini: moses.ini naming the table.
        ini_out: moses.ini to write, naming the new table.
        replace: replace the columns added by an earlier run.
        resume: continue an interrupted run.
        jobs: threads; None for one per processor.

    Returns:
        Lines for the user: the files written, and the next steps for Moses.

    Raises:
        UserError: a row is malformed, a pair cannot be scored, or arguments do not fit together.
    """
    from pathlib import Path

    from moses_bridge.base.machine import n_processors
    from rescorer.contract import choices
    from rescorer.models.ensemble import named_ensemble
    from rescorer.tables.column import ColumnConfig, parse_columns
    from rescorer.tables.scored_table import score_table

    _check_choice("column_format", column_format, choices.ColumnFormat)
    scorers = _scorers(models)
    if mean is not None:
        _check_choice("mean", mean, choices.Mean)
        scorers = [named_ensemble(scorers, mean)]
    config = ColumnConfig(parse_columns(columns), column_format, jobs=jobs or n_processors())
    old_ini, new_ini = (None if path is None else Path(path) for path in (ini, ini_out))
    tables = (os.fspath(table), os.fspath(out))
    return score_table(*tables, scorers, config, old_ini, new_ini, resume, replace)


@arguments_named()
def rescore_nbest(
    nbest: StrPath,
    source: StrPath,
    out: StrPath,
    model: Model | Sequence[Model],
    feature: str,
    mean: Mean = "sentence-log-probs",
    per_word_feature: str = "",
    jobs: int | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
) -> int:
    """Append a feature to each entry of an n-best list, as `rescorer nbest` does.

    Args:
        nbest: the n-best list.
        source: the source text of the list.
        out: the list to write, compressed by suffix.
        model: one or several, from `load`; several are an ensemble.
        feature: its name: letters and digits.
        mean: the mean of an ensemble.
        per_word_feature: name of a second feature, the value divided by the number of words + 1; ""
            for none.
        jobs: threads; None for one per processor.
        settings: {"list_format": "marian", "skip_bad": 3}; see
            `rescorer.tables.line_settings.ListSettings`. The new list has the same format.
        resume: continue an interrupted run.

    Returns:
        The number of entries.

    Raises:
        UserError: an entry is malformed or cannot be scored, or a feature name is not allowed.
    """
    from pathlib import Path

    from moses_bridge.base.config import from_mapping
    from moses_bridge.base.machine import n_processors
    from rescorer.contract import choices
    from rescorer.models.ensemble import ensemble, fingerprint
    from rescorer.tables.line_settings import ListSettings
    from rescorer.tables.nbest import add_feature

    _check_choice("mean", mean, choices.Mean)
    named = _scorers(model)
    scorer = ensemble([each.scorer for each in named], mean)
    lists = (os.fspath(nbest), Path(source), scorer, feature, os.fspath(out))
    further = (per_word_feature, False, from_mapping(ListSettings, settings or {}, "settings"))
    return add_feature(*lists, jobs or n_processors(), *further, fingerprint(named, mean), resume)


@arguments_named()
def score_lines(
    source: StrPath,
    target: StrPath | None,
    out: StrPath,
    models: Model | Sequence[Model],
    links: StrPath | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    jobs: int | None = None,
) -> int:
    """Write the natural log-probability of each line of parallel texts, as `rescorer lines` does.

    Args:
        source: the source text.
        target: its translation line by line; None if language models score the `source`.
        out: the file to write, a line for each line, compressed by suffix.
        models: one or several, from `load`; each has a column.
        links: word links of each pair, for models that need them (an NNJM).
        settings: {"per_word": True, "format": "jsonl"}; see
            `rescorer.tables.line_settings.LineSettings`.
        resume: continue an interrupted run.
        jobs: threads; None for one per processor.

    Returns:
        The number of lines.

    Raises:
        UserError: the texts differ in length, a line cannot be scored, or arguments do not fit together.
    """
    from moses_bridge.base.config import from_mapping
    from moses_bridge.base.machine import n_processors
    from rescorer.tables import lines
    from rescorer.tables.line_settings import LineSettings, LineTexts

    given = from_mapping(LineSettings, settings or {}, "settings")
    texts = LineTexts(source, target, links)
    columns = [
        lines.LineModel(str(model.directory), model.named, model.reads_source)
        for model in _models(models)
    ]
    return lines.score_lines(texts, out, columns, given, resume, jobs or n_processors())


def _scorers(models: Model | Sequence[Model]) -> list[NamedScorer]:
    return [model.named for model in _models(models)]


def _models(models: Model | Sequence[Model]) -> list[Model]:
    from rescorer.models.model import Model

    given: list[object] = [*models] if isinstance(models, list | tuple) else [models]
    checked: list[Model] = []
    for model in given:
        if not isinstance(model, Model):
            found = f"found {model!r:.60} as a model"
            raise UserError(f"{found}, expected one of rescorer.load, or a list of them")
        checked.append(model)
    return checked


def _check_choice(name: str, value: str, literal: Any) -> None:
    from moses_bridge.base.config import choices

    allowed = choices(literal)
    if value not in allowed:
        raise UserError(f"{name}: found {value!r}, expected one of {', '.join(allowed)}")
