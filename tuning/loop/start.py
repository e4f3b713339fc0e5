"""Where a tuning run starts: the weights of an ini, overlaid by those of another run, and scattered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from moses_bridge.base.errors import ConfigError
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.weights import read_weights
from tuning.loop.iteration_files import Weights
from tuning.pools.nbest_pool import column_names, grouped_weights

START_STREAM = 1 << 22  # keeps the draws of the start apart from those of the optimiser (mert.py)


def start_weights(ini: Path, added: Mapping[str, float], init_weights: Path | None) -> Weights:
    """Weights of the ini and of features it does not have, overlaid by those of another run.

    A column unknown to the other run then starts at 0, so that all systems started from one run have the
    same first n-best lists. A feature of the ini without a weight line has 1 for each score, as in Moses and
    the built-in decoder.

    Raises:
        InputError: a file is malformed.
        ConfigError: the ini has a feature of an added name.
    """
    parsed = read_ini(ini)
    for feature in parsed.features:
        if feature.name in added:
            raise ConfigError(f"{ini} has a feature {feature.name}; use another name")
    weights = {name: list(values) for name, values in parsed.weights.items()}
    for feature in parsed.features:
        weights.setdefault(feature.name, [1.0] * feature.n_scores)
    weights |= {name: [weight] for name, weight in added.items()}
    if init_weights is not None:
        for name, values in read_weights(init_weights).items():
            if name in weights:
                n_missing = len(weights[name]) - len(values)
                weights[name] = [*values, *[0.0] * n_missing]
    return weights


def without_columns(weights: Weights, left_out: Sequence[str]) -> Weights:
    """The weights with 0 for some columns.

    Raises:
        ConfigError: a name is no column.
    """
    columns = {
        name: value
        for feature, values in weights.items()
        for name, value in zip(column_names({feature: len(values)}), values, strict=True)
    }
    for name in left_out:
        if name not in columns:
            raise ConfigError(f"no column {name} to leave out; there are {', '.join(columns)}")
        columns[name] = 0.0
    return grouped_weights(columns)


def untuneable_columns(ini: Path) -> set[str]:
    """Columns of the features that Moses leaves out of n-best lists, so that their weights cannot be tuned."""
    defaults = {"UnknownWordPenalty": "false"}
    sizes = {
        feature.name: feature.n_scores
        for feature in read_ini(ini).features
        if feature.arguments.get("tuneable", defaults.get(feature.kind, "true")) == "false"
    }
    return {*column_names(sizes)}


def scattered(weights: Weights, spread: float, seed: int, fixed: Collection[str]) -> Weights:
    """Scatter the weights at which a run starts.

    Args:
        weights: by feature; a weight of 0 stays 0.
        spread: each weight is multiplied by exp(spread z), z normal; 0 changes nothing.
        seed: of the z.
        fixed: columns whose weight is kept.
    """
    if spread == 0.0:
        return weights
    rng = np.random.default_rng((seed, START_STREAM))
    names = column_names({name: len(values) for name, values in weights.items()})
    row = np.array([value for values in weights.values() for value in values])
    factors = np.exp(spread * rng.standard_normal(len(row)))
    factors[[name in fixed for name in names]] = 1.0
    return grouped_weights(dict(zip(names, (row * factors).tolist(), strict=True)))
