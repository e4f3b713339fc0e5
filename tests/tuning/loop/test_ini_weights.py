"""Where a run starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.moses_ini import read_ini
from tuning.loop.ini_weights import scattered, start_weights, untuneable_columns, without_columns
from tuning.loop.run_directory import load_run

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem


def test_the_start_is_the_file_that_was_named(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "first")
    named = tmp_path / "first" / "mine.json"
    named.write_text('{"LM0": [0.25]}')
    weights = start_weights(read_ini(system["moses.ini"]), {}, named)
    assert weights == {"Distortion0": [0.5], "LM0": [0.25]}


def test_an_added_column_starts_at_0(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "first")
    wider = system["moses.ini"].read_text().replace("LM0 path", "LM0 num-features=2 path")
    wider = wider.replace("LM0= 0.5", "LM0= 0.5 0.1")
    system["moses.ini"].write_text(wider)
    weights = start_weights(read_ini(system["moses.ini"]), {}, tmp_path / "first" / "weights.json")
    assert weights["LM0"] == [*load_run(tmp_path / "first").weights["LM0"], 0.0]


def test_features_without_weights_start_at_1_and_added_ones_where_they_are_told(
    system: FixedSystem,
) -> None:
    ini = system["moses.ini"]
    lines = "[feature]\nPhraseDictionaryMemory name=T0 num-features=2 path=t\nPhrasePenalty"
    ini.write_text(ini.read_text().replace("[feature]", lines))
    weights = start_weights(read_ini(ini), {"RNN0": 0.25}, None)
    assert weights == {
        "Distortion0": [0.5],
        "LM0": [0.5],
        "T0": [1.0, 1.0],
        "PhrasePenalty0": [1.0],
        "RNN0": [0.25],
    }
    with pytest.raises(ConfigError, match="has a feature LM0; use another name"):
        start_weights(read_ini(ini), {"LM0": 0.25}, None)
    ini.write_text("a text in the place of a moses.ini\n")
    with pytest.raises(InputError, match="found no feature, expected a moses"):
        start_weights(read_ini(ini), {}, None)


def test_weights_of_features_that_the_ini_lacks_are_left(
    system: FixedSystem, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"LM0": [0.25], "LM1": [0.5]}')
    assert start_weights(read_ini(system["moses.ini"]), {}, other) == {
        "Distortion0": [0.5],
        "LM0": [0.25],
    }


def test_without_a_spread_the_start_is_that_of_all_runs() -> None:
    weights = {"LM0": [0.5], "T0": [0.0, 0.2]}
    assert scattered(weights, 0.0, 3, ()) == weights
    assert scattered(weights, 0.1, 3, ()) == scattered(weights, 0.1, 3, ())


def test_the_scatter_has_random_numbers_of_its_own() -> None:
    """The optimisers draw from (seed,) and (seed, number): their noise is not that of the start."""
    weights = {"LM0": [1.0] * 5}
    drawn = np.log(scattered(weights, 1.0, 3, ())["LM0"])
    assert drawn.all()
    for seed in ((3,), *((3, number) for number in range(50))):
        others = np.random.default_rng(seed).standard_normal(5)
        assert np.abs(np.abs(others) - np.abs(drawn)).max() > 0.01


def test_what_may_not_move_starts_where_it_is() -> None:
    weights = {"LM0": [0.5], "T0": [0.0, 0.2], "U0": [1.0], "D0": [0.3]}
    moved = scattered(weights, 0.5, 3, {"U0_0", "D0_0"})
    assert (moved["T0"][0], moved["U0"], moved["D0"]) == (0.0, [1.0], [0.3])
    assert moved["LM0"] != weights["LM0"]
    assert moved["T0"][1] != weights["T0"][1]
    ratios = [scattered(weights, 0.5, seed, ())["LM0"][0] / 0.5 for seed in range(400)]
    assert np.log(ratios).std() == pytest.approx(0.5, rel=0.1)
    assert np.log(ratios).mean() == pytest.approx(0, abs=0.08)


def test_untuneable_features_are_those_that_moses_says(system: FixedSystem) -> None:
    ini = system["moses.ini"]
    lines = "UnknownWordPenalty\nWordPenalty name=W0 tuneable=false\nPhrasePenalty\n[weight]"
    ini.write_text(ini.read_text().replace("[weight]", lines))
    assert untuneable_columns(read_ini(ini)) == {"UnknownWordPenalty0_0", "W0_0"}


def test_columns_that_are_left_out_are_0_and_others_as_they_were() -> None:
    weights = {"T0": [0.1, 0.2], "LM0": [0.5]}
    assert without_columns(weights, ["T0_1"]) == {"T0": [0.1, 0.0], "LM0": [0.5]}
    with pytest.raises(ConfigError, match="no column T0_2 to leave out; there are T0_0, T0_1, LM0"):
        without_columns(weights, ["T0_2"])


def test_more_weights_than_the_ini_has_are_refused(system: FixedSystem, tmp_path: Path) -> None:
    named = tmp_path / "weights.json"
    named.write_text('{"LM0": [0.25, 0.5]}')
    with pytest.raises(
        InputError, match=r"weights.json: found 2 weights of LM0, expected at most 1"
    ):
        start_weights(read_ini(system["moses.ini"]), {}, named)
