"""The moses.ini of a table with added columns, and the commands for converting it to binary tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import COMPRESSIONS
from moses_bridge.formats.moses_ini import Feature, MosesIni, read_ini
from moses_bridge.formats.moses_ini_edits import moved_to, path_like, with_added_scores, write_ini
from rescorer.tables.column import Column
from rescorer.tables.run import Run

TABLE_KIND = "PhraseDictionaryMemory"
# For `initial_weights`; train-model.perl gives each score of a table the weight 0.2.
SHARE_OF_LARGEST_WEIGHT = 0.1
DEFAULT_TABLE_WEIGHT = 0.2


def table_feature(ini: MosesIni, table: Path) -> Feature:
    """The ini's feature for the table: the one with its path, else the only phrase table of the ini.

    Raises:
        InputError: the ini has no phrase table, or several and none with this path.
    """
    features = ini.of_kind(TABLE_KIND)
    for feature in features:
        if ini.file(feature.arguments.get("path", "")).resolve() == table.resolve():
            return feature
    if len(features) == 1:
        return features[0]
    raise InputError(
        ini.path,
        None,
        f"{len(features)} features of type {TABLE_KIND}, none with path={table}",
        "the one that reads the table",
    )


def refuse_unfit_ini(ini_path: Path, ini_out: Path, table: Path, out: Path, n_scores: int) -> None:
    """Refuse an ini that cannot be patched for the table, before any work is done.

    Args:
        ini_path: moses.ini of the table.
        ini_out: the ini to write.
        table: the table to score.
        out: the table to write.
        n_scores: dense scores of its rows.

    Raises:
        InputError: the ini has no feature or no weights for the table, or another number of scores,
            or a path contains a blank or "#", where Moses cuts it off.
    """
    ini = read_ini(ini_path)
    feature = table_feature(ini, table)
    place = path_like(ini, feature, out, ini_out.parent)
    if feature.n_scores != n_scores:
        raise InputError(
            ini_path,
            None,
            f"num-features={feature.n_scores} for {feature.name}",
            f"{n_scores}, as the rows of {table} have",
        )
    with_added_scores(moved_to(ini, ini_out.parent), feature.name, place, [])


def patch_ini(ini_path: Path, ini_out: Path, run: Run) -> None:
    """Write the ini for the new table: num-features, path and weights change together.

    Relative paths stay relative: in another directory they lead from there to the same files. Nothing else
    changes. Columns in the place of earlier ones have initial weights too.

    Args:
        ini_path: moses.ini of the scored table.
        ini_out: the ini to write.
        run: the finished run.

    Raises:
        InputError: the ini does not belong to the table.
    """
    ini = read_ini(ini_path)
    feature = table_feature(ini, Path(run.path))
    out = path_like(ini, feature, Path(run.out), ini_out.parent)
    old_weights = ini.weights.get(feature.name, ())[: run.n_old_scores]
    weights = initial_weights(old_weights, [column for column, _ in run.columns])
    n_replaced = feature.n_scores - run.n_old_scores
    ini = moved_to(ini, ini_out.parent)
    write_ini(with_added_scores(ini, feature.name, out, weights, n_replaced), ini_out)


def initial_weights(old_weights: Sequence[float], columns: Sequence[Column]) -> list[float]:
    """Weights of the added columns, small enough for the untuned system to work.

    They are a tenth of the table's largest weight, and 0 for unknown words. A phrase's log-probability is
    larger than its other scores together, and the old weights may be normalised to any sum.

    Args:
        old_weights: weights of the table's other scores.
        columns: the added columns.
    """
    largest = max((abs(weight) for weight in old_weights), default=DEFAULT_TABLE_WEIGHT)
    weight = SHARE_OF_LARGEST_WEIGHT * (largest or DEFAULT_TABLE_WEIGHT)
    return [0.0 if column == "unknown-words" else weight for column in columns]


def binary_table_commands(run: Run) -> list[str]:
    """Moses's commands for converting the new table to binary ones, with the right number of scores.

    Without the number, processPhraseTableMin assumes 4 and CreateProbingPT does not check the rows.
    processPhraseTableMin always takes the logarithm, CreateProbingPT only with --log-prob. So a table of
    logarithms can be converted by CreateProbingPT only.
    """
    out, n_scores = Path(run.out), str(run.n_scores)
    stem = out.with_suffix("") if out.suffix in COMPRESSIONS else out
    probing = ["CreateProbingPT", "--input-pt", str(out), "--output-dir", f"{stem}.probing"]
    probing += ["--num-scores", n_scores]
    if run.config.column_format == "log":
        return [shlex.join(probing)]
    compact = ["processPhraseTableMin", "-in", str(out), "-out", str(stem), "-nscores", n_scores]
    compact += ["-rankscore", "2"]
    if not run.has_alignment:
        compact += ["-encoding", "None"]
    return [shlex.join(compact), shlex.join([*probing, "--log-prob"])]
