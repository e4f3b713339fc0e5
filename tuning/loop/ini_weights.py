"""Weights in a moses.ini: those at the start of a run, scattered or replaced, and those it found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.moses_ini import WEIGHT_FILE, MosesIni, parse_ini
from moses_bridge.formats.moses_ini_edits import moved_to, with_weight_file, with_weights, write_ini
from moses_bridge.formats.weights import read_weights, sparse_weights, write_weight_file
from tuning.loop.run_directory import SPARSE_NAME, Weights
from tuning.optimisers.nbest_pool import column_names, grouped_weights

START_STREAM = 1 << 22  # keeps the draws of the start apart from those of the optimiser (mert.py)


def start_weights(ini: MosesIni, added: Mapping[str, float], init_weights: Path | None) -> Weights:
    """Weights of an ini and of added features, replaced by those of another run where it has them.

    If a feature has more columns than in the other run, the further ones start at 0, so that all systems
    started from one run have the same first n-best lists. A feature of the ini without a weight line has 1
    for each score, as in Moses and the built-in decoder. Sparse values have those of the [weight-file].
    `init_weights` is the weights.json of the other run, or a table of this form.

    Raises:
        InputError: a file is malformed, the ini has no feature, or another file has more weights of
            a feature than the ini.
        ConfigError: an added feature has the name of one in the ini.
    """
    if not ini.features:
        raise InputError(ini.path, None, "no feature", "a moses.ini with those of the search")
    for feature in ini.features:
        if feature.name in added:
            raise ConfigError(f"{ini.path} has a feature {feature.name}; use another name")
    weights = {name: list(values) for name, values in ini.weights.items()}
    weights |= {name: [weight] for name, weight in sparse_weights(ini).items()}
    for feature in ini.features:
        if feature.n_scores:
            weights.setdefault(feature.name, [1.0] * feature.n_scores)
    weights |= {name: [weight] for name, weight in added.items()}
    if init_weights is not None:
        for name, values in read_weights(init_weights).items():
            if name in weights:
                n_missing = len(weights[name]) - len(values)
                if n_missing < 0:
                    found = f"{len(values)} weights of {name}"
                    raise InputError(init_weights, None, found, f"at most {len(weights[name])}")
                weights[name] = [*values, *[0.0] * n_missing]
    return weights


def weights_by_column(weights: Weights) -> dict[str, float]:
    """All weights by the names of their columns, as "TranslationModel0_2"."""
    names = column_names({name: len(values) for name, values in weights.items()})
    values = (value for row in weights.values() for value in row)
    return dict(zip(names, values, strict=True))


def without_columns(weights: Weights, left_out: Sequence[str]) -> Weights:
    """Set the weights of some columns, like "TranslationModel0_2", to 0.

    Raises:
        ConfigError: a name is not a column's.
    """
    columns = weights_by_column(weights)
    for name in left_out:
        if name not in columns:
            raise ConfigError(f"no column {name} to leave out; there are {', '.join(columns)}")
        columns[name] = 0.0
    return grouped_weights(columns)


def untuneable_columns(ini: MosesIni) -> set[str]:
    """Columns of the features that cannot be tuned, since Moses leaves them out of n-best lists."""
    defaults = {"UnknownWordPenalty": "false"}
    sizes = {
        feature.name: feature.n_scores
        for feature in ini.features
        if feature.arguments.get("tuneable", defaults.get(feature.kind, "true")) == "false"
    }
    return {*column_names(sizes)}


def scattered(weights: Weights, spread: float, seed: int, fixed: Collection[str]) -> Weights:
    """Scatter the initial weights of a run: each is multiplied by exp(spread z), z drawn from N(0, 1).

    A weight of 0 and those of the `fixed` columns stay; a spread of 0 changes nothing.
    """
    if spread == 0.0:
        return weights
    rng = np.random.default_rng((seed, START_STREAM))
    columns = weights_by_column(weights)
    row = np.array([*columns.values()])
    factors = np.exp(spread * rng.standard_normal(len(row)))
    factors[[name in fixed for name in columns]] = 1.0
    return grouped_weights(dict(zip(columns, (row * factors).tolist(), strict=True)))


def write_tuned_ini(ini: MosesIni, weights: Weights, out: Path) -> None:
    """Write an ini with tuned weights; features without a weight line get one at the end.

    Relative paths lead from the directory of the new ini to the same files. Sparse values with weights in the
    [weight-file] have them in a new one next to the new ini. Weights of features not in the ini are ignored.
    """
    parsed = moved_to(ini, out.parent)
    unweighted = [
        each.name for each in parsed.features if each.name not in parsed.weights and each.n_scores
    ]
    added = [f"{name}= {' '.join(['1'] * len(weights[name]))}".encode() for name in unweighted]
    if added:
        parsed = parse_ini((*parsed.lines, b"[weight]", *added), ini.path)
    tuned = {name: values for name, values in weights.items() if name in parsed.weights}
    sparse = [name for name in sparse_weights(ini) if name in weights and name not in tuned]
    if sparse:
        new = out.with_name(SPARSE_NAME)
        write_weight_file(new, {name: weights[name][0] for name in sparse})
        is_absolute = Path(ini.settings[WEIGHT_FILE][0]).is_absolute()
        parsed = with_weight_file(parsed, new.resolve() if is_absolute else Path(SPARSE_NAME))
    write_ini(with_weights(parsed, tuned), out)
