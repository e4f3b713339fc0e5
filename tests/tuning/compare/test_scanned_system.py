"""What is decoded with: an ini with weights from elsewhere, or a run as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.provenance import file_digest
from moses_bridge.decoding.interface import DecoderConfig
from tuning.compare.scan import system_of_ini, system_of_run
from tuning.loop.run_directory import TuningRun, save_run

INI = """\
[feature]
WordPenalty
KENLM name=LM0 path=lm order=3
Pair name=TM0 num-features=2

[weight]
WordPenalty0= -1
LM0= 0.5
TM0= 0.2 0.3
"""


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    (tmp_path / "lm").touch()
    (tmp_path / "moses.ini").write_text(INI)
    return tmp_path / "moses.ini"


def test_weights_of_an_ini_and_of_another_run(ini: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.json"
    weights.write_text('{"LM0": [0.1], "TM0": [0.7]}')
    search = DecoderConfig(kind="builtin", neural_lm="CSLM0=serve 'a model'")
    system = system_of_ini(ini, search, 0.4, weights)
    expected = {"WordPenalty0_0": -1, "LM0_0": 0.1, "TM0_0": 0.7, "TM0_1": 0, "CSLM0_0": 0.4}
    assert system.columns() == expected
    assert system.commands == {"CSLM0": "serve 'a model'"}
    assert (system.nbest_features, system.nbest_size) == ([], 1)


def test_columns_by_their_names(ini: Path) -> None:
    system = system_of_ini(ini, DecoderConfig(kind="builtin"), 0.0, None)
    found = [system.column(name) for name in ("LM0", "LM0_0", "TM0_1")]
    assert found == ["LM0_0", "LM0_0", "TM0_1"]
    for name in ("TM0", "TM0_2", "RNN0"):
        with pytest.raises(ConfigError, match=f"no column {name}; there are WordPenalty0_0, LM0_0"):
            system.column(name)


def test_a_run_has_its_search_and_its_weights(ini: Path, tmp_path: Path) -> None:
    weights = {"WordPenalty0": [-0.5], "LM0": [0.2], "TM0": [0.1, 0.0]}
    decoder = {"kind": "builtin", "stack_size": 7, "neural_lm": ["A0=serve a"]}
    run = TuningRun(str(ini), weights, 30.0, 1, 50, decoder)
    save_run(run, tmp_path)
    with pytest.raises(ConfigError, match="the feature A0 of this run comes from the command"):
        system_of_run(tmp_path, run_commands=False)
    system = system_of_run(tmp_path, run_commands=True)
    assert (system.ini, system.weights, system.nbest_size) == (ini, weights, 50)
    assert (system.decoder.stack_size, system.decoder.neural_lm) == (7, ("A0=serve a",))


def test_a_run_whose_files_have_changed_is_refused(ini: Path, tmp_path: Path) -> None:
    hashes = {"ini": file_digest(ini), "LM0/lm": "another"}
    weights = {"WordPenalty0": [-0.5], "LM0": [0.2], "TM0": [0.1, 0.0]}
    save_run(TuningRun(str(ini), weights, 30.0, 1, 50, {}, hashes=hashes), tmp_path)
    with pytest.raises(ConfigError, match="LM0/lm changed"):
        system_of_run(tmp_path, run_commands=False)


def test_what_outputs_depend_on_changes_with_the_model(ini: Path, tmp_path: Path) -> None:
    first = system_of_ini(ini, DecoderConfig(kind="builtin"), 0.0, None).fingerprint()
    (tmp_path / "lm").write_bytes(b"other")
    second = system_of_ini(ini, DecoderConfig(kind="builtin"), 0.0, None).fingerprint()
    assert first != second
    assert {key for key in first if first[key] != second[key]} == {"files"}
